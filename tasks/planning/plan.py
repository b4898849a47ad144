"""Plan of a run: its RunSpec, its wanted and finished episodes. Planning only reads files."""

# pyarrow.compute creates its functions at import, so type checkers do not know them.
# pyright: reportAttributeAccessIssue=false

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from sandbox.calibration.factor import widened
from sandbox.interface import Sandbox
from sandbox.judging.runners.run import RUNNER_VERSION
from sandbox.registry import SANDBOXES
from schemas.content_id import content_id
from schemas.dialog import Dialog
from schemas.lake.records import RunRecord
from schemas.lake.rows import KeyedRows
from schemas.problem import Problem
from schemas.run import EmbedderIdentity, RunSpec
from tasks.benchmarks.contract import Benchmark, Due, Staged
from tasks.datasets.catalogue import locate
from tasks.language.access import ModelAccess
from tasks.metrics.registry import METRICS
from tasks.planning.dataset import (
    DatasetCache,
    choose_problems,
    images_of,
    require_dialogs,
    resolved_data,
)
from tasks.planning.decisions.baseline import NoBaseline, await_baselines
from tasks.planning.decisions.evidence import Evidence, evidence_for
from tasks.planning.environment_check import MissingPackages, find_skipped_problems
from tasks.planning.participants.access import PlannedJudge, PlannedModel, choose
from tasks.planning.participants.choice import (
    apply_templates,
    choose_agent,
    choose_embedder,
    choose_judges,
    choose_simulator,
    find_setting,
    is_in_play,
    own_sampling,
    prompt_digests,
    require_batchable,
    run_options,
)
from tasks.planning.request import EvaluationRequest
from tasks.planning.why_rerun import refuse_other_run, resumed_spec
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake, listing_again
from tasks.storage.run_rows import EpisodeFiles, WantedEpisode, WantedEpisodes, wanted_episodes
from tasks.storage.staged_rows import PlayedDialogs, context_lengths, played_problems

NO_SANDBOX = "unneeded"
"""Name of the sandbox in the spec of a run without programs."""
IN_IMAGES = "docker"
"""Sandbox of a run whose problems name Docker images. It overrides the request's sandbox."""


