"""Turns a request for a dataset into a plan: what it is made from, by whom, and what is kept of it. Reads, starts nothing."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from sandbox.calibration.factor import widened
from sandbox.interface import Sandbox
from sandbox.registry import SANDBOXES
from schemas.base import Frozen
from schemas.content_id import content_id, text_digest
from schemas.embedding import EmbedderIdentity
from schemas.errors import ConfigError, UnknownName
from schemas.run import Limits, ModelEndpoint, ModelIdentity, Sampling
from tasks.benchmarks import known_builds
from tasks.benchmarks.construction import Construction
from tasks.benchmarks.contract import Benchmark, Staged
from tasks.benchmarks.setting import option_values
from tasks.datasets.located import locate
from tasks.language.embedder_spec import EmbedderChoice, parse_embedder
from tasks.language.model_spec import ModelChoice
from tasks.planning.dataset import find_data, furnished_data
from tasks.planning.participants.choice import choose
from tasks.planning.request import BuildRequest, ModelRequest
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake
from tasks.storage.replaced_file import replace_file

BEGUN, FINISHED = "begun.json", "finished"
_UNPINNED = "unpinned-"
Identity = TypeVar("Identity", ModelIdentity, EmbedderIdentity)


class BuildRole(Frozen):
    """Who is asked in a role, and how its tokens are drawn."""

    role: str
    model: ModelIdentity
    sampling: Sampling


class BuildSpec(Frozen):
    """All that can change what is asked. No address, concurrency or limit: a build may be grown, moved and gone on with."""

    benchmark: str
    benchmark_version: str
    construction: str
    dataset_version: str
    dataset_digest: str
    roles: tuple[BuildRole, ...]
    prompts: tuple[tuple[str, str], ...]
    """(name, digest of the text)."""
    options: tuple[tuple[str, str], ...] = ()
    """Those that are not at their default."""
    embedder: EmbedderIdentity | None = None

    @property
    def build_id(self) -> str:
        """Names the build; the folder of its kept answers."""
        return content_id(self)

    @property
    def undated(self) -> "BuildSpec":
        """The same without the days that stand in place of unknown revisions."""
        roles = tuple(
            role.model_copy(update={"model": _undated(role.model)}) for role in self.roles
        )
        return self.model_copy(
            update={"roles": roles, "embedder": self.embedder and _undated(self.embedder)}
        )


def _undated(identity: Identity) -> Identity:
    return (
        identity.model_copy(update={"revision": ""})
        if identity.revision.startswith(_UNPINNED)
        else identity
    )


class BuildPlan:
    """One build, ready to be worked on. A plain class on purpose: Prefect does not walk into it."""

    def __init__(
        self,
        request: BuildRequest,
        home: Home,
        benchmark: Benchmark,
        staged: Staged,
        spec: BuildSpec,
        endpoints: Mapping[str, ModelEndpoint],
        embedder: ModelEndpoint | None,
    ) -> None:
        self.request, self.home, self.benchmark, self.staged, self.spec = (
            request,
            home,
            benchmark,
            staged,
            spec,
        )
        self.embedder, self._endpoints = embedder, endpoints
        self.construction = benchmark.constructions[spec.construction]
        self.build_id = spec.build_id
        self.folder = home.build(self.build_id)
        self.options = option_values(self.construction.options, request.options, request.what)

    @property
    def models(self) -> tuple[tuple[ModelIdentity, ModelEndpoint, ModelRequest], ...]:
        """Every model that takes part, role by role: who, where, and what was asked for."""
        return tuple(
            (one.model, self._endpoints[one.role], self.request.roles[one.role])
            for one in self.spec.roles
        )

    @cached_property
    def estimate(self) -> Mapping[str, int]:
        """Role -> calls, kept ones too."""
        estimated = self.construction.estimate(staged=self.staged, options=self.options)
        return {role: estimated.get(role, 0) for role in self.construction.roles}

    @cached_property
    def sandbox(self) -> Sandbox:
        """Where its programs run. It has the imports of the benchmark's programs loaded, where it can."""
        return self.benchmark.programs.load_sandbox(self.request.sandbox, self.spec.dataset_version)

    @cached_property
    def limits(self) -> Limits:
        """Bounds of its programs on this machine."""
        return widened(
            self.construction.limits or self.benchmark.programs.limits,
            self.home.path,
            self.request.sandbox,
        )

    @property
    def is_begun(self) -> bool:
        """Whether it was worked on before."""
        return (self.folder / BEGUN).exists()

    def note_begun(self) -> None:
        """Write down what is being made, so that it keeps its id on a later day."""
        (self.folder / FINISHED).unlink(missing_ok=True)
        replace_file(self.folder / BEGUN, self.spec.model_dump_json(indent=1).encode())

    def note_finished(self) -> None:
        """Write down that it came to its end."""
        (self.folder / FINISHED).touch()


