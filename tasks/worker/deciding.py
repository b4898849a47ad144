"""Verdicts on an episode's answers. Stored verdicts are reused, the others need programs."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from sandbox.interface import ImageSandbox, Sandbox
from sandbox.judging.judged_run import LONGEST_CASE_DETAIL
from sandbox.judging.patched_repository import OpenPlace, PatchProgram, run_patch
from sandbox.judging.runners.programs import TestProgram
from sandbox.judging.runners.run import run_answer
from sandbox.workspace.interface import image_of
from sandbox.workspace.workspace import Workspace, open_workspace, workspaces_of
from schemas.episode import Episode, StopReason
from schemas.errors import SandboxUnavailable, Unscorable
from schemas.problem import RepoSnapshot
from schemas.run import Limits, RunSpec
from schemas.verdict import (
    CaseVerdict,
    FailureReason,
    Outcome,
    ProgramVerdict,
    TestVerdict,
)
from tasks.benchmarks.contract import TestRun
from tasks.storage.files.environments import Environments
from tasks.storage.files.trees import TreeStore
from tasks.worker.images import held_repository
from tasks.worker.jobs import ExecuteItem, RunContext
from tasks.worker.program_book import ProgramFacts
from tasks.worker.workspaces import program_in_place

_DECIDED = ("outcome", "detail", "reason", "duration_s", "n_cases", "n_passed")
"""Fields of a verdict that come from the run of its program."""


@dataclass(frozen=True)
class DueVerdict:
    """Required verdict: one instruction of one test run of an episode."""

    test: TestRun
    instruction_id: str
    cases: tuple[str, ...]
    """Names of the program's cases that decide the verdict. Empty if all cases decide it."""


@dataclass(frozen=True)
class Answer:
    """Answer of one turn, with the verdicts that it requires."""

    code: str | None
    limits: Limits
    due: tuple[DueVerdict, ...]


def answers_of(spec: RunSpec, tests: Sequence[TestRun]) -> list[Answer]:
    """Group test runs by (answer, limits), in order of first appearance."""
    groups: dict[tuple[int, str | None, str], tuple[Limits, list[DueVerdict]]] = {}
    for test in tests:
        limits = test.limits or spec.limits
        _, due = groups.setdefault((test.turn, test.code, limits.model_dump_json()), (limits, []))
        due += [DueVerdict(test, name, cases) for name, cases in test.rows]
    return [Answer(code, limits, tuple(due)) for (_, code, _), (limits, due) in groups.items()]


def id_of(context: RunContext, test: TestRun, cases: tuple[str, ...] = ()) -> str | None:
    """Return the verdict id of these cases of a program, or of all cases.

    Return None if there is no answer to run.
    """
    if test.code is None:
        return None
    return ProgramFacts.of_run(context).id_of(test.program, cases)


def decide(
    context: RunContext,
    sandbox: Sandbox,
    item: ExecuteItem,
    answer: Answer,
    known: Mapping[str, TestVerdict],
) -> tuple[list[TestVerdict], int, int]:
    """Return the verdicts of an answer, the number of programs run, and that of sandbox runs.

    Args:
        known: Verdicts of other episodes or runs, by id.
    """
    reports = _reports_of(item.episode)
    ids = [id_of(context, due.test, due.cases) for due in answer.due]
    results: list[Result | TestVerdict | None] = []
    for due, key in zip(answer.due, ids, strict=True):
        report = reports.get(id_of(context, due.test) or "") if reports else None
        results.append(None if key is None else report or known.get(key))
    pending = [n for n, key in enumerate(ids) if key is not None and results[n] is None]
    ran, n_runs = _run(context, sandbox, [answer.due[n].test for n in pending], answer.limits)
    for n in pending:
        results[n] = ran[id(answer.due[n].test)]
    verdicts = [
        _verdict(context, item.episode, due, key, result)
        for due, key, result in zip(answer.due, ids, results, strict=True)
    ]
    return verdicts, len(pending), n_runs


Result = ProgramVerdict | SandboxUnavailable | Unscorable
"""Report of a program, or the reason why there is no report."""


def _verdict(
    context: RunContext,
    episode: Episode,
    due: DueVerdict,
    key: str | None,
    result: Result | TestVerdict | None,
) -> TestVerdict:
    if result is None:
        decided = _without_answer(episode, context.spec.refused)
    elif isinstance(result, Unscorable):
        decided = {
            "outcome": Outcome.UNSCORED,
            "detail": str(result),
            "reason": FailureReason(result.reason),
        }
    elif isinstance(result, SandboxUnavailable) and str(result).startswith(
        f"{FailureReason.IMAGE_MISSING}:"
    ):
        decided = {
            "outcome": Outcome.INFRA,
            "detail": str(result),
            "reason": FailureReason.IMAGE_MISSING,
        }
    elif isinstance(result, SandboxUnavailable):
        decided = {"outcome": Outcome.INFRA, "detail": str(result)}
    elif isinstance(result, TestVerdict):
        decided = {name: getattr(result, name) for name in _DECIDED}
    else:
        decided = _of_cases(result, due.cases)
    return TestVerdict(
        run_id=context.run_id,
        benchmark=context.spec.benchmark,
        model=context.spec.label,
        episode_id=episode.episode_id,
        problem_id=episode.problem_id,
        sample=episode.sample,
        turn=due.test.turn,
        instruction_id=due.instruction_id,
        verdict_id=key,
        sandbox=context.spec.sandbox,
        **decided,
    )


