"""Turns a request into a plan: the RunSpec, the wanted episodes, and the finished ones. Reads, starts nothing."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property

from sandbox import registry as sandboxes
from sandbox.calibration.factor import widened
from sandbox.interface import Sandbox
from sandbox.judging.function_tests import RUNNER_VERSION
from schemas.content_id import content_id, text_digest
from schemas.dialog import Dialog
from schemas.errors import ConfigError, UnknownName, UsageError
from schemas.problem import Problem
from schemas.rows import from_arrow
from schemas.run import ModelEndpoint, ModelIdentity, RunEpisode, RunRecord, RunSpec
from tasks.benchmarks import registry
from tasks.benchmarks.contract import Benchmark, Due, Staged
from tasks.language.model_spec import ModelChoice, parse_model
from tasks.metrics import registry as metrics
from tasks.planning.dataset import dataset_digest, find_data, played_dialogs, require_dialogs
from tasks.planning.request import EvaluationRequest, ModelRequest
from tasks.planning.why_rerun import refuse_other_run
from tasks.storage.home import Home
from tasks.storage.owed import EpisodeFiles, WantedEpisode, wanted_episodes
from tasks.storage.parquet_store import Lake, listing_again


class RunPlan:
    """One evaluation, ready to be worked on. A plain class on purpose: Prefect does not walk into it."""

    def __init__(
        self,
        request: EvaluationRequest,
        home: Home,
        benchmark: Benchmark,
        staged: Staged,
        spec: RunSpec,
        subject: ModelEndpoint,
        simulator: ModelEndpoint | None,
    ) -> None:
        self.request, self.home, self.benchmark, self.staged, self.spec = request, home, benchmark, staged, spec
        self.subject, self.simulator = subject, simulator
        self._due: dict[str, Due] = {}
        self.lake = Lake(home.lake, fsync=request.fsync)
        self.run_id = spec.run_id
        self.keys = {"benchmark": spec.benchmark, "model": spec.subject.label, "run_id": self.run_id}
        self.episodes = EpisodeFiles(self.lake, spec.benchmark, spec.subject.label)

    @cached_property
    def options(self) -> Mapping[str, str]:
        """Every option of the setting with its value."""
        return self.benchmark.options_of(self.spec)

    def due(self, dialog: Dialog) -> Due:
        """What an episode of the dialog must have in the end."""
        if dialog.row_digest not in self._due:
            self._due[dialog.row_digest] = self.benchmark.due(self.spec.setting, self.options, dialog)
        return self._due[dialog.row_digest]

    @cached_property
    def has_exact_rounds(self) -> bool:
        """Whether the dialogs alone decide how many rounds a finished episode has."""
        return all(self.due(dialog).is_exact for dialog in self.dataset)

    @cached_property
    def dataset(self) -> tuple[Dialog, ...]:
        """The dialogs that the setting plays."""
        return played_dialogs(self.benchmark, self.spec.setting, self.staged)

    @cached_property
    def problems(self) -> Mapping[str, Problem]:
        """Problems with a dialog in this setting, by id."""
        wanted = {dialog.problem_id for dialog in self.dataset}
        return {problem.problem_id: problem for problem in self.staged.problems if problem.problem_id in wanted}

    @cached_property
    def dialogs(self) -> Mapping[str, Dialog]:
        """Dialogs of the setting, by row digest."""
        return {dialog.row_digest: dialog for dialog in self.dataset}

    @cached_property
    def wanted(self) -> tuple[WantedEpisode, ...]:
        """Episodes that this invocation asks for: of all problems, or of the first `limit` ones."""
        chosen = set(tuple(dict.fromkeys(dialog.problem_id for dialog in self.dataset))[: self.request.benchmark.limit])
        return tuple(w for w in self.everything if w.dialog.problem_id in chosen)

    @cached_property
    def everything(self) -> tuple[WantedEpisode, ...]:
        """Episodes of the whole dataset, asked for now or not."""
        return wanted_episodes(self.spec, self.dataset)

    def owed(self) -> tuple[WantedEpisode, ...]:
        """Wanted episodes that no run has finished yet."""
        done = self.episodes.finished(w.episode_id for w in self.wanted)
        return tuple(w for w in self.wanted if w.episode_id not in done)

    def unfinished_ids(self) -> set[str]:
        """Unfinished episodes of the whole dataset, asked for now or not. A journal may hold answers of them."""
        everything = {w.episode_id for w in self.everything}
        return everything - self.episodes.finished(everything).keys()

    @cached_property
    def members(self) -> tuple[WantedEpisode, ...]:
        """All episodes of the run: wanted now, or added by earlier, larger invocations."""
        earlier = {row.episode_id for row in self.lake.read("run_episodes", RunEpisode, **self.keys)}
        now = {w.episode_id for w in self.wanted}
        return tuple(w for w in self.everything if w.episode_id in now or w.episode_id in earlier)

    @cached_property
    def environment(self) -> str:
        """The sandbox's fingerprint."""
        return self._sandbox.fingerprint()

    def _files(self, table: str) -> str:
        found = listing_again(lambda: [(part.name, part.stat().st_size) for part in self.lake.parts(table, **self.keys)])
        return f"{len(found)} files of {sum(size for _, size in found)} bytes ({content_id(found)})"

    @cached_property
    def isolated(self) -> bool:
        """Whether programs run isolated: False only where `--sandbox none` was asked for."""
        return self._sandbox.isolated

    @cached_property
    def _sandbox(self) -> Sandbox:
        return sandboxes.load_with(self.spec.sandbox, self.benchmark.programs.preload)

    def state(self) -> dict[str, str]:
        """Everything a run is made from besides its spec, and its files, so that a lost or damaged file is noticed."""
        return {
            "environment": self.environment,
            **{f"metrics.{name}": str(metrics.load(name).version) for name in self.benchmark.scores.metrics},
            "episodes": f"{len(self.members)} ({content_id(sorted(w.episode_id for w in self.members))})",
            **{f"files.{table}": self._files(table) for table in ("episodes", "run_episodes", "test_verdicts", "scores")},
            "max_fault_share": str(self.request.max_fault_share),
        }

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
            record is not None and record.status == "finished" and record.state_digest == self.state_digest() and not self.owed()
        )


