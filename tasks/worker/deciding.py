"""Verdicts on an episode's answers: taken over where they are known, else decided by running each answer's programs."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from sandbox.interface import ImageSandbox, Sandbox
from sandbox.judging.judged_run import LONGEST_CASE_DETAIL
from sandbox.judging.patched_repository import OpenPlace, PatchProgram, run_patch
from sandbox.judging.runners.programs import TestProgram
from sandbox.judging.runners.run import run_answer
from sandbox.workspace.interface import ENVIRONMENT_PLACE, image_of
from sandbox.workspace.workspace import Workspace, open_workspace, workspaces_of
from schemas.content_id import content_id
from schemas.episode import Episode, StopReason
from schemas.errors import SandboxUnavailable, Unscorable
from schemas.problem import RepoSnapshot
from schemas.run import Limits, RunSpec
from schemas.verdict import CaseVerdict, FailureReason, Outcome, ProgramVerdict, TestVerdict, verdict_id
from tasks.benchmarks.contract import TestRun
from tasks.dialogue.programs import Place
from tasks.storage.files.environments import Environments
from tasks.storage.files.trees import TreeStore
from tasks.worker.jobs import ExecuteItem, RunContext
from tasks.worker.placed_programs import NO_TREE, program_in_place

DECIDED = ("outcome", "detail", "reason", "duration_s", "n_cases", "n_passed")
"""Fields of a verdict that running the program decides."""
Decided = Mapping[str, Any]
"""Those fields with their values."""
Row = tuple[TestRun, str, tuple[str, ...]]
"""A program, an instruction that it decides, and the names of the cases that do."""


@dataclass(frozen=True)
class Answer:
    """What is due on one turn's answer."""

    code: str | None
    limits: Limits
    rows: tuple[Row, ...]


def answers_of(spec: RunSpec, tests: Sequence[TestRun]) -> list[Answer]:
    """Test runs by the answer that they test and the limits that they run under, as they first stand."""
    found: dict[tuple[int, str | None, str], tuple[Limits, list[Row]]] = {}
    for test in tests:
        limits = test.limits or spec.limits
        _, rows = found.setdefault((test.turn, test.code, limits.model_dump_json()), (limits, []))
        rows += [(test, name, cases) for name, cases in test.rows]
    return [Answer(code, limits, tuple(rows)) for (_, code, _), (limits, rows) in found.items()]


def id_of(context: RunContext, row: Row) -> str | None:
    """The verdict's id; None where there is no answer to run."""
    return _id_of(context, row[0], row[2])


def _id_of(context: RunContext, test: TestRun, cases: tuple[str, ...]) -> str | None:
    """Id of what these cases of a program say; of its report as a whole without any."""
    if test.code is None:
        return None
    return verdict_id(
        code=test.code,
        tests=test.tests,
        runner_version=context.spec.runner_version,
        environment=context.environment,
        limits=test.limits or context.spec.limits,
        kind=test.kind,
        entry_point=test.entry_point,
        tree=_place_of(test),
        cases=cases,
        placing=test.placing,
        image=test.image,
    )


def _place_of(test: TestRun) -> str:
    """What names the files that its tests run in; nothing where there are none."""
    if test.repository is not None:
        return content_id(test.repository)
    return "" if test.tree is None else test.tree.name


def decide(
    context: RunContext, sandbox: Sandbox, item: ExecuteItem, answer: Answer, known: Mapping[str, Decided]
) -> tuple[list[TestVerdict], int, int]:
    """A verdict for each row of the answer, how many of them had to be run, and in how many runs of the sandbox."""
    ids = [id_of(context, row) for row in answer.rows]
    told = _told_in_dialogue(item.episode)
    reports = [told.get(_id_of(context, row[0], ()) or "") if told else None for row in answer.rows]
    decided = [
        None if key is None else known.get(key) if report is None else _of_cases(report, row[2])
        for row, key, report in zip(answer.rows, ids, reports, strict=True)
    ]
    owed = [row for row, key, found in zip(answer.rows, ids, decided, strict=True) if key is not None and found is None]
    ran, n_runs = _run(context, sandbox, owed, answer.limits)
    fresh = iter(ran)
    verdicts: list[TestVerdict] = []
    for row, key, found in zip(answer.rows, ids, decided, strict=True):
        said = _without_answer(item.episode) if key is None else found or next(fresh)
        verdicts.append(_verdict(context, item.episode, row, key, said))
    return verdicts, len(owed), n_runs


def _verdict(context: RunContext, episode: Episode, row: Row, key: str | None, decided: Decided) -> TestVerdict:
    return TestVerdict(
        run_id=context.run_id,
        benchmark=context.spec.benchmark,
        model=context.spec.label,
        episode_id=episode.episode_id,
        problem_id=episode.problem_id,
        sample=episode.sample,
        turn=row[0].turn,
        instruction_id=row[1],
        verdict_id=key,
        sandbox=context.spec.sandbox,
        **decided,
    )


def _without_answer(episode: Episode) -> Decided:
    outcome = Outcome.INFRA if episode.stop_reason is StopReason.INFRA else Outcome.ERROR
    return {"outcome": outcome, "detail": episode.error or "no answer"}


def _told_in_dialogue(episode: Episode) -> dict[str, ProgramVerdict]:
    """Reports of programs run within the dialogue, by id; timeouts too, since later messages built on them."""
    ran = (report for step in episode.steps for report in (step.program, *step.programs) if report is not None)
    return {report.verdict_id: report for report in ran}


