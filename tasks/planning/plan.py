"""Turns a request into a plan: the RunSpec, the wanted episodes, and the finished ones. Reads, starts nothing."""

# pyarrow.compute makes its functions when it is imported, so that no type checker knows them.
# pyright: reportAttributeAccessIssue=false

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from sandbox.backends.docker.backend import DockerSandbox
from sandbox.calibration.factor import widened
from sandbox.interface import Sandbox
from sandbox.judging.function_tests import RUNNER_VERSION
from sandbox.registry import SANDBOXES
from schemas.content_id import content_id
from schemas.dialog import Dialog
from schemas.errors import UnknownName
from schemas.lake.packed_rows import KeyedRows
from schemas.lake.records import RunRecord
from schemas.problem import Problem
from schemas.run import ModelEndpoint, ModelIdentity, RunSpec
from tasks.benchmarks.contract import Benchmark, Due, Staged
from tasks.datasets.located import locate
from tasks.metrics.registry import METRICS
from tasks.planning.chosen_tasks import chosen_problems
from tasks.planning.dataset import images_of, require_dialogs, resolved_data
from tasks.planning.decisions.baseline import NoBaseline, await_baselines
from tasks.planning.decisions.evidence import Evidence
from tasks.planning.decisions.held_plan import evidence_for
from tasks.planning.known_runs import resumed_spec
from tasks.planning.missing_packages import MissingPackages, skipped_problems
from tasks.planning.participants.choice import choose, find_setting
from tasks.planning.participants.embedders import choose_embedder, is_in_play
from tasks.planning.participants.judges import PlannedJudge, choose_judges
from tasks.planning.participants.simulators import choose_simulator, own_sampling
from tasks.planning.played_dialogs import PlayedDialogs, played_problems
from tasks.planning.request import EvaluationRequest, ModelRequest
from tasks.planning.run_options import chosen_agent, require_batchable, run_options
from tasks.planning.why_rerun import refuse_other_run
from tasks.planning.wording import prompt_digests, worded
from tasks.storage.contexts import context_lengths
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake, listing_again
from tasks.storage.pending import EpisodeFiles
from tasks.storage.wanted import WantedEpisode, WantedEpisodes, wanted_episodes

NO_SANDBOX = "unneeded"
"""Stands in place of the sandbox's name where a run has no programs."""
IN_IMAGES = "docker"  # the sandbox of a run whose problems name images, whatever was asked for