def plan_run(request: EvaluationRequest, home: Home) -> RunPlan:
    """Plan one evaluation.

    Raises:
        UsageError: a part of the request is unknown, unreadable or not staged.
    """
    benchmark, setting = find_setting(request.benchmark.name)
    version = request.benchmark.dataset_version or benchmark.data.default_version
    if version not in benchmark.data.versions:
        raise UnknownName(f"dataset version of {benchmark.name}", version, benchmark.data.versions)
    episode_options, scoring_options = benchmark.split_options(setting, request.benchmark.options)
    lake = Lake(home.lake)
    resumed = _resumed_spec(lake, request.resume)
    subject = _choose(request.model, resumed.subject if resumed else None)
    simulator = _choose_simulator(request, benchmark, setting, resumed)
    judge = _choose(request.judge, resumed.judge if resumed else None) if request.judge else None
    if request.sandbox not in sandboxes.names():
        raise UnknownName("sandbox", request.sandbox, sandboxes.names())
    staged = find_data(benchmark, request.benchmark.data, version, lake)
    spec = RunSpec(
        benchmark=benchmark.name,
        benchmark_version=benchmark.about.version,
        setting=setting,
        dataset_version=version,
        dataset_digest=dataset_digest(require_dialogs(benchmark, setting, staged)),
        episode_options=episode_options,
        scoring_options=scoring_options,
        subject=subject.identity,
        simulator=simulator.identity if simulator else None,
        judge=judge.identity if judge else None,
        sampling=request.model.sampling,
        prompts=tuple(sorted((name, text_digest(text)) for name, text in benchmark.setting(setting).prompts.items())),
        samples=request.benchmark.samples,
        seed=request.benchmark.seed,
        sandbox=request.sandbox,
        limits=resumed.limits if resumed else widened(benchmark.limits_of(setting), home.path, request.sandbox),
        runner_version=RUNNER_VERSION,
    )
    if resumed is not None:
        refuse_other_run(resumed, spec)
    return RunPlan(request, home, benchmark, staged, spec, subject.endpoint, simulator.endpoint if simulator else None)


def find_setting(name: str) -> tuple[Benchmark, str]:
    """`benchmark.setting`, or the benchmark alone where it has one setting.

    Raises:
        UnknownName: lists the known names.
    """
    first, _, rest = name.partition(".")
    benchmark = registry.load(first)
    if not rest:
        if len(benchmark.settings) != 1:
            raise ConfigError(
                f"benchmark {name!r} has several settings: name one of {', '.join(f'{first}.{s}' for s in benchmark.settings)}"
            )
        rest = next(iter(benchmark.settings))
    benchmark.setting(rest)
    return benchmark, rest


def _choose(request: ModelRequest, resumed: ModelIdentity | None) -> ModelChoice:
    revision = request.revision or (resumed.revision if resumed and resumed.revision else None)
    return parse_model(request.spec, key_env=request.key_env, revision=revision, today=datetime.now(UTC).strftime("%Y-%m-%d"))


def _choose_simulator(
    request: EvaluationRequest, benchmark: Benchmark, setting: str, resumed: RunSpec | None
) -> ModelChoice | None:
    """The simulator; None where the setting needs none, even if one is named: a night may hold both kinds of settings."""
    if not benchmark.setting(setting).needs_simulator:
        return None
    if request.simulator is None:
        raise ConfigError(
            f"{benchmark.name}.{setting} has a model speak in the user's place. Name it by --simulator PROVIDER:MODEL"
            f" (`simulator` in a night's configuration), for example --simulator {request.model.spec}"
        )
    return _choose(request.simulator, resumed.simulator if resumed else None)


def _resumed_spec(lake: Lake, run_id: str | None) -> RunSpec | None:
    return None if run_id is None else RunSpec.model_validate_json(find_run(lake, run_id).spec_json)


def find_run(lake: Lake, run_id: str) -> RunRecord:
    """The record of a run, by its id or an unambiguous beginning of it.

    Raises:
        UsageError: no run or several runs begin like this.
    """
    folders = sorted({part.parent for part in lake.parts("runs")})
    found = [folder for folder in folders if folder.name.removeprefix("run=").startswith(run_id)]
    if len(found) != 1:
        names = ", ".join(folder.name.removeprefix("run=") for folder in (found or folders)[:8]) or "none yet"
        problem = f"several runs begin with {run_id!r}" if found else f"no run {run_id!r}"
        raise UsageError(f"{problem} in {lake.root}; there are: {names}. See `parley list runs`")
    return from_arrow(lake.read_arrow("runs", sorted(found[0].glob("part-*.parquet"))), RunRecord)[0]
