"""What one run of the small lake writes, and the table its numbers come from."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pyarrow.parquet as pq
from pydantic import BaseModel

from schemas.content_id import canonical_json, content_id
from schemas.dialog import Role
from schemas.episode import Episode, Feedback, Score, Step, StopReason, UnscoredReason
from schemas.lake.records import QualityCheck, RunEpisode, RunRecord
from schemas.lake.records import RunStatus as Status
from schemas.lake.rows import to_arrow
from schemas.run import ModelIdentity, RunSpec
from schemas.verdict import Outcome, TestVerdict

FOLDER_KEYS = {"run_id": "run", "dataset_version": "dataset", "night_id": "night"}
DATASET = "v9"
IA, STRICT, FRACTION, IFR = (
    "instruction_accuracy",
    "conversation_accuracy_strict",
    "conversation_accuracy_fraction",
    "instruction_forgetting_ratio",
)
INSTRUCTIONS = {
    "P1": ("base", "Input-Output Conditions", "Functionality Extension"),
    "P2": ("base", "Exception Handling"),
    "P3": ("base", "Input-Output Conditions"),
}
LEVELS = {"P1": "L1", "P2": "L1", "P3": "L2"}
DIGESTS = {problem: content_id(problem) for problem in INSTRUCTIONS}

Value = float | UnscoredReason
INFRA, NO_ANSWER, NOTHING = (
    UnscoredReason.INFRA,
    UnscoredReason.NO_ANSWER,
    UnscoredReason.NOTHING_TO_FORGET,
)

ALPHA_VALUES: dict[tuple[str, int, int], dict[str, Value]] = {
    ("P1", 0, 1): {IA: 1, STRICT: 1, FRACTION: 1},
    ("P1", 0, 2): {IA: 0, STRICT: 0, FRACTION: 0.5, IFR: 0},
    ("P1", 0, 3): {IA: 1},
    ("P1", 1, 1): {IA: 1, STRICT: 1, FRACTION: 1},
    ("P1", 1, 2): {IA: 1, STRICT: 1, FRACTION: 1, IFR: 0},
    ("P1", 1, 3): {IA: INFRA},
    ("P2", 0, 1): {IA: 0, STRICT: 0, FRACTION: 0},
    ("P2", 0, 2): {IA: 0, STRICT: 0, FRACTION: 0, IFR: NOTHING},
    ("P2", 1, 1): {IA: 1, STRICT: 1, FRACTION: 1},
    ("P2", 1, 2): {IA: NO_ANSWER, STRICT: NO_ANSWER, FRACTION: NO_ANSWER, IFR: NO_ANSWER},
    ("P3", 0, 1): {IA: 1, STRICT: 1, FRACTION: 1},
    ("P3", 0, 2): {IA: 1, STRICT: 1, FRACTION: 1, IFR: 0},
    ("P3", 1, 1): {IA: 1, STRICT: 1, FRACTION: 1},
    ("P3", 1, 2): {IA: 1, STRICT: 0, FRACTION: 0.5, IFR: 1},
}
"""(problem, sample, turn) -> metric -> value."""


def write_part(home: Path, table: str, rows: Iterable[BaseModel], name: str, **keys: str) -> Path:
    """One part where the store would put it."""
    folder = home / "lake" / table
    for key, value in keys.items():
        folder = folder / f"{FOLDER_KEYS.get(key, key)}={quote(value, safe='')}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"part-{name}.parquet"
    pq.write_table(to_arrow(table, rows), path)
    return path


@dataclass(frozen=True)
class Run:
    """One run's spec and where it writes."""

    home: Path
    subject: ModelIdentity
    samples: int
    priced: bool = True
    sandbox: str = "bubblewrap"

    @property
    def spec(self) -> RunSpec:
        return RunSpec(
            benchmark="codeif",
            benchmark_version="1",
            setting="static",
            dataset_version=DATASET,
            dataset_digest="d" * 32,
            subject=self.subject,
            samples=self.samples,
            sandbox=self.sandbox,
        )

    @property
    def run_id(self) -> str:
        return self.spec.run_id

    @property
    def keys(self) -> dict[str, str]:
        return {"benchmark": "codeif", "model": self.subject.label, "run_id": self.run_id}

    def episode_id(self, problem: str, sample: int) -> str:
        return self.spec.episode_id(DIGESTS[problem], sample)

    def write(self, table: str, rows: Sequence[BaseModel], name: str = "1") -> Path:
        return write_part(self.home, table, rows, name, **self.keys)

    def write_record(
        self,
        status: Status = "finished",
        *,
        night_id: str = "night-1",
        finished_at: str = "2026-01-02T00:10:00Z",
        n_episodes: int | None = None,
        n_unscored: int = 0,
    ) -> None:
        """`n_unscored`: how many of the scores that are written beside it are missing through a
        fault.
        """
        record = RunRecord(
            run_id=self.run_id,
            night_id=night_id,
            benchmark="codeif",
            model=self.subject.label,
            setting="codeif.static",
            dataset_version=DATASET,
            revision=self.subject.revision,
            spec_json=canonical_json(self.spec),
            sandbox=self.sandbox,
            isolated=self.sandbox != "none",
            samples=self.samples,
            seed=0,
            status=status,
            withheld_reason="too many infra faults" if status == "withheld" else None,
            started_at="2026-01-02T00:00:00Z",
            finished_at=finished_at,
            n_episodes=3 * self.samples if n_episodes is None else n_episodes,
            n_owed=0,
            n_infra=0,
            n_unscored=n_unscored,
            n_truncated=0,
            model_calls=0,
            parley_version="0.1.0",
        )
        self.write("runs", [record], "run")

    def write_contained(self, wanted: Iterable[tuple[str, int]]) -> None:
        rows = [
            RunEpisode(
                run_id=self.run_id,
                benchmark="codeif",
                model=self.subject.label,
                episode_id=self.episode_id(problem, sample),
                problem_id=problem,
                sample=sample,
            )
            for problem, sample in wanted
        ]
        self.write("run_episodes", rows, "all")

    def score(
        self, problem: str, sample: int, turn: int, metric: str, value: Value, version: int = 1
    ) -> Score:
        missing = isinstance(value, UnscoredReason)
        return Score(
            run_id=self.run_id,
            benchmark="codeif",
            model=self.subject.label,
            episode_id=self.episode_id(problem, sample),
            problem_id=problem,
            sample=sample,
            turn=turn,
            instruction_id=INSTRUCTIONS[problem][turn - 1],
            metric=metric,
            metric_version=version,
            value=None if missing else value,
            unscored_reason=value if missing else None,
        )

    def scores(self, values: Mapping[tuple[str, int, int], Mapping[str, Value]]) -> list[Score]:
        return [
            self.score(*place, metric, value)
            for place, by_metric in values.items()
            for metric, value in by_metric.items()
        ]

    def verdicts(
        self, values: Mapping[tuple[str, int, int], Mapping[str, Value]]
    ) -> list[TestVerdict]:
        return [
            TestVerdict(
                run_id=self.run_id,
                benchmark="codeif",
                model=self.subject.label,
                episode_id=self.episode_id(problem, sample),
                problem_id=problem,
                sample=sample,
                turn=turn,
                instruction_id=INSTRUCTIONS[problem][turn - 1],
                outcome=_outcome(by_metric[IA]),
                duration_s=0.25,
                verdict_id=content_id([problem, sample, turn]),
                sandbox=self.sandbox,
            )
            for (problem, sample, turn), by_metric in values.items()
        ]

    def episode(
        self,
        problem: str,
        sample: int,
        *,
        attempt: int = 1,
        stop: StopReason = StopReason.FINISHED,
        n_turns: int | None = None,
    ) -> Episode:
        steps: list[Step] = []
        for turn, instruction in enumerate(INSTRUCTIONS[problem][:n_turns], start=1):
            feedback = Feedback(execution=f"{problem} fails") if turn == 2 else None
            steps.append(
                Step(
                    turn=turn,
                    role=Role.USER,
                    content=f"{problem}: {instruction}",
                    feedback=feedback,
                )
            )
            steps.append(
                Step(
                    turn=turn,
                    role=Role.ASSISTANT,
                    content=f"answer {turn} of attempt {attempt}",
                    input_tokens=100 if self.priced else None,
                    output_tokens=10 if self.priced else None,
                    latency_s=0.5,
                    finish_reason="stop",
                    n_calls=(3 if (problem, sample, turn) == ("P1", 0, 1) else 1)
                    if self.priced
                    else 0,
                )
            )
        return Episode(
            episode_id=self.episode_id(problem, sample),
            run_id=self.run_id,
            benchmark="codeif",
            model=self.subject.label,
            setting="static",
            dataset_version=DATASET,
            problem_id=problem,
            dialog_id=problem,
            row_digest=DIGESTS[problem],
            sample=sample,
            seed=sample,
            attempt=attempt,
            stop_reason=stop,
            started_at="2026-01-02T00:00:00Z",
            finished_at="2026-01-02T00:01:00Z",
            steps=tuple(steps),
        )


def _outcome(value: Value) -> Outcome:
    if isinstance(value, UnscoredReason):
        return Outcome.INFRA if value is UnscoredReason.INFRA else Outcome.ERROR
    return Outcome.PASSED if value == 1 else Outcome.FAILED


def quality_check(run: Run, *, success: bool = True) -> QualityCheck:
    return QualityCheck(
        run_id=run.run_id,
        benchmark="codeif",
        model=run.subject.label,
        table_name="scores",
        suite="scores",
        expectation="expect_column_values_to_be_between",
        success=success,
        crashed=False,
        blocking=True,
        checked_at="2026-01-02T00:09:00Z",
    )
