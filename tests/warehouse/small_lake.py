"""A lake of four runs that a reader can work out by hand.

Problems: P1 (L1: base, Input-Output Conditions, Functionality Extension), P2 (L1: base, Exception
Handling), P3 (L2: base, Input-Output Conditions).

    alpha-2   openai:alpha, 2 samples, priced. The table of its values is in `ALPHA_VALUES`.
    alpha-1   openai:alpha, 1 sample: shares the first samples' episodes of alpha-2, which paid for
    them. beta      recorded:beta, tokens unknown, no price; everything passes.
    gamma     openai:gamma, withheld.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from schemas.content_id import content_id
from schemas.dialog import Dialog, Role, Turn
from schemas.episode import StopReason
from schemas.lake.records import ModelRecord, NightRecord
from schemas.lake.records import RunStatus as Status
from schemas.problem import Instruction, Problem, QuarantinedRow, TestSuite
from schemas.run import ModelIdentity
from tests.warehouse.small_run import (
    ALPHA_VALUES,
    DATASET,
    DIGESTS,
    IA,
    INSTRUCTIONS,
    LEVELS,
    Run,
    Value,
    quality_check,
    write_part,
)


def first_samples() -> dict[tuple[str, int, int], dict[str, Value]]:
    return {place: values for place, values in ALPHA_VALUES.items() if place[1] == 0}


ALPHA = ModelIdentity(provider="openai", name="alpha", revision="unpinned-2026-01-02")
BETA = ModelIdentity(provider="recorded", name="beta", weights_digest="b" * 32)
GAMMA = ModelIdentity(provider="openai", name="gamma/7b=x")


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

    def write_dataset(
        self, name: str = "d" * 32, problems: Mapping[str, str] = DIGESTS, level: str | None = None
    ) -> None:
        keys = {"benchmark": "codeif", "dataset_version": DATASET}
        write_part(
            self.home,
            "problems",
            [_problem(p, digest, level) for p, digest in problems.items()],
            name,
            **keys,
        )
        write_part(
            self.home,
            "dialogs",
            [_dialog(p, digest) for p, digest in problems.items()],
            name,
            **keys,
        )
        quarantined = QuarantinedRow(
            benchmark="codeif",
            dataset_version=DATASET,
            source_file="L1.jsonl",
            source_line=4,
            reason="broken_json",
            detail="Expecting value",
        )
        write_part(self.home, "quarantine", [quarantined], name, **keys)

    def write_model(
        self, identity: ModelIdentity, price_in: float | None, price_out: float | None
    ) -> None:
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
        write_part(self.home, "models", [record], content_id(identity), model=identity.label)

    def write_models(self, alpha_input: float | None = 2.0) -> None:
        for identity, price_in, price_out in (
            (ALPHA, alpha_input, 10.0),
            (BETA, None, None),
            (GAMMA, 1.0, 1.0),
        ):
            self.write_model(identity, price_in, price_out)

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
        run.write_record(n_unscored=5)
        run.write_contained((problem, sample) for problem in INSTRUCTIONS for sample in (0, 1))
        run.write(
            "episodes",
            [run.episode("P1", 0, stop=StopReason.INFRA, n_turns=1), run.episode("P1", 1)],
            "shard-1",
        )
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
        values: dict[tuple[str, int, int], dict[str, Value]] = {
            (p, 0, 1): {IA: 1} for p in INSTRUCTIONS
        }
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


def _problem(problem: str, digest: str, level: str | None) -> Problem:
    return Problem(
        benchmark="codeif",
        dataset_version=DATASET,
        problem_id=problem,
        level=level or LEVELS[problem],
        prompt=f"Solve {problem}.",
        instructions=tuple(
            Instruction(
                instruction_id=name, text=name, suite=TestSuite(tests=("assert f(1) == 1",))
            )
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
            Turn(
                turn=turn,
                role=Role.USER,
                content=name,
                instruction_id=name,
                labels=(("kind", "code"),),
            )
            for turn, name in enumerate(INSTRUCTIONS[problem], start=1)
        ),
        row_digest=digest,
    )