class RunPlan:
    """One evaluation, ready to be worked on. A plain class on purpose: Prefect does not walk into it."""

    def __init__(
        self,
        request: EvaluationRequest,
        home: Home,
        benchmark: Benchmark,
        staged: Staged,
        dataset: PlayedDialogs,
        spec: RunSpec,
        subject: ModelEndpoint,
        simulator: ModelEndpoint | None,
        judges: Mapping[str, PlannedJudge] = MappingProxyType({}),
        embedder: ModelEndpoint | None = None,
    ) -> None:
        self.request, self.home, self.benchmark, self.staged, self.spec = (
            request,
            home,
            benchmark,
            staged,
            spec,
        )
        self.subject, self.simulator, self.judges, self.embedder = (
            subject,
            simulator,
            judges,
            embedder,
        )
        self.dataset = dataset
        self.evidence: Evidence | None = None  # of a run that is to be decided early
        self.no_baseline: NoBaseline | None = None  # why it has no evidence yet
        self.awaits: str | None = None  # run of the same night that it is to be compared with
        self.lake = Lake(home.lake, fsync=request.fsync)
        self.run_id = spec.run_id
        self.keys = {"benchmark": spec.benchmark, "model": spec.label, "run_id": self.run_id}
        self.episodes = EpisodeFiles(self.lake, spec.benchmark, spec.label)

    @cached_property
    def options(self) -> Mapping[str, str]:
        """Every option of the setting with its value."""
        return self.benchmark.options_of(self.spec)

    @cached_property
    def dues(self) -> tuple[Due, ...]:
        """What an episode of each dialog must have in the end, in the order of `dataset`. Dialogs that owe alike share one."""
        known: dict[Due, Due] = {}
        dues = (
            self.benchmark.due(self.spec.setting, self.options, dialog) for dialog in self.dataset
        )
        return tuple(known.setdefault(due, due) for due in dues)

    def due(self, episode: WantedEpisode) -> Due:
        """What the episode must have in the end."""
        return self.dues[episode.at]

    def dues_of(self, row_digests: pa.ChunkedArray) -> list[Due]:
        """What an episode of each of these dialogs must have in the end."""
        return [
            self.dues[at]
            for at in pc.index_in(row_digests, value_set=self.dataset.digests).to_pylist()
        ]

    def n_rounds(self, episodes: WantedEpisodes) -> int:
        """Rounds that these episodes have in all, at most."""
        return sum(self.dues[at].rounds for at in episodes.rows["at"].to_pylist())

    @cached_property
    def has_exact_rounds(self) -> bool:
        """Whether the dialogs alone decide how many rounds a finished episode has."""
        return all(due.is_exact for due in self.dues)

    def dialog(self, episode: WantedEpisode) -> Dialog:
        """The dialog that the episode plays."""
        return self.dataset[episode.at]

    def context_length(self, dialog: Dialog) -> int:
        """Characters that were said before the dialog's own turns."""
        if dialog.context_id is None:
            return 0
        return self.context_lengths[dialog.context_id][dialog.context_turns]

    @cached_property
    def context_lengths(self) -> Mapping[str, tuple[int, ...]]:
        """Context -> characters of its first 0, 1, 2, ... turns."""
        return context_lengths(self.lake, self.staged.dialogs, self.staged.contexts)

    @cached_property
    def problems(self) -> KeyedRows[Problem]:
        """Problems with a dialog in this setting, by id."""
        return KeyedRows(self.staged.problems, *played_problems(self.staged.problems, self.dataset))

    @cached_property
    def dialogs(self) -> KeyedRows[Dialog]:
        """Dialogs of the setting, by row digest."""
        return KeyedRows(
            self.dataset, self.dataset.digests, pa.array(range(len(self.dataset)), pa.int32())
        )

    @cached_property
    def wanted(self) -> WantedEpisodes:
        """Episodes asked for now: of all problems that the options choose, of the first `limit` of these, or of a share."""
        chooses, problems = self.benchmark.data.chooses, self.everything.problem_ids
        asked = None if chooses is None else chooses(self.options, self.dataset)
        return self.everything.of_problems(
            chosen_problems(
                self.request.benchmark, self.benchmark.name, problems, asked, self.skipped
            )
        )

    @cached_property
    def everything(self) -> WantedEpisodes:
        """Episodes of the whole dataset, asked for now or not."""
        return wanted_episodes(self.spec, self.dataset.facts)

    @cached_property
    def skipped(self) -> MissingPackages | None:
        """Problems that the request leaves out for want of packages; None where it leaves none out."""
        if not self.request.benchmark.skip_missing_packages or not self.runs_programs:
            return None
        return skipped_problems(self.benchmark, self.spec, self.problems.values())

    def look_again(self) -> None:
        """Find anew what other runs may have changed since the run was planned: its members, and what decides it early.

        Raises:
            UsageError: rule and baseline of its decision do not fit it any more.
        """
        for name in ("wanted", "members"):
            self.__dict__.pop(name, None)
        self.awaits = None
        self.find_evidence()

    def find_evidence(self) -> None:
        """Find what decides the run early, or note that it has no baseline yet."""
        self.evidence = self.no_baseline = None
        try:
            self.evidence = evidence_for(self)
        except NoBaseline as error:
            self.no_baseline = error

    def narrow(self, problems: Collection[str]) -> None:
        """Want no episodes from now on but those of these problems: a decision needs no others."""
        self.wanted = self.wanted.of_problems(problems)
        self.__dict__.pop("members", None)

    def pending(self) -> WantedEpisodes:
        """Wanted episodes that no run has finished yet."""
        return self.wanted.without(self.episodes.heads(finished=True)["episode_id"])

    def unfinished_ids(self) -> set[str]:
        """Unfinished episodes of the whole dataset, asked for now or not. A journal may hold answers of them."""
        return set(
            self.everything.without(
                self.episodes.heads(finished=True)["episode_id"]
            ).ids.to_pylist()
        )

    @cached_property
    def members(self) -> WantedEpisodes:
        """All episodes of the run: wanted now, or added by earlier, larger invocations."""
        earlier = listing_again(
            lambda: self.lake.read_arrow(
                "run_episodes", self.lake.parts("run_episodes", **self.keys), ["episode_id"]
            )
        )
        ids = [*self.wanted.ids.chunks, *earlier["episode_id"].chunks]
        return self.everything.among(pa.chunked_array(ids, pa.string()))

    def require_baseline(self) -> None:
        """Raise NoBaseline where a decision has nothing to compare with, and no run of the same night will become it."""
        if self.no_baseline is not None and self.awaits is None:
            raise self.no_baseline

    @property
    def task_share(self) -> float | None:
        """Share of the dataset's problems that the run has, 0 to 1; None where it has all."""
        n, of = (len(found.problem_ids) for found in (self.members, self.everything))
        return None if n == of else n / of

    @property
    def runs_programs(self) -> bool:
        """Whether it needs a sandbox."""
        return self.spec.sandbox != NO_SANDBOX

    @property
    def models(self) -> tuple[tuple[ModelIdentity, ModelEndpoint, ModelRequest], ...]:
        """Every model that takes part: who, where, and what was asked for."""
        asked = (
            (self.spec.subject, self.subject, self.request.model),
            (self.spec.simulator, self.simulator, self.request.simulator),
            *((judge.judge.judge, judge.endpoint, judge.request) for judge in self.judges.values()),
        )
        return tuple((who, where, what) for who, where, what in asked if who and where and what)

    @property
    def audits(self) -> bool:
        """Whether passes of its programs are audited."""
        return self.runs_programs and self.spec.audit != "none"

    @cached_property
    def environment(self) -> str:
        """The sandbox's fingerprint; empty where there is nothing to run."""
        if self.images:
            return DockerSandbox().fingerprint_of_images()
        return self._sandbox.fingerprint() if self.runs_programs else ""

    @cached_property
    def images(self) -> tuple[str, ...]:
        """Docker images that its problems' programs run in; none where they run in the sandbox's own place."""
        return images_of(self.staged) if self.runs_programs else ()

    def _files(self, table: str) -> str:
        found = listing_again(
            lambda: [
                (part.name, part.stat().st_size) for part in self.lake.parts(table, **self.keys)
            ]
        )
        return f"{len(found)} files of {sum(size for _, size in found)} bytes ({content_id(found)})"

    @cached_property
    def isolated(self) -> bool:
        """Whether programs run isolated: False only where `--sandbox none` was asked for."""
        return not self.runs_programs or self._sandbox.isolated

    @cached_property
    def _sandbox(self) -> Sandbox:
        return self.benchmark.programs.load_sandbox(self.spec.sandbox, self.spec.dataset_version)

    def state(self) -> dict[str, str]:
        """Everything a run is made from besides its spec, and its files, so that a lost or damaged file is noticed."""
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

    def state_digest(self) -> str:
        """Digest of `state`."""
        return content_id(self.state())

    def record(self) -> RunRecord | None:
        """The run as its latest invocation left it."""
        rows = self.lake.read("runs", RunRecord, **self.keys)
        return rows[0] if rows else None

    def is_finished(self) -> bool:
        """Whether there is nothing to do but to show the results."""
        record = self.record()
        return (
            record is not None
            and record.status == "finished"
            and record.state_digest == self.state_digest()
            and not self.pending()
        )


