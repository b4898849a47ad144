"""A lake of four runs that a reader can work out by hand.

Problems: P1 (L1: base, Input-Output Conditions, Functionality Extension), P2 (L1: base, Exception Handling),
P3 (L2: base, Input-Output Conditions).

    alpha-2   openai:alpha, 2 samples, priced. The table of its values is in `ALPHA_VALUES`.
    alpha-1   openai:alpha, 1 sample: shares the first samples' episodes of alpha-2, which paid for them.
    beta      recorded:beta, tokens unknown, no price; everything passes.
    gamma     openai:gamma, withheld.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pyarrow.parquet as pq
from pydantic import BaseModel

from schemas.content_id import canonical_json, content_id
from schemas.dialog import Dialog, Role, Turn
from schemas.episode import Episode, Step, StopReason
from schemas.problem import Instruction, Problem, QuarantinedRow, TestSuite
from schemas.rows import to_arrow
from schemas.run import ModelIdentity, ModelRecord, NightRecord, Provider, QualityCheck, RunEpisode, RunRecord, RunSpec
from schemas.run import RunStatus as Status
from schemas.score import Score, UnscoredReason
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
INFRA, NO_ANSWER, NOTHING = UnscoredReason.INFRA, UnscoredReason.NO_ANSWER, UnscoredReason.NOTHING_TO_FORGET

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
        self, status: Status = "finished", *, night_id: str = "night-1", finished_at: str = "2026-01-02T00:10:00Z"
    ) -> None:
        record = RunRecord(
            run_id=self.run_id,
            night_id=night_id,
            benchmark="codeif",
            model=self.subject.label,
            setting="static",
            dataset_version=DATASET,
            spec_json=canonical_json(self.spec),
            sandbox="bubblewrap",
            isolated=True,
            samples=self.samples,
            seed=0,
            status=status,
            withheld_reason="too many infra faults" if status == "withheld" else None,
            started_at="2026-01-02T00:00:00Z",
            finished_at=finished_at,
            n_episodes=3 * self.samples,
            n_owed=0,
            n_infra=0,
            n_unscored=0,
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

    def score(self, problem: str, sample: int, turn: int, metric: str, value: Value, version: int = 1) -> Score:
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
        return [self.score(*place, metric, value) for place, by_metric in values.items() for metric, value in by_metric.items()]

    def verdicts(self, values: Mapping[tuple[str, int, int], Mapping[str, Value]]) -> list[TestVerdict]:
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
                sandbox="bubblewrap",
            )
            for (problem, sample, turn), by_metric in values.items()
        ]

    def episode(
        self, problem: str, sample: int, *, attempt: int = 1, stop: StopReason = StopReason.FINISHED, n_turns: int | None = None
    ) -> Episode:
        steps: list[Step] = []
        for turn, instruction in enumerate(INSTRUCTIONS[problem][:n_turns], start=1):
            steps.append(Step(turn=turn, role=Role.USER, content=f"{problem}: {instruction}"))
            steps.append(
                Step(
                    turn=turn,
                    role=Role.ASSISTANT,
                    content=f"answer {turn} of attempt {attempt}",
                    input_tokens=100 if self.priced else None,
                    output_tokens=10 if self.priced else None,
                    latency_s=0.5,
                    finish_reason="stop",
                    n_calls=(3 if (problem, sample, turn) == ("P1", 0, 1) else 1) if self.priced else 0,
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


def first_samples() -> dict[tuple[str, int, int], dict[str, Value]]:
    return {place: values for place, values in ALPHA_VALUES.items() if place[1] == 0}


ALPHA = ModelIdentity(provider=Provider.OPENAI, name="alpha", revision="unpinned-2026-01-02")
BETA = ModelIdentity(provider=Provider.RECORDED, name="beta", weights_digest="b" * 32)
GAMMA = ModelIdentity(provider=Provider.OPENAI, name="gamma/7b=x")


@dataclass(frozen=True)
class SmallLake:
    home: Path

    @property
    def alpha_2(self) -> Run:
        return Run(self.home, ALPHA, samples=2)

    @property
    def alpha_1(self) -> Run:
        return Run(self.home, ALPHA, samples=1)

    @property
    def beta(self) -> Run:
        return Run(self.home, BETA, samples=1, priced=False)

    @property
    def gamma(self) -> Run:
        return Run(self.home, GAMMA, samples=1)

    def write_dataset(self, name: str = "d" * 32, problems: Mapping[str, str] = DIGESTS, level: str | None = None) -> None:
        keys = {"benchmark": "codeif", "dataset_version": DATASET}
        write_part(self.home, "problems", [_problem(p, digest, level) for p, digest in problems.items()], name, **keys)
        write_part(self.home, "dialogs", [_dialog(p, digest) for p, digest in problems.items()], name, **keys)
        quarantined = QuarantinedRow(
            benchmark="codeif",
            dataset_version=DATASET,
            source_file="L1.jsonl",
            source_line=4,
            reason="broken_json",
            detail="Expecting value",
        )
        write_part(self.home, "quarantine", [quarantined], name, **keys)

    def write_models(self, alpha_input: float | None = 2.0) -> None:
        for identity, price_in, price_out in ((ALPHA, alpha_input, 10.0), (BETA, None, None), (GAMMA, 1.0, 1.0)):
            record = ModelRecord(
                model=identity.label,
                provider=identity.provider,
                name=identity.name,
                revision=identity.revision,
                weights_digest=identity.weights_digest,
                chat_template=identity.chat_template,
                usd_per_million_input=price_in,
                usd_per_million_output=price_out,
            )
            write_part(self.home, "models", [record], "model", model=identity.label)

    def write_night(self, runs: Sequence[Run]) -> None:
        night = NightRecord(
            night_id="night-1",
            started_at="2026-01-02T00:00:00Z",
            finished_at="2026-01-02T00:20:00Z",
            run_ids=tuple(run.run_id for run in runs),
            n_published=3,
            n_withheld=1,
        )
        write_part(self.home, "nights", [night], "night", night_id="night-1")

    def write_alpha_2(self) -> None:
        run = self.alpha_2
        run.write_record()
        run.write_contained((problem, sample) for problem in INSTRUCTIONS for sample in (0, 1))
        run.write("episodes", [run.episode("P1", 0, stop=StopReason.INFRA, n_turns=1), run.episode("P1", 1)], "shard-1")
        run.write("episodes", [run.episode("P1", 0, attempt=2), run.episode("P2", 0)], "shard-2")
        run.write(
            "episodes",
            [
                run.episode("P2", 1, stop=StopReason.SUBJECT_ERROR, n_turns=1),
                run.episode("P3", 0),
                run.episode("P3", 0, attempt=2, stop=StopReason.INFRA, n_turns=1),
                run.episode("P3", 1),
            ],
            "shard-3",
        )
        run.write("scores", run.scores(ALPHA_VALUES))
        run.write("test_verdicts", run.verdicts(ALPHA_VALUES))
        run.write("quality_checks", [quality_check(run)], "checks")

    def write_alpha_1(self) -> None:
        run = self.alpha_1
        run.write_record(finished_at="2026-01-03T00:00:00Z")
        run.write_contained((problem, 0) for problem in INSTRUCTIONS)
        run.write("scores", run.scores(first_samples()))
        run.write("test_verdicts", run.verdicts(first_samples()))

    def write_simple(self, run: Run, status: Status = "finished") -> None:
        """A run of which every base answer passes."""
        values: dict[tuple[str, int, int], dict[str, Value]] = {(p, 0, 1): {IA: 1} for p in INSTRUCTIONS}
        run.write_record(status)
        run.write_contained((problem, 0) for problem in INSTRUCTIONS)
        run.write("episodes", [run.episode(problem, 0) for problem in INSTRUCTIONS])
        run.write("scores", run.scores(values))
        run.write("test_verdicts", run.verdicts(values))
        run.write("quality_checks", [quality_check(run, success=status == "finished")], "checks")

    def write_all(self) -> "SmallLake":
        self.write_dataset()
        self.write_models()
        self.write_night((self.alpha_2, self.alpha_1, self.beta, self.gamma))
        self.write_alpha_2()
        self.write_alpha_1()
        self.write_simple(self.beta)
        self.write_simple(self.gamma, "withheld")
        return self


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


def _problem(problem: str, digest: str, level: str | None) -> Problem:
    return Problem(
        benchmark="codeif",
        dataset_version=DATASET,
        problem_id=problem,
        level=level or LEVELS[problem],
        prompt=f"Solve {problem}.",
        instructions=tuple(
            Instruction(instruction_id=name, text=name, suite=TestSuite(tests=("assert f(1) == 1",)))
            for name in INSTRUCTIONS[problem]
        ),
        reference_code="def f(x):\n    return x\n",
        source_file="L1.jsonl",
        source_line=1 + list(INSTRUCTIONS).index(problem),
        row_digest=digest,
    )


def _dialog(problem: str, digest: str) -> Dialog:
    return Dialog(
        benchmark="codeif",
        dataset_version=DATASET,
        dialog_id=problem,
        problem_id=problem,
        turns=tuple(
            Turn(turn=turn, role=Role.USER, content=name, instruction_id=name, labels=(("kind", "code"),))
            for turn, name in enumerate(INSTRUCTIONS[problem], start=1)
        ),
        row_digest=digest,
    )
