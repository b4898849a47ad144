"""A lake of this benchmark's runs, made of hand-made tasks, as a night leaves it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel

from schemas.content_id import canonical_json, content_id
from schemas.episode import Score
from schemas.lake.records import ModelRecord, QualityCheck, RunEpisode, RunRecord
from schemas.run import ModelIdentity, RunSpec, Sampling
from tasks.benchmarks.contract import Played, ScoreRequest
from tasks.benchmarks.convcode.scoring import MARTS, score
from tests.tasks.benchmarks.convcode.played import DATASET, problem
from tests.warehouse.small_run import write_part
from warehouse.publication.publish import publish

SIMULATOR = ModelIdentity(provider="openai", name="speaker", revision="1")
NOW = "2026-01-02T00:00:00Z"
GREEDY = Sampling()
Tasks = Sequence[tuple[Played, ...]]


def model(name: str, provider: str = "openai") -> ModelIdentity:
    """A model under test."""
    return ModelIdentity(provider=provider, name=name, revision="1")


@dataclass(frozen=True)
class ConvCodeLake:
    """Runs of a home, one setting each."""

    home: Path

    def price(
        self, identity: ModelIdentity, usd_input: float | None, usd_output: float | None
    ) -> None:
        """State what a million tokens of a model cost."""
        record = ModelRecord(
            model=identity.label,
            provider=identity.provider,
            name=identity.name,
            revision=identity.revision,
            weights_digest="",
            chat_template="",
            usd_per_million_input=usd_input,
            usd_per_million_output=usd_output,
        )
        write_part(self.home, "models", [record], content_id(identity), model=identity.label)

    def run(
        self,
        subject: ModelIdentity,
        setting: str,
        tasks: Tasks,
        options: Mapping[str, str] | None = None,
        simulator: ModelIdentity | None = None,
        finished_at: str = NOW,
        dataset_version: str = DATASET,
        sampling: Sampling = GREEDY,
    ) -> str:
        """Write a finished run of these tasks, scored; returns its id.

        A later run is one of another revision of the model, under the same condition.
        """
        later = {"revision": finished_at} if finished_at != NOW else {}
        spec = RunSpec(
            benchmark="convcode",
            benchmark_version="1",
            setting=setting,
            dataset_version=dataset_version,
            dataset_digest=content_id(dataset_version),
            episode_options=tuple(sorted((options or {}).items())),
            subject=subject.model_copy(update=later),
            simulator=simulator,
            sampling=sampling,
        )
        ours = tuple(tuple(_of_run(played, spec) for played in task) for task in tasks)
        scores = tuple(row for task in ours for row in _scored(spec, task))
        everything = [played for task in ours for played in task]
        self._write(spec, "run", runs=[_record(spec, finished_at, len(everything), scores)])
        self._write(
            spec,
            "1",
            run_episodes=[_contained(played, spec) for played in everything],
            episodes=[played.episode for played in everything],
            scores=scores,
            quality_checks=[_check(spec)],
        )
        dataset = {"benchmark": "convcode", "dataset_version": dataset_version}
        write_part(
            self.home,
            "dialogs",
            [played.dialog for played in everything],
            spec.run_id,
            **dataset,
        )
        staged = [problem(task[0].dialog.problem_id) for task in tasks]
        problems = [row.model_copy(update={"dataset_version": dataset_version}) for row in staged]
        write_part(self.home, "problems", problems, spec.run_id, **dataset)
        return spec.run_id

    def publish(self) -> None:
        """With this benchmark's marts."""
        publish(self.home, marts=MARTS)

    def _write(self, spec: RunSpec, part: str, **tables: Sequence[BaseModel]) -> None:
        keys = {"benchmark": "convcode", "model": spec.subject.label, "run_id": spec.run_id}
        for table, rows in tables.items():
            write_part(self.home, table, rows, part, **keys)


def _of_run(played: Played, spec: RunSpec) -> Played:
    ours = {
        "episode_id": spec.episode_id(played.dialog.row_digest + played.dialog.problem_id, 0),
        "run_id": spec.run_id,
        "model": spec.subject.label,
        "setting": spec.setting,
        "dataset_version": spec.dataset_version,
    }
    dialog = played.dialog.model_copy(update={"dataset_version": spec.dataset_version})
    return replace(played, dialog=dialog, episode=played.episode.model_copy(update=ours))


def _scored(spec: RunSpec, task: tuple[Played, ...]) -> tuple[Score, ...]:
    name = task[0].dialog.problem_id
    return tuple(
        score(
            ScoreRequest(
                problem(name), 0, spec.run_id, spec.setting, dict(spec.episode_options), task
            )
        )
    )


def _record(spec: RunSpec, finished_at: str, n_episodes: int, scores: Sequence[Score]) -> RunRecord:
    return RunRecord(
        run_id=spec.run_id,
        night_id="night-1",
        benchmark="convcode",
        model=spec.subject.label,
        setting=spec.full_setting,
        dataset_version=spec.dataset_version,
        revision=spec.subject.revision,
        spec_json=canonical_json(spec),
        sandbox=spec.sandbox,
        isolated=True,
        samples=1,
        seed=spec.seed,
        status="finished",
        started_at=NOW,
        finished_at=finished_at,
        n_episodes=n_episodes,
        n_owed=0,
        n_infra=0,
        n_unscored=sum(row.unscored_reason is not None for row in scores),
        n_truncated=0,
        model_calls=0,
        parley_version="0.1.0",
    )


def _contained(played: Played, spec: RunSpec) -> RunEpisode:
    episode = played.episode
    return RunEpisode(
        run_id=spec.run_id,
        benchmark="convcode",
        model=spec.subject.label,
        episode_id=episode.episode_id,
        problem_id=episode.problem_id,
        sample=0,
    )


def _check(spec: RunSpec) -> QualityCheck:
    return QualityCheck(
        run_id=spec.run_id,
        benchmark="convcode",
        model=spec.subject.label,
        table_name="scores",
        suite="scores",
        expectation="value_in_range",
        success=True,
        crashed=False,
        blocking=True,
        checked_at=NOW,
    )