def plan_run(request: EvaluationRequest, home: Home) -> RunPlan:
    """Plan one evaluation.

    Raises:
        UsageError: a part of the request is unknown, unreadable or not staged.
    """
    benchmark, setting = find_setting(request.benchmark.name)
    benchmark, templates = worded(benchmark, setting, request.benchmark.templates)
    data, version = locate(
        benchmark, request.benchmark.data, request.benchmark.dataset_version, home
    )
    if version not in benchmark.data.versions:
        raise UnknownName("dataset version", version, benchmark.data.versions, of=benchmark.name)
    resumed = resumed_spec(Lake(home.lake), request.resume)
    subject = choose(request.model, resumed.subject if resumed else None, home)
    options = run_options(request, benchmark, setting, subject.identity, resumed, home)
    episode_options, scoring_options = benchmark.split_options(setting, options)
    simulator = choose_simulator(request, benchmark, setting, resumed, home)
    judges = choose_judges(request, benchmark, setting, resumed, home)
    embedder = choose_embedder(request, benchmark, setting, resumed)
    runs_programs = benchmark.runs_programs(setting)
    SANDBOXES.require(request.sandbox)
    resources = request.benchmark.resources
    tested_in = request.sandbox if runs_programs else None
    staged = resolved_data(benchmark, data, version, home, resources, tested_in, setting)
    sandbox = IN_IMAGES if images_of(staged) else request.sandbox
    limits = benchmark.limits_of(setting)
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
        limits=resumed.limits
        if resumed
        else widened(limits, home.path, sandbox)
        if runs_programs
        else limits,
        runner_version=RUNNER_VERSION if runs_programs else 1,
        judges=tuple(judges[name].judge for name in sorted(judges)),
        embedder=embedder.identity if embedder else None,
        embedder_in_play=embedder.identity
        if embedder and is_in_play(request, benchmark.setting(setting))
        else None,
        agent=chosen_agent(request.model),
        audit=request.audit if runs_programs else "sample",
        templates=templates,
        refused=request.refused,
        simulator_sampling=own_sampling(request.simulator) if simulator else None,
    )
    if resumed is not None:
        refuse_other_run(resumed, spec)
    spoken, embeds = (chosen.endpoint if chosen else None for chosen in (simulator, embedder))
    plan = RunPlan(
        request, home, benchmark, staged, dataset, spec, subject.endpoint, spoken, judges, embeds
    )
    require_batchable(request, lambda: plan.dues)
    plan.find_evidence()
    return plan


def plan_night(requests: Sequence[EvaluationRequest], home: Home) -> list[RunPlan]:
    """Plan the runs of a night. A run that is decided against another one of them awaits it, and is planned again then.

    Raises:
        UsageError: a request cannot be planned, or its baseline is neither a finished run nor one of the night.
    """
    plans = [plan_run(request, home) for request in requests]
    await_baselines(plans)
    for plan in plans:
        plan.require_baseline()
    return plans
