"""Execution of the programs of a shard of episodes, in a worker process."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.episode import Episode, StopReason
from schemas.errors import SandboxUnavailable, Unscorable
from schemas.run import Limits, RunSpec
from schemas.verdict import CaseVerdict, FailureReason, Outcome, ProgramVerdict, TestVerdict
from tasks.benchmarks.contract import TestRun
from tasks.benchmarks.registry import BENCHMARKS
from tasks.dialogue.tools import WantedProgram
from tasks.worker.images import settle_image
from tasks.worker.jobs import (
    INFRA_SUFFIX,
    ExecuteItem,
    ExecuteShard,
    RunContext,
    ShardResult,
)
from tasks.worker.process import RunState, this_worker
from tasks.worker.program_book import Found, ProgramBook, ProgramFacts, Result

STAGE = "execute"
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

    limits: Limits
    due: tuple[DueVerdict, ...]


def execute_shard(shard: ExecuteShard) -> ShardResult:
    """Get the verdict of every test run of a shard's episodes and write them as one part.

    If the sandbox fails, the verdicts are infra. The part's name then marks the part as pending. An
    early shard with a slow failure writes no part, because its low priority may be the cause.

    Raises:
        LeaseLost: The shard was given to another worker process meanwhile.
        OSError: The part could not be written.
    """
    if shard.context.budget_meter and shard.context.budget_meter.is_late:
        return ShardResult(0, n_cut=len(shard.items))
    worker = this_worker()
    worker.start_reporting()
    run = worker.run(shard.context)
    hold = shard.context.lease(shard.name, over=True)
    verdicts: list[TestVerdict] = []
    n_run, is_unsure_shard = 0, False
    for item in shard.items:
        answers = answers_of(shard.context.spec, test_runs(shard.context, item))
        decided = worker.do(_decide_all(run, shard, item, answers))
        item_verdicts = [verdict for of_answer, _, _ in decided for verdict in of_answer]
        is_unsure = any(found.is_unsure for _, _, found in decided)
        verdicts += item_verdicts
        n_run += sum(n for _, n, _ in decided)
        is_unsure_shard |= is_unsure
        amounts = {
            "programs": sum(len(answer.due) for answer in answers),
            "runs": sum(found.n_runs for _, _, found in decided),
        }
        run.count(STAGE, episodes=1, answers=len(answers), **amounts)
        repository = item.problem.repo
        is_settled = not is_unsure and all(v.outcome is not Outcome.INFRA for v in item_verdicts)
        if repository is not None and is_settled:
            settle_image(shard.context, repository, item.episode.episode_id)
    hold.check()
    if is_unsure_shard:
        return ShardResult(0, n_run=n_run)
    return _write(shard, verdicts, n_run)


def test_runs(context: RunContext, item: ExecuteItem) -> tuple[TestRun, ...]:
    """Return the test programs of one episode. Empty if their files are missing or unusable."""
    if item.dialog.is_sourceless:
        return ()
    benchmark = BENCHMARKS.load(context.spec.benchmark)
    options = benchmark.options_of(context.spec)
    return tuple(benchmark.programs.test_runs(item.problem, item.dialog, item.episode, options))


def due_verdicts(context: RunContext, item: ExecuteItem) -> list[tuple[int, str, str | None]]:
    """Return (turn, instruction, verdict id) of each verdict that an episode must have.

    The id is None if there is no answer.
    """
    tests = test_runs(context, item)
    return [
        (test.turn, name, id_of(context, test, cases))
        for test in tests
        for name, cases in test.rows
    ]


async def _decide_all(
    run: RunState, shard: ExecuteShard, item: ExecuteItem, answers: Sequence[Answer]
) -> list[tuple[list[TestVerdict], int, Found]]:
    """Return what `decide` returns for each answer of an episode."""
    is_low = shard.is_early and run.is_playing
    decisions = (
        decide(shard.context, run.programs, item, answer, shard.known, is_low=is_low)
        for answer in answers
    )
    return await asyncio.gather(*decisions)


def _write(shard: ExecuteShard, verdicts: list[TestVerdict], n_run: int) -> ShardResult:
    faults = [v for v in verdicts if v.outcome is Outcome.INFRA and v.verdict_id is not None]
    name = shard.name + (INFRA_SUFFIX if faults else "")
    shard.context.write_part("test_verdicts", verdicts, name)
    error = faults[0].detail if faults else None
    return ShardResult(len(shard.items), len(faults), name, n_run=n_run, error=error)


def answers_of(spec: RunSpec, tests: Sequence[TestRun]) -> list[Answer]:
    """Group test runs by (answer, limits), in order of first appearance."""
    groups: dict[tuple[int, str | None, str], tuple[Limits, list[DueVerdict]]] = {}
    for test in tests:
        limits = test.limits or spec.limits
        _, due = groups.setdefault((test.turn, test.code, limits.model_dump_json()), (limits, []))
        due += [DueVerdict(test, name, cases) for name, cases in test.rows]
    return [Answer(limits, tuple(due)) for limits, due in groups.values()]


def id_of(context: RunContext, test: TestRun, cases: tuple[str, ...] = ()) -> str | None:
    """Return the verdict id of these cases of a program, or of all cases.

    Return None if there is no answer to run.
    """
    if test.code is None:
        return None
    return ProgramFacts.of_run(context).id_of(test.program, cases)


async def decide(
    context: RunContext,
    book: ProgramBook,
    item: ExecuteItem,
    answer: Answer,
    known: Mapping[str, TestVerdict],
    *,
    is_low: bool = False,
) -> tuple[list[TestVerdict], int, Found]:
    """Return the verdicts of an answer, the number of them that ran, and the book's results.

    Args:
        known: Verdicts of earlier runs, by id.
        is_low: Run the programs at low priority.
    """
    reports = _reports_of(item.episode)
    tests = {id(due.test): due.test for due in answer.due}
    whole_ids = {name: id_of(context, test) for name, test in tests.items()}
    keys: list[str | None] = []
    results: list[Result | TestVerdict | None] = []
    programs: dict[str, WantedProgram] = {}
    wanted: dict[int, str] = {}
    """Verdict id of the program that decides each verdict without a result."""
    for n, due in enumerate(answer.due):
        whole = whole_ids[id(due.test)]
        key = id_of(context, due.test, due.cases) if due.cases else whole
        result = None if key is None or whole is None else reports.get(whole) or known.get(key)
        keys.append(key)
        results.append(result)
        if whole is not None and result is None:
            # One program may decide several instructions.
            programs[whole], wanted[n] = due.test.program, whole
    found = await book.find_all(programs, answer.limits, is_low=is_low)
    for n, whole in wanted.items():
        results[n] = found.results[whole]
    verdicts = [
        _verdict(context, item.episode, due, key, result)
        for due, key, result in zip(answer.due, keys, results, strict=True)
    ]
    return verdicts, sum(whole in found.ran for whole in wanted.values()), found


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
    elif isinstance(result, SandboxUnavailable):
        decided = _infra(str(result))
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
    if episode.stop_reason is StopReason.INFRA:
        return _infra(episode.error or "no answer")
    if episode.stop_reason is StopReason.REFUSED and refused == "failed":
        return {"outcome": Outcome.FAILED, "detail": episode.error, "reason": FailureReason.REFUSED}
    return {"outcome": Outcome.ERROR, "detail": episode.error or "no answer"}


def _infra(detail: str) -> dict[str, Any]:
    is_image = detail.startswith(f"{FailureReason.IMAGE_MISSING}:")
    reason = FailureReason.IMAGE_MISSING if is_image else None
    return {"outcome": Outcome.INFRA, "detail": detail, "reason": reason}


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
