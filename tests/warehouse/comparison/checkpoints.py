"""A lake of checkpoints: one binary score on each of some problems."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from schemas.content_id import canonical_json
from schemas.lake.records import NightRecord, RunEpisode, RunRecord
from schemas.night.decision import ComparisonRule
from schemas.run import ModelIdentity, RubricJudge, RunSpec
from schemas.verdict import JudgeDriftAnswer
from tests.warehouse.small_lake import SmallLake
from tests.warehouse.small_run import DATASET, IA, Run, write_part

FAMILY = "coder"
JUDGE = ModelIdentity(provider="openai", name="j", revision="1")


@dataclass(frozen=True)
class CheckpointRun(Run):
    """A run whose spec may have a judge."""

    is_judged: bool = False

    @property
    def spec(self) -> RunSpec:
        judges = (
            (RubricJudge(rubric="clear", version="1", prompt="p", judge=JUDGE),)
            if self.is_judged
            else ()
        )
        return super().spec.model_copy(update={"judges": judges})


def checkpoint(home: Path, name: str, *, is_judged: bool = False) -> CheckpointRun:
    """The run of a checkpoint of that name."""
    identity = ModelIdentity(provider="vllm", name=f"/models/{name}", weights_digest=name)
    return CheckpointRun(home, identity, samples=1, is_judged=is_judged)


def passing(n_passed: int, n: int = 20) -> Mapping[str, Sequence[float]]:
    """The first `n_passed` of `n` problems pass."""
    return {f"Q{number:02}": (float(number < n_passed),) for number in range(n)}


def write(
    run: CheckpointRun,
    scores: Mapping[str, Sequence[float | None]],
    night: int = 1,
    metric: str = IA,
) -> None:
    """Write a finished run of a night: scores by problem, one a turn; None is unscored by
    definition.
    """
    record_of(run, night, n_episodes=len(scores))
    pattern, like = run.episode("P1", 0), run.score("P1", 0, 1, metric, 1.0)
    named = {problem: f"{run.run_id[:16]}-{problem}" for problem in scores}
    run.write(
        "run_episodes",
        [
            RunEpisode(
                run_id=run.run_id,
                benchmark="codeif",
                model=like.model,
                episode_id=name,
                problem_id=problem,
                sample=0,
            )
            for problem, name in named.items()
        ],
    )
    place = {
        problem: {"problem_id": problem, "episode_id": name} for problem, name in named.items()
    }
    run.write("episodes", [pattern.model_copy(update={**place[p], "dialog_id": p}) for p in scores])
    rows = [
        like.model_copy(
            update={
                **place[p],
                "turn": turn,
                "value": value,
                "unscored_reason": None if value is not None else "undefined",
            }
        )
        for p, values in scores.items()
        for turn, value in enumerate(values, start=1)
    ]
    run.write("scores", rows)
    verdict = run.verdicts({("P1", 0, 1): {IA: 1}})[0]
    run.write(
        "test_verdicts", [verdict.model_copy(update={**place[p], "verdict_id": p}) for p in scores]
    )


def record_of(run: CheckpointRun, night: int, n_episodes: int) -> None:
    """The run's record and its night's."""
    started, finished = f"2026-01-{night:02}T00:00:00Z", f"2026-01-{night:02}T01:00:00Z"
    record = RunRecord(
        run_id=run.run_id,
        night_id=f"night-{night:02}",
        benchmark="codeif",
        model=run.subject.label,
        setting="codeif.static",
        dataset_version=DATASET,
        revision=run.subject.revision,
        spec_json=canonical_json(run.spec),
        sandbox=run.sandbox,
        isolated=True,
        samples=1,
        seed=0,
        status="finished",
        started_at=started,
        finished_at=finished,
        n_episodes=n_episodes,
        n_owed=0,
        n_infra=0,
        n_unscored=0,
        n_truncated=0,
        model_calls=0,
        parley_version="0.1.0",
    )
    run.write("runs", [record], "run")
    held = NightRecord(
        night_id=record.night_id,
        started_at=started,
        finished_at=finished,
        run_ids=(run.run_id,),
        n_published=1,
        n_withheld=0,
    )
    write_part(run.home, "nights", [held], "night", night_id=record.night_id)


def rule(
    run: CheckpointRun,
    *,
    baseline: str | None = None,
    threshold: float = 0.01,
    thresholds: Mapping[str, float] | None = None,
    family: str = FAMILY,
) -> None:
    """State how the run is compared: as a checkpoint of a family."""
    row = ComparisonRule(
        run_id=run.run_id,
        benchmark="codeif",
        model=run.subject.label,
        family=family,
        baseline=baseline,
        threshold=threshold,
        thresholds=tuple(sorted((thresholds or {}).items())),
    )
    run.write("comparison_rules", [row], "rule")


def judge_says(home: Path, night: int, values: Sequence[float]) -> None:
    """The bundled judgements of a night, one value a case."""
    rows = [
        JudgeDriftAnswer(
            night_id=f"night-{night:02}",
            asked_at="2026-01-01T00:00:00Z",
            judge=JUDGE.label,
            revision="1",
            rubric="codeif.clear",
            rubric_version="1",
            case_number=number,
            dimension="clarity",
            value=value,
        )
        for number, value in enumerate(values)
    ]
    write_part(home, "judge_drift_answers", rows, "j", night_id=f"night-{night:02}")


def empty_lake(home: Path) -> Path:
    """A home with the small lake's dataset and no run."""
    SmallLake(home).write_dataset()
    return home
