"""One small run that is right in every respect: two problems of two rounds, one sample, one episode
that ended early.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pyarrow as pa

from schemas.audit import AuditOutcome, ForgeryAudit
from schemas.content_id import content_id
from schemas.dialog import Dialog, Role, Turn
from schemas.episode import Episode, Score, Step, StopReason, UnscoredReason
from schemas.lake.rows import to_arrow
from schemas.lake.tables import TABLES
from schemas.problem import Instruction, Problem, TestSuite
from schemas.verdict import JudgeVerdict, Outcome, TestVerdict
from warehouse.checks import CheckContext, Implication

BENCHMARK, MODEL, RUN = "pairs", "control:gold", content_id("run")
INSTRUCTIONS = ("base", "annotations")
PROBLEMS = ("function/1", "function/2")
CONTEXT = content_id("context")


def digest(name: str) -> str:
    return content_id({"row": name})


def episode_id(problem: str) -> str:
    return content_id({"episode": problem})


def _problem(name: str, line: int) -> Problem:
    return Problem(
        benchmark=BENCHMARK,
        dataset_version="current",
        problem_id=name,
        level="L1",
        prompt="Write f.",
        instructions=tuple(
            Instruction(
                instruction_id=i, text=f"Do {i}.", suite=TestSuite(tests=("assert f() == 1",))
            )
            for i in INSTRUCTIONS
        ),
        reference_code="def f(): return 1",
        source_file="data.jsonl",
        source_line=line,
        row_digest=digest(name),
    )


def _dialog(name: str) -> Dialog:
    turns = []
    for number, instruction in enumerate(INSTRUCTIONS, start=1):
        turns.append(
            Turn(
                turn=number,
                role=Role.USER,
                content=f"Do {instruction}.",
                instruction_id=instruction,
            )
        )
        turns.append(Turn(turn=number, role=Role.ASSISTANT))
    return Dialog(
        benchmark=BENCHMARK,
        dataset_version="current",
        dialog_id=f"{name}/dialog",
        problem_id=name,
        turns=tuple(turns),
        row_digest=digest(name),
        context_id=CONTEXT,
        context_turns=2,
    )


def _episode(name: str, answered: int) -> Episode:
    steps = []
    for number in range(1, answered + 1):
        steps.append(Step(turn=number, role=Role.USER, content="Do it.", served_model="simulator"))
        steps.append(
            Step(
                turn=number,
                role=Role.ASSISTANT,
                content="def f(): return 1",
                input_tokens=9,
                output_tokens=7,
                latency_s=0.5,
                finish_reason="stop",
                served_model="gold",
                n_calls=1,
            )
        )
    finished = answered == len(INSTRUCTIONS)
    return Episode(
        episode_id=episode_id(name),
        run_id=RUN,
        benchmark=BENCHMARK,
        model=MODEL,
        setting="static",
        dataset_version="current",
        problem_id=name,
        dialog_id=f"{name}/dialog",
        row_digest=digest(name),
        sample=0,
        seed=0,
        attempt=1,
        stop_reason=StopReason.FINISHED if finished else StopReason.SUBJECT_ERROR,
        error=None if finished else "context length exceeded",
        started_at="2026-01-01T00:00:00+00:00",
        finished_at="2026-01-01T00:00:02+00:00",
        steps=tuple(steps),
    )


def _verdict(name: str, turn: int, instruction: str, outcome: Outcome) -> TestVerdict:
    ran = outcome is not Outcome.ERROR
    return TestVerdict(
        run_id=RUN,
        benchmark=BENCHMARK,
        model=MODEL,
        episode_id=episode_id(name),
        problem_id=name,
        sample=0,
        turn=turn,
        instruction_id=instruction,
        outcome=outcome,
        duration_s=0.2 if ran else None,
        verdict_id=content_id([name, turn, instruction]) if ran else None,
        sandbox="bubblewrap",
    )


def _audit(name: str, turn: int, instruction: str) -> ForgeryAudit:
    return ForgeryAudit(
        run_id=RUN,
        benchmark=BENCHMARK,
        model=MODEL,
        episode_id=episode_id(name),
        problem_id=name,
        sample=0,
        turn=turn,
        instruction_id=instruction,
        verdict_id=content_id([name, turn, instruction]),
        decoy="assert f() == 2",
        outcome=AuditOutcome.EARNED,
        is_sound=True,
        n_decoys=1,
        n_runs=1,
        duration_s=0.2,
    )


def _score(name: str, turn: int, metric: str, value: float | None) -> Score:
    return Score(
        run_id=RUN,
        benchmark=BENCHMARK,
        model=MODEL,
        episode_id=episode_id(name),
        problem_id=name,
        sample=0,
        turn=turn,
        metric=metric,
        metric_version=1,
        value=value,
        unscored_reason=UnscoredReason.NO_ANSWER if value is None else None,
    )


RUBRICS = (("clear", "clarity"), ("clear", "tone"))
JUDGED = tuple(
    (name, turn, rubric, dimension)
    for name in PROBLEMS
    for turn in (1, 2)
    for rubric, dimension in RUBRICS
)


def _judgement(name: str, turn: int, rubric: str, dimension: str) -> JudgeVerdict:
    given = not _unanswered(name, turn)
    return JudgeVerdict(
        run_id=RUN,
        benchmark=BENCHMARK,
        model=MODEL,
        episode_id=episode_id(name),
        problem_id=name,
        sample=0,
        turn=turn,
        rubric=rubric,
        dimension=dimension,
        judge="openai:judge",
        judgement_id=content_id([name, turn, rubric]),
        value=4.0 if given and dimension == "clarity" else None,
        label="warm" if given and dimension == "tone" else None,
        unscored_reason=None if given else "judge_silent",
        n_calls=1,
    )


DUE = tuple(
    (name, turn, i)
    for name in PROBLEMS
    for turn, i in ((1, "base"), (2, "base"), (2, "annotations"))
)


def _unanswered(name: str, turn: int) -> bool:
    return (name, turn) == (PROBLEMS[1], 2)


AUDITED = tuple(place for place in DUE if not _unanswered(*place[:2]))


def valid_tables() -> dict[str, pa.Table]:
    """Every checked table of the run."""
    return {
        "problems": to_arrow(
            "problems", [_problem(name, line) for line, name in enumerate(PROBLEMS, start=1)]
        ),
        "dialogs": to_arrow("dialogs", [_dialog(name) for name in PROBLEMS]),
        "episodes": to_arrow(
            "episodes", [_episode(PROBLEMS[0], answered=2), _episode(PROBLEMS[1], answered=1)]
        ),
        "test_verdicts": to_arrow(
            "test_verdicts",
            [
                _verdict(n, t, i, Outcome.ERROR if _unanswered(n, t) else Outcome.PASSED)
                for n, t, i in DUE
            ],
        ),
        "forgery_audit": to_arrow("forgery_audit", [_audit(*place) for place in AUDITED]),
        "judge_verdicts": to_arrow("judge_verdicts", [_judgement(*place) for place in JUDGED]),
        "scores": to_arrow(
            "scores",
            [
                _score(name, turn, metric, None if _unanswered(name, turn) else 1.0)
                for name in PROBLEMS
                for turn in (1, 2)
                for metric in ("accuracy", "all_held")
            ],
        ),
    }


def full_context(**changes: Any) -> CheckContext:
    """A context that knows every fact, so that no rule is left out."""
    tables = valid_tables()
    episodes = [episode_id(name) for name in PROBLEMS]
    context = CheckContext(
        run_id=RUN,
        benchmark=BENCHMARK,
        model=MODEL,
        checked_at="2026-01-01T01:00:00+00:00",
        n_input=3,
        n_quarantined=1,
        problem_digests={
            row["problem_id"]: row["row_digest"] for row in tables["problems"].to_pylist()
        },
        context_turns={CONTEXT: 2},
        wanted_episodes=frozenset(episodes),
        episode_facts={
            episode_id(name): {
                "setting": "static",
                "problem_id": name,
                "row_digest": digest(name),
                "sample": 0,
            }
            for name in PROBLEMS
        },
        contained_episodes={episode_id(name): (name, 0) for name in PROBLEMS},
        check_served_model=True,
        dialog_rounds={digest(name): 2 for name in PROBLEMS},
        episode_rounds=dict.fromkeys(episodes, 2),
        expected_verdicts=frozenset((episode_id(name), turn, i) for name, turn, i in DUE),
        expected_audits={
            (episode_id(name), turn, i): content_id([name, turn, i]) for name, turn, i in AUDITED
        },
        wall_limit_s=20.0,
        judges={"clear": "openai:judge"},
        judgement_ranges={("clear", "clarity"): (1.0, 5.0)},
        expected_judgements=frozenset(
            (episode_id(name), turn, rubric, about) for name, turn, rubric, about in JUDGED
        ),
        fault_limit=0.3,
        metric_ranges={"accuracy": (0.0, 1.0), "all_held": (0.0, 1.0)},
        due_scores=dict.fromkeys(episodes, frozenset(product((1, 2), ("accuracy", "all_held")))),
        implications=(Implication("all_held", 1.0, "accuracy", 1.0),),
    )
    return replace(context, **changes)


Rows = list[dict[str, Any]]


def corrupted(table: str, spoil: Callable[[Rows], object]) -> pa.Table:
    """The valid table after `spoil` has changed its rows in place, as a faulty stage would have
    written it.
    """
    rows = valid_tables()[table].to_pylist()
    spoil(rows)
    return pa.Table.from_pylist(rows, schema=TABLES[table].schema)


def with_tools(*changes: tuple[int, str, Any]):
    """Two calls and their observations before the first answer, then changes: (place, field,
    value).
    """

    def spoil(rows: Rows) -> None:
        said = rows[0]["steps"]
        calls = [{"call_id": name, "name": "read", "arguments": "{}"} for name in ("a", "b")]
        asked = said[1] | {"kind": "tool_call", "calls": calls}
        seen = [
            said[0] | {"role": "tool", "kind": "observation", "call_id": name}
            for name in ("a", "b")
        ]
        steps = [said[0], asked, *seen, *said[1:]]
        for place, field, value in changes:
            steps[place] = steps[place] | {field: value}
        rows[0]["steps"] = steps

    return spoil