def _without_answer(episode: Episode, refused: str) -> dict[str, Any]:
    outcome = Outcome.INFRA if episode.stop_reason is StopReason.INFRA else Outcome.ERROR
    if outcome is Outcome.INFRA and (episode.error or "").startswith(
        f"{FailureReason.IMAGE_MISSING}:"
    ):
        return {"outcome": outcome, "detail": episode.error, "reason": FailureReason.IMAGE_MISSING}
    if episode.stop_reason is StopReason.REFUSED and refused == "failed":
        return {"outcome": Outcome.FAILED, "detail": episode.error, "reason": FailureReason.REFUSED}
    return {"outcome": outcome, "detail": episode.error or "no answer"}


def _reports_of(episode: Episode) -> dict[str, ProgramVerdict]:
    """Return the reports of programs that ran within the dialogue, by verdict id.

    Timeouts are included, because later messages of the dialogue already answer them.
    """
    ran = (
        report
        for step in episode.steps
        for report in (step.program, *step.programs)
        if report is not None
    )
    return {report.verdict_id: report for report in ran}


def _run(
    context: RunContext, sandbox: Sandbox, pending: Sequence[TestRun], limits: Limits
) -> tuple[dict[int, Result], int]:
    """Run each program once, however many instructions it decides. Return results by test `id`."""
    by_image: dict[str, dict[int, TestRun]] = {}
    for test in pending:
        by_image.setdefault(test.image, {})[id(test)] = test
    results: dict[int, Result] = {}
    n_runs = 0
    for image, tests in by_image.items():
        place = sandbox_in(sandbox, image)
        if place is None:
            results |= dict.fromkeys(
                tests,
                Unscorable(f"its tests run in the image {image}, which needs the sandbox docker"),
            )
        else:
            reports, n = _run_in(context, place, tuple(tests.values()), limits)
            results |= reports
            n_runs += n
    return results, n_runs


def sandbox_in(sandbox: Sandbox, image: str) -> Sandbox | None:
    """Return the sandbox that runs programs in this image, or None if it runs no images.

    An empty image means the sandbox's own environment.
    """
    return (
        sandbox
        if not image
        else sandbox.with_image(image)
        if isinstance(sandbox, ImageSandbox)
        else None
    )


def _run_in(
    context: RunContext, sandbox: Sandbox, tests: Sequence[TestRun], limits: Limits
) -> tuple[dict[int, Result], int]:
    """Run the programs of one image. Return results by test `id`, and the number of runs."""
    results: dict[int, Result] = {}
    programs: dict[int, TestProgram] = {}
    n_patches = 0
    for test in tests:
        if test.repository is not None:
            results[id(test)] = _run_patch(context, sandbox, test, test.repository, limits)
            n_patches += 1
            continue
        try:
            programs[id(test)] = program_in_place(context.resources, test.program)
        except (SandboxUnavailable, Unscorable) as missing:
            results[id(test)] = missing
    reports, n_runs = run_answer(sandbox, tuple(programs.values()), limits, LONGEST_CASE_DETAIL)
    results |= dict(zip(programs, reports, strict=True))
    return results, n_runs + n_patches


def _run_patch(
    context: RunContext, sandbox: Sandbox, test: TestRun, repository: RepoSnapshot, limits: Limits
) -> Result:
    """Apply a patch in a separate workspace, run its tests, and return the result."""
    trees, open_place = patch_places(context, sandbox, limits)
    try:
        with held_repository(context, repository) as snapshot:
            return run_patch(open_place, trees, PatchProgram(test.code or "", snapshot), limits)
    except (SandboxUnavailable, Unscorable) as fault:
        return fault


def patch_places(
    context: RunContext, sandbox: Sandbox, limits: Limits
) -> tuple[TreeStore, OpenPlace]:
    """Return the store of source trees, and a function that opens a workspace in one of them."""
    trees = TreeStore(context.place.trees)
    environments = Environments(context.place.environments)

    def open_place(tree: str, environment: str) -> AbstractContextManager[Workspace]:
        packages = "" if image_of(environment) else environment
        shown = environments.shown(packages) if packages else {}
        return open_workspace(
            workspaces_of(sandbox), trees, tree, limits=limits, with_state=False, shown=shown
        )

    return trees, open_place


def _of_cases(report: ProgramVerdict, names: tuple[str, ...]) -> dict[str, Any]:
    """Return a verdict's fields from the named cases, or from all cases if `names` is empty.

    A named case that the report lacks was not run and counts as failed.
    """
    by_name = {case.name: case for case in report.cases}
    absent = CaseVerdict(name="", outcome=Outcome.FAILED, detail="no test of this name was run")
    cases = [
        by_name.get(name, absent.model_copy(update={"name": name})) for name in names
    ] or report.cases
    missed = [case for case in cases if case.outcome is not Outcome.PASSED]
    fields = {name: getattr(report, name) for name in ("outcome", "detail", "reason", "duration_s")}
    if names and report.reason is None:
        worst = next(
            (case for case in missed if case.outcome is Outcome.TIMEOUT),
            missed[0] if missed else None,
        )
        fields["outcome"] = Outcome.PASSED if worst is None else worst.outcome
        fields["detail"] = "" if worst is None else f"{worst.name}\n{worst.detail}"
    return fields | {
        "n_cases": len(cases) or None,
        "n_passed": len(cases) - len(missed) if cases else None,
    }