def plan_build(request: BuildRequest, home: Home) -> BuildPlan:
    """Plan one build.

    Raises:
        UsageError: a part of the request is unknown, unreadable or not staged.
    """
    known = known_builds.constructions()
    if request.what not in known:
        raise UnknownName("build", request.what, sorted(known), "`parley list builds` shows them")
    benchmark, construction = known[request.what]
    own = construction.dataset_version if request.data is None else None
    data, version = locate(benchmark, request.data, request.dataset_version or own, home)
    if version not in benchmark.data.versions:
        raise UnknownName("dataset version", version, benchmark.data.versions, of=benchmark.name)
    if construction.runs_programs:
        SANDBOXES.require(request.sandbox)
    chosen = option_values(construction.options, request.options, request.what)
    defaults = {option.name: option.default for option in construction.options}
    roles, embedder = _choose_models(request, construction), _choose_embedder(request, construction)
    staged = (
        furnished_data(benchmark, data, version, home, request.resources)
        if request.resources
        else find_data(benchmark, data, version, Lake(home.lake))
    )
    spec = BuildSpec(
        benchmark=benchmark.name,
        benchmark_version=benchmark.about.version,
        construction=request.what.removeprefix(f"{benchmark.name}-"),
        dataset_version=version,
        dataset_digest=staged.digest,
        roles=tuple(
            BuildRole(role=name, model=choice.identity, sampling=construction.roles[name].sampling)
            for name, choice in roles.items()
        ),
        prompts=tuple(
            sorted((name, text_digest(text)) for name, text in construction.prompts.items())
        ),
        options=tuple(
            sorted((name, value) for name, value in chosen.items() if value != defaults[name])
        ),
        embedder=embedder.identity if embedder else None,
    )
    endpoints = {name: choice.endpoint for name, choice in roles.items()}
    first = _first_rows(staged, request.limit)
    plan = BuildPlan(
        request,
        home,
        benchmark,
        first,
        _as_begun(home, spec),
        endpoints,
        embedder.endpoint if embedder else None,
    )
    _ = plan.estimate  # refuses data that it cannot begin with, before anything is started
    return plan


def _choose_models(request: BuildRequest, construction: Construction) -> dict[str, ModelChoice]:
    """Role -> its model, in the order of their names.

    Raises:
        ConfigError: a role has no model.
        UnknownName: a model is named for a role that it has not.
    """
    wanted = sorted(construction.roles)
    unknown = [name for name in request.roles if name not in wanted]
    if unknown:
        raise UnknownName("role", unknown[0], wanted, of=request.what)
    for role in wanted:
        if role not in request.roles:
            option = f"--{role} SPEC" if role in ("model", "judge") else f"--model {role}=SPEC"
            raise ConfigError(
                f"{request.what} asks a model as its {role} ({construction.roles[role].help}). Name it by {option}"
            )
    return {role: choose(request.roles[role], None) for role in wanted}


def _choose_embedder(request: BuildRequest, construction: Construction) -> EmbedderChoice | None:
    asked = request.embedder
    if asked is None and construction.needs_embedder:
        raise ConfigError(
            f"{request.what} compares texts by their vectors. Name an embedder by --embedder SPEC"
        )
    if asked is None:
        return None
    if not construction.needs_embedder:
        raise ConfigError(
            f"--embedder {asked.spec}: nothing in {request.what} reads vectors. Leave it out"
        )
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    return parse_embedder(asked.spec, key_env=asked.key_env, revision=asked.revision, today=today)


def _first_rows(staged: Staged, limit: int | None) -> Staged:
    if limit is None:
        return staged
    problems = staged.problems[:limit]
    names = {problem.problem_id for problem in problems}
    dialogs = tuple(dialog for dialog in staged.dialogs if dialog.problem_id in names)
    return replace(
        staged, problems=problems, dialogs=dialogs, n_input=len(problems) + len(staged.quarantined)
    )


def _as_begun(home: Home, spec: BuildSpec) -> BuildSpec:
    """The same build as it was begun, if that was on another day (UTC) and it is unfinished: it goes on and begins no new one."""
    if spec == spec.undated:
        return spec
    unfinished = [
        path for path in home.builds.glob(f"*/{BEGUN}") if not (path.parent / FINISHED).exists()
    ]
    for path in sorted(unfinished, key=_age):
        with suppress(OSError, ValueError):
            earlier = BuildSpec.model_validate_json(path.read_text(encoding="utf-8"))
            if earlier.undated == spec.undated:
                return earlier
    return spec


def _age(path: Path) -> float:
    return -path.stat().st_mtime