class RunPlan:
    """Plan of one evaluation."""

    def __init__(
        self,
        request: EvaluationRequest,
        home: Home,
        benchmark: Benchmark,
        staged: Staged,
        dataset: PlayedDialogs,
        spec: RunSpec,
        subject: ModelAccess,
        simulator: ModelAccess | None,
        judges: Mapping[str, PlannedJudge] = MappingProxyType({}),
        embedder: ModelAccess[EmbedderIdentity] | None = None,
    ) -> None:
        self.request, self.home, self.benchmark = request, home, benchmark
        self.staged, self.dataset, self.spec = staged, dataset, spec
        self.subject, self.simulator = subject, simulator
        self.judges, self.embedder = judges, embedder
        self.evidence: Evidence | None = None  # of a run that may be decided early
        self.no_baseline: NoBaseline | None = None  # why such a run has no evidence yet
        self.awaits: str | None = None  # run of the same night that is its baseline
        self.lake = Lake(home.lake, fsync=request.fsync)
        self.run_id = spec.run_id
        self.keys = {"benchmark": spec.benchmark, "model": spec.label, "run_id": self.run_id}
        self.episodes = EpisodeFiles(self.lake, spec.benchmark, spec.label)

    @cached_property
    def options(self) -> Mapping[str, str]:
        """Map each option of the setting to its value."""
        return self.benchmark.options_of(self.spec)

    @cached_property
    def dues(self) -> tuple[Due, ...]:
        """Answers and scores due for an episode of each dialog. Equal values are one object."""
        distinct: dict[Due, Due] = {}
        dues = (
            self.benchmark.due(self.spec.setting, self.options, dialog) for dialog in self.dataset
        )
        return tuple(distinct.setdefault(due, due) for due in dues)

    def due(self, episode: WantedEpisode) -> Due:
        """Return the answers and scores that an episode must have when it is finished."""
        return self.dues[episode.at]

    def dues_of(self, row_digests: pa.ChunkedArray) -> list[Due]:
        """Return the requirements of a finished episode for each of these dialogs."""
        return [
            self.dues[at]
            for at in pc.index_in(row_digests, value_set=self.dataset.digests).to_pylist()
        ]

    def n_rounds(self, episodes: WantedEpisodes) -> int:
        """Return the sum of the maximum numbers of rounds of these episodes."""
        return sum(self.dues[at].rounds for at in episodes.rows["at"].to_pylist())

    @cached_property
    def has_exact_rounds(self) -> bool:
        """True if the dialogs alone determine the number of rounds of a finished episode."""
        return all(due.is_exact for due in self.dues)

    def dialog(self, episode: WantedEpisode) -> Dialog:
        """Return the dialog of an episode."""
        return self.dataset[episode.at]

    def context_length(self, dialog: Dialog) -> int:
        """Return the length of the dialog's context (the turns before the dialog) in characters."""
        if dialog.context_id is None:
            return 0
        return self.context_lengths[dialog.context_id][dialog.context_turns]

    @cached_property
    def context_lengths(self) -> Mapping[str, tuple[int, ...]]:
        """Map each context to the total lengths of its first 0, 1, 2, ... turns, in characters."""
        return context_lengths(self.lake, self.staged.dialogs, self.staged.contexts)

    @cached_property
    def problems(self) -> KeyedRows[Problem]:
        """Problems that have a dialog in this setting, by id."""
        return KeyedRows(self.staged.problems, *played_problems(self.staged.problems, self.dataset))

    @cached_property
    def dialogs(self) -> KeyedRows[Dialog]:
        """Dialogs of the setting, by row digest."""
        return KeyedRows(
            self.dataset, self.dataset.digests, pa.array(range(len(self.dataset)), pa.int32())
        )

    @cached_property
    def wanted(self) -> WantedEpisodes:
        """Episodes of the problems that the request chooses."""
        chooses, problems = self.benchmark.data.chooses, self.everything.problem_ids
        selection = None if chooses is None else chooses(self.options, self.dataset)
        return self.everything.of_problems(
            choose_problems(
                self.request.benchmark, self.benchmark.name, problems, selection, self.skipped
            )
        )

    @cached_property
    def everything(self) -> WantedEpisodes:
        """Episodes of the complete dataset, wanted or not."""
        return wanted_episodes(self.spec, self.dataset.facts)

    @cached_property
    def skipped(self) -> MissingPackages | None:
        """Problems that the request leaves out because packages are missing; None for none."""
        if not self.request.benchmark.skip_missing_packages or not self.runs_programs:
            return None
        packages = {name: problem.packages for name, problem in self.problems.items()}
        return find_skipped_problems(self.benchmark, self.spec, packages)

    def look_again(self) -> None:
        """Update members and evidence, which other runs may have changed since the plan was made.

        Raises:
            UsageError: rule and baseline of the early decision no longer fit the run.
        """
        for name in ("wanted", "members"):
            self.__dict__.pop(name, None)
        self.awaits = None
        self.find_evidence()

    def find_evidence(self) -> None:
        """Set the evidence of a run that may be decided early, or `no_baseline`."""
        self.evidence = self.no_baseline = None
        if self.request.decide is None:
            return
        try:
            self.evidence = evidence_for(self, self.request.decide)
        except NoBaseline as error:
            self.no_baseline = error

    def narrow(self, problems: Collection[str]) -> None:
        """Reduce the wanted episodes to those of these problems."""
        self.wanted = self.wanted.of_problems(problems)
        self.__dict__.pop("members", None)

    def pending(self, of: WantedEpisodes | None = None) -> WantedEpisodes:
        """Return the episodes, of the wanted ones by default, that no run has finished yet."""
        finished = self.episodes.heads(finished=True)["episode_id"]
        return (self.wanted if of is None else of).without(finished)

    @cached_property
    def members(self) -> WantedEpisodes:
        """All episodes of the run: wanted episodes, and episodes of earlier, larger invocations."""
        earlier = listing_again(
            lambda: self.lake.read_arrow(
                "run_episodes", self.lake.parts("run_episodes", **self.keys), ["episode_id"]
            )
        )
        ids = [*self.wanted.ids.chunks, *earlier["episode_id"].chunks]
        return self.everything.among(pa.chunked_array(ids, pa.string()))

    def require_baseline(self) -> None:
        """Raise NoBaseline if no finished run, and no run of the same night, is the baseline."""
        if self.no_baseline is not None and self.awaits is None:
            raise self.no_baseline

    @property
    def task_share(self) -> float | None:
        """Share of the dataset's problems that the run has, 0 to 1; None if it has all."""
        n, of = (len(episodes.problem_ids) for episodes in (self.members, self.everything))
        return None if n == of else n / of

    @property
    def runs_programs(self) -> bool:
        """True if the run needs a sandbox."""
        return self.spec.sandbox != NO_SANDBOX

    @property
    def models(self) -> tuple[PlannedModel, ...]:
        """Subject, simulator and judges, as far as the run has them."""
        subject = PlannedModel("subject", self.subject, self.request.model)
        if self.simulator is None or self.request.simulator is None:
            return (subject, *self.judges.values())
        simulator = PlannedModel("simulator", self.simulator, self.request.simulator)
        return (subject, simulator, *self.judges.values())

    @property
    def audits(self) -> bool:
        """True if passes of the run's programs are audited."""
        return self.runs_programs and self.spec.audit != "none"

    @cached_property
    def environment(self) -> str:
        """Fingerprint of the sandbox; empty without programs."""
        if self.images:
            from sandbox.backends.docker.backend import DockerSandbox

            return DockerSandbox().fingerprint_of_images()
        return self._sandbox.fingerprint() if self.runs_programs else ""

    @cached_property
    def images(self) -> tuple[str, ...]:
        """Docker images of the problems' programs; empty if they name none."""
        return images_of(self.staged) if self.runs_programs else ()

    def _files(self, table: str) -> str:
        files = listing_again(
            lambda: [
                (part.name, part.stat().st_size) for part in self.lake.parts(table, **self.keys)
            ]
        )
        return f"{len(files)} files of {sum(size for _, size in files)} bytes ({content_id(files)})"

    @cached_property
    def isolated(self) -> bool:
        """False if programs run without isolation (`--sandbox none`)."""
        return not self.runs_programs or self._sandbox.isolated

    @cached_property
    def _sandbox(self) -> Sandbox:
        return self.benchmark.programs.load_sandbox(self.spec.sandbox, self.spec.dataset_version)

    def state(self) -> dict[str, str]:
        """Return ingredients of the results besides the spec, and facts about the run's files."""
        files = ("episodes", "run_episodes", "test_verdicts", "scores")
        files += ("judge_verdicts",) * bool(self.judges) + ("forgery_audit",) * self.audits
        return {
            "environment": self.environment,
            **{
                f"metrics.{name}": str(METRICS.load(name).version)
                for name in self.benchmark.metrics_of(self.spec.setting)
            },
            "episodes": f"{len(self.members)} ({content_id(sorted(self.members.ids.to_pylist()))})",
            **{f"files.{table}": self._files(table) for table in files},
            "max_fault_share": str(self.request.max_fault_share),
        } | ({"max_forged_share": str(self.request.max_forged_share)} if self.audits else {})

    def record(self) -> RunRecord | None:
        """Return the record of the run's latest invocation; None if there is none."""
        rows = self.lake.read("runs", RunRecord, **self.keys)
        return rows[0] if rows else None

    def is_finished(self) -> bool:
        """Return True if the run has no pending work."""
        record = self.record()
        return (
            record is not None
            and record.status == "finished"
            and record.state_digest == content_id(self.state())
            and not self.pending()
        )


