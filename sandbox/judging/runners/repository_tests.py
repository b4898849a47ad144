"""Run of pytest nodes in a working folder, with a verdict for each node.

A node that pytest does not report has failed. pytest runs in the same process as the candidate's
code. If the candidate wrote a file that could control pytest, nothing runs.
"""

from pathlib import PurePosixPath

from sandbox.interface import Sandbox
from sandbox.judging.judged_run import Records, harmless, of_cases, run_job
from sandbox.judging.runners.programs import RepositoryProgram
from schemas.run import Limits
from schemas.verdict import CaseVerdict, FailureReason, Outcome, ProgramVerdict

_REFUSED = (
    "conftest.py",
    "pytest.ini",
    ".pytest.ini",
    "sitecustomize.py",
    "usercustomize.py",
    "pytest.py",
    "_pytest.py",
)
_PASSED = ("PASSED", "XFAIL")


def run_repository(sandbox: Sandbox, program: RepositoryProgram, limits: Limits) -> ProgramVerdict:
    """Run the files of the nodes with pytest, without the environment's plugins.

    Returns:
        A verdict with a case for each node id. A node passes if pytest reports PASSED or XFAIL. It
        fails otherwise, also if it is not in the report.

    Raises:
        SandboxUnavailable: the sandbox could not run pytest.
        ValueError: there is no node id, or a file name leaves the folder.
    """
    if not program.node_ids:
        raise ValueError("a repository without node ids has no verdict: pass at least one")
    refusal = steering_file(program)
    if refusal is not None:
        detail = f"tampering: the candidate wrote {refusal}, which decides what pytest does"
        cases = tuple(
            CaseVerdict(name=name, outcome=Outcome.FAILED, detail=detail)
            for name in program.node_ids
        )
        return of_cases(
            ProgramVerdict(outcome=Outcome.FAILED, reason=FailureReason.TAMPERING), cases
        )
    tests = sorted({node.partition("::")[0] for node in program.node_ids})
    texts = {
        "files": tests,
        "nodes": program.node_ids,
        "arguments": program.arguments,
        "paths": program.folders,
    }
    texts |= {"environment": (program.environment,), "warnings": ()}
    job = {"kind": "pytest", **{name: "\n".join(lines) for name, lines in texts.items()}}
    ran, records = run_job(sandbox, job, (), limits, dict(program.files))
    return of_cases(ran, tuple(_of_node(name, ran, records) for name in program.node_ids))


def steering_file(program: RepositoryProgram) -> str | None:
    """Return the first of the candidate's files that could control pytest, or None.

    Such files are settings, start-up files and the tests themselves.
    """
    tests = {node.partition("::")[0] for node in program.node_ids}
    for name in program.by_candidate:
        plain = PurePosixPath(name)
        if plain.name in _REFUSED or plain.suffix == ".pth" or str(plain) in tests:
            return name
    return None


def _of_node(name: str, ran: ProgramVerdict, records: Records) -> CaseVerdict:
    word, detail = records.get(f"node {name}", ("", ""))
    is_sound = ran.outcome is Outcome.PASSED
    pytest_says = "" if word in ("", "PASSED") else f"pytest says {word}"
    if is_sound and word in _PASSED:
        return CaseVerdict(name=name, outcome=Outcome.PASSED, detail=pytest_says)
    outcome = Outcome.FAILED if is_sound or word else ran.outcome
    text = "\n".join(filter(None, (pytest_says, detail or ran.detail))) or "pytest did not run it"
    return CaseVerdict(name=name, outcome=outcome, detail=harmless(text))