def _run(context: RunContext, sandbox: Sandbox, owed: Sequence[Row], limits: Limits) -> tuple[list[Decided], int]:
    """Runs each program once, whatever the number of instructions that it decides."""
    by_image: dict[str, dict[int, TestRun]] = {}
    for test, _, _ in owed:
        by_image.setdefault(test.image, {})[id(test)] = test
    found: dict[int, ProgramVerdict | SandboxUnavailable | Unscorable] = {}
    n_runs = 0
    for image, tests in by_image.items():
        place = sandbox_in(sandbox, image)
        if place is None:
            found |= dict.fromkeys(tests, Unscorable(f"its tests run in the image {image}, which needs the sandbox docker"))
        else:
            said, n = _run_in(context, place, tuple(tests.values()), limits)
            found |= said
            n_runs += n
    return [_decided(found[id(test)], cases) for test, _, cases in owed], n_runs


def sandbox_in(sandbox: Sandbox, image: str) -> Sandbox | None:
    """Return the sandbox that runs programs in an image (empty: in its own place); None where it runs no images."""
    return sandbox if not image else sandbox.of_image(image) if isinstance(sandbox, ImageSandbox) else None


def _run_in(
    context: RunContext, sandbox: Sandbox, tests: Sequence[TestRun], limits: Limits
) -> tuple[dict[int, ProgramVerdict | SandboxUnavailable | Unscorable], int]:
    """What each program of one place said, by its id, and in how many runs."""
    found: dict[int, ProgramVerdict | SandboxUnavailable | Unscorable] = {}
    programs: dict[int, TestProgram] = {}
    n_patches = 0
    for test in tests:
        if test.repository is not None:
            found[id(test)] = _run_patch(context, sandbox, test, test.repository, limits)
            n_patches += 1
            continue
        try:
            programs[id(test)] = placed_program(context, test, test.code or "")
        except (SandboxUnavailable, Unscorable) as missing:
            found[id(test)] = missing
    said, n_runs = run_answer(sandbox, tuple(programs.values()), limits, LONGEST_CASE_DETAIL)
    found |= dict(zip(programs, said, strict=True))
    return found, n_runs + n_patches


def _run_patch(
    context: RunContext, sandbox: Sandbox, test: TestRun, repository: RepoSnapshot, limits: Limits
) -> ProgramVerdict | SandboxUnavailable | Unscorable:
    """Grades a patch in a place of its own."""
    trees, open_place = patch_places(context, sandbox, limits)
    try:
        return run_patch(open_place, trees, PatchProgram(test.code or "", repository), limits)
    except (SandboxUnavailable, Unscorable) as fault:
        return fault


def patch_places(context: RunContext, sandbox: Sandbox, limits: Limits) -> tuple[TreeStore, OpenPlace]:
    """Return the trees that patches are for, and what opens a fresh workspace in one of them."""
    trees = TreeStore(context.place.trees)
    environments = Environments(context.place.environments)

    def open_place(tree: str, environment: str) -> AbstractContextManager[Workspace]:
        packages = "" if image_of(environment) else environment
        shown = {ENVIRONMENT_PLACE: str(environments.folder(packages))} if packages else {}
        return open_workspace(workspaces_of(sandbox), trees, tree, limits=limits, with_state=False, shown=shown)

    return trees, open_place


def placed_program(context: RunContext, test: TestRun, code: str) -> TestProgram:
    """Return the test run's program with this code in the answer's place. Raises: as `program_in_place`."""
    return program_in_place(context.resources, test.kind, code, test.tests, _place(test))


def _place(test: TestRun) -> Place | None:
    if test.tree is None:
        return Place(NO_TREE, test.entry_point) if test.entry_point else None
    return Place(test.tree, test.entry_point, test.placing)


def _decided(said: ProgramVerdict | SandboxUnavailable | Unscorable, cases: tuple[str, ...]) -> Decided:
    if isinstance(said, Unscorable):
        return {"outcome": Outcome.UNSCORED, "detail": str(said), "reason": FailureReason(said.reason)}
    if isinstance(said, SandboxUnavailable):
        return {"outcome": Outcome.INFRA, "detail": str(said)}
    return _of_cases(said, cases)


def _of_cases(said: ProgramVerdict, names: tuple[str, ...]) -> Decided:
    """A verdict's fields, by those cases alone where some are named; a name that no case has is a test that did not run."""
    by_name = {case.name: case for case in said.cases}
    absent = CaseVerdict(name="", outcome=Outcome.FAILED, detail="no test of this name was run")
    cases = [by_name.get(name, absent.model_copy(update={"name": name})) for name in names] or said.cases
    missed = [case for case in cases if case.outcome is not Outcome.PASSED]
    fields = {name: getattr(said, name) for name in ("outcome", "detail", "reason", "duration_s")}
    if names and said.reason is None:
        worst = next((case for case in missed if case.outcome is Outcome.TIMEOUT), missed[0] if missed else None)
        fields["outcome"] = Outcome.PASSED if worst is None else worst.outcome
        fields["detail"] = "" if worst is None else f"{worst.name}\n{worst.detail}"
    return fields | {"n_cases": len(cases) or None, "n_passed": len(cases) - len(missed) if cases else None}
