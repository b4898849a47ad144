"""An agentic benchmark: an agent repairs a small project, and tests that it never sees judge the result.

    parley run docs/examples/repairs.py --model SPEC --agent autonomous

A row's files are lists of lines. The user states the problem, and says a detail more where the agent asks.
"""

from tasks.benchmarks.one_file import Item, Repository, benchmark


def texts(files):
    return {path: "".join(f"{line}\n" for line in lines) for path, lines in files.items()}


@benchmark("repairs", title="Repairs of small projects", agentic=True)
def REPAIRS(row):
    repository = Repository(texts(row["files"]), texts(row["test_files"]), texts(row["fixed"]))
    return Item(
        row["id"], [row["problem"], row["detail"]], tests=row["tests"], repository=repository
    )