def plan_run(request: EvaluationRequest, home: Home, cache: DatasetCache | None = None) -> RunPlan:
    """Plan one evaluation. Datasets in `cache` are not parsed again.

    Raises:
        UsageError: a part of the request is unknown, unreadable or not staged.
    """
    benchmark, setting = find_setting(request.benchmark.name)
    benchmark, templates = apply_templates(benchmark, setting, request.benchmark.templates)
    data, version = locate(
        benchmark, request.benchmark.data, request.benchmark.dataset_version, home
    )
    resumed = resumed_spec(Lake(home.lake), request.resume)
    before = resumed.subject if resumed else None
    subject = choose(request.model, before, home, concurrency=request.concurrency)
    options = run_options(request, benchmark, setting, subject.identity, resumed, home)
    episode_options, scoring_options = benchmark.split_options(setting, options)
    simulator = choose_simulator(request, benchmark, setting, resumed, home)
    judges = choose_judges(request, benchmark, setting, resumed, home)
    embedder = choose_embedder(request, benchmark, setting, resumed)
    runs_programs = benchmark.runs_programs(setting)
    SANDBOXES.require(request.sandbox)
    resources = request.benchmark.resources
    tested_in = request.sandbox if runs_programs else None
    staged = resolved_data(benchmark, data, version, home, resources, tested_in, setting, cache)
    sandbox = IN_IMAGES if images_of(staged) else request.sandbox
    limits = benchmark.limits_of(setting)
    if runs_programs and resumed is None:
        limits = widened(limits, home.path, sandbox)
    dataset = require_dialogs(benchmark, setting, staged)
    spec = RunSpec(
        benchmark=benchmark.name,
        benchmark_version=benchmark.about.version,
        setting=setting,
        dataset_version=version,
        dataset_digest=dataset.digest,
        episode_options=episode_options,
        scoring_options=scoring_options,
        subject=subject.identity,
        simulator=simulator.identity if simulator else None,
        sampling=request.model.sampling,
        prompts=prompt_digests(benchmark, setting, options),
        samples=request.benchmark.samples,
        seed=request.benchmark.seed,
        sandbox=sandbox if runs_programs else NO_SANDBOX,
        limits=resumed.limits if resumed else limits,
        runner_version=RUNNER_VERSION if runs_programs else 1,
        judges=tuple(judges[name].judge for name in sorted(judges)),
        embedder=embedder.identity if embedder else None,
        embedder_in_play=embedder.identity
        if embedder and is_in_play(request, benchmark.setting(setting))
        else None,
        agent=choose_agent(request.model),
        audit=request.audit if runs_programs else "sample",
        templates=templates,
        refused=request.refused,
        simulator_sampling=own_sampling(request.simulator) if simulator else None,
    )
    if resumed is not None:
        refuse_other_run(resumed, spec)
    plan = RunPlan(
        request, home, benchmark, staged, dataset, spec, subject, simulator, judges, embedder
    )
    require_batchable(request, lambda: plan.dues)
    plan.find_evidence()
    return plan


def plan_night(
    requests: Sequence[EvaluationRequest], home: Home, cache: DatasetCache | None = None
) -> list[RunPlan]:
    """Plan the runs of a night.

    A run whose early decision compares with another run of the night waits for it, and is planned
    again then. Each dataset is parsed once.

    Raises:
        UsageError: a request cannot be planned, or its baseline is neither a finished run nor a run
            of the night.
    """
    cache = cache or DatasetCache()
    plans = [plan_run(request, home, cache) for request in requests]
    if any(request.decide for request in requests):
        await_baselines(plans)
        for plan in plans:
            plan.require_baseline()
    return plans
