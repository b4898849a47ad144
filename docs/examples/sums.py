"""The smallest benchmark: `parley run docs/examples/sums.py --model control:gold`."""

from tasks.benchmarks.one_file import Item, benchmark


@benchmark("sums", title="Sums in two steps")
def SUMS(row):
    return Item(
        row["id"], [row["question"], row["change"]], tests=row["tests"], reference=row["solution"]
    )
