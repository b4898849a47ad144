"""Plan of a dataset build: its data, its models and its stored answers.

Planning reads files. It starts no server and sends no request.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TypeVar

from sandbox.calibration.factor import widened
from sandbox.interface import Sandbox
from sandbox.registry import SANDBOXES
from schemas.base import Frozen
from schemas.content_id import content_id, text_digest
from schemas.errors import ConfigError, UnknownName
from schemas.run import EmbedderIdentity, Limits, ModelIdentity, Sampling
from tasks.benchmarks import registry
from tasks.benchmarks.advanced import Construction
from tasks.benchmarks.contract import Benchmark, Staged
from tasks.benchmarks.setting import option_values
from tasks.datasets.catalogue import locate
from tasks.language.access import ModelAccess
from tasks.language.model_spec import parse_embedder
from tasks.planning.dataset import find_data, resolved_data
from tasks.planning.participants.access import PlannedModel, choose, policy_of
from tasks.planning.request import BuildRequest
from tasks.storage.home import Home
from tasks.storage.new_folder import replace_file
from tasks.storage.parquet_store import Lake

BEGUN, FINISHED = "begun.json", "finished"
_UNPINNED = "unpinned-"
Identity = TypeVar("Identity", ModelIdentity, EmbedderIdentity)


class BuildRole(Frozen):
    """Model of one role of a build, with its sampling."""

    role: str
    model: ModelIdentity
    sampling: Sampling


class BuildSpec(Frozen):
    """Values that can change the requests of a build.

    Addresses, concurrency and limits are left out, so a build keeps its id if they change.
    """

    benchmark: str
    benchmark_version: str
    construction: str
    dataset_version: str
    dataset_digest: str
    roles: tuple[BuildRole, ...]
    prompts: tuple[tuple[str, str], ...]
    """Prompt texts: (name, digest of the text)."""
    options: tuple[tuple[str, str], ...] = ()
    """Options whose value is not the default: (name, value)."""
    embedder: EmbedderIdentity | None = None

    @property
    def build_id(self) -> str:
        """Id of the build. The folder of its stored answers has this name."""
        return content_id(self)

    @property
    def undated(self) -> "BuildSpec":
        """Spec without the dates that replace unknown revisions (`unpinned-<UTC date>`)."""
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
    """Plan of one build. A plain class, because Prefect searches dataclasses for futures."""

    def __init__(
        self,
        request: BuildRequest,
        home: Home,
        benchmark: Benchmark,
        staged: Staged,
        spec: BuildSpec,
        roles: Mapping[str, ModelAccess],
        embedder: ModelAccess[EmbedderIdentity] | None,
    ) -> None:
        self.request, self.home, self.benchmark = request, home, benchmark
        self.staged, self.spec = staged, spec
        self.embedder, self._roles = embedder, roles
        self.construction = benchmark.constructions[spec.construction]
        self.build_id = spec.build_id
        self.folder = home.build(self.build_id)
        self.options = option_values(self.construction.options, request.options, request.what)

    @property
    def models(self) -> tuple[PlannedModel, ...]:
        """Models of all roles but the embedder."""
        names = (role.role for role in self.spec.roles)
        return tuple(
            PlannedModel(name, self._roles[name], self.request.roles[name]) for name in names
        )

    @cached_property
    def estimate(self) -> Mapping[str, int]:
        """Map each role to its estimated number of calls, including calls with a stored answer."""
        estimated = self.construction.estimate(staged=self.staged, options=self.options)
        return {role: estimated.get(role, 0) for role in self.construction.roles}

    @cached_property
    def sandbox(self) -> Sandbox:
        """Sandbox of the build's programs.

        If the sandbox can preload modules, it preloads the imports of the benchmark's programs.
        """
        return self.benchmark.programs.load_sandbox(self.request.sandbox, self.spec.dataset_version)

    @cached_property
    def limits(self) -> Limits:
        """Limits of the build's programs on this machine."""
        return widened(
            self.construction.limits or self.benchmark.programs.limits,
            self.home.path,
            self.request.sandbox,
        )

    @property
    def is_begun(self) -> bool:
        """True if an earlier invocation began the build."""
        return (self.folder / BEGUN).exists()

    def note_begun(self) -> None:
        """Store the spec. On a later day, the build resumes with the id of this spec."""
        (self.folder / FINISHED).unlink(missing_ok=True)
        replace_file(self.folder / BEGUN, self.spec.model_dump_json(indent=1).encode())

    def note_finished(self) -> None:
        """Mark the build as finished."""
        (self.folder / FINISHED).touch()


def plan_build(request: BuildRequest, home: Home) -> BuildPlan:
    """Plan one build.

    Raises:
        UsageError: a part of the request is unknown, unreadable or not staged.
    """
    builds = registry.constructions()
    if request.what not in builds:
        raise UnknownName("build", request.what, sorted(builds), "`parley list builds` shows them")
    benchmark, construction = builds[request.what]
    own = construction.dataset_version if request.data is None else None
    data, version = locate(benchmark, request.data, request.dataset_version or own, home)
    if construction.runs_programs:
        SANDBOXES.require(request.sandbox)
    chosen = option_values(construction.options, request.options, request.what)
    defaults = {option.name: option.default for option in construction.options}
    roles, embedder = _choose_models(request, construction), _choose_embedder(request, construction)
    staged = (
        resolved_data(benchmark, data, version, home, request.resources)
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
            BuildRole(role=name, model=access.identity, sampling=construction.roles[name].sampling)
            for name, access in roles.items()
        ),
        prompts=tuple(
            sorted((name, text_digest(text)) for name, text in construction.prompts.items())
        ),
        options=tuple(
            sorted((name, value) for name, value in chosen.items() if value != defaults[name])
        ),
        embedder=embedder.identity if embedder else None,
    )
    first, spec = _first_rows(staged, request.limit), _as_begun(home, spec)
    roles = {role.role: replace(roles[role.role], identity=role.model) for role in spec.roles}
    if embedder is not None and spec.embedder is not None:
        embedder = replace(embedder, identity=spec.embedder)
    plan = BuildPlan(request, home, benchmark, first, spec, roles, embedder)
    _ = plan.estimate  # raises for unsuitable data, before anything is started
    return plan


def _choose_models(request: BuildRequest, construction: Construction) -> dict[str, ModelAccess]:
    """Map each role of the construction to its model, sorted by role.

    Raises:
        ConfigError: a role has no model.
        UnknownName: the request names a model for an unknown role.
    """
    wanted = sorted(construction.roles)
    unknown = [name for name in request.roles if name not in wanted]
    if unknown:
        raise UnknownName("role", unknown[0], wanted, of=request.what)
    for role in wanted:
        if role not in request.roles:
            option = f"--{role} SPEC" if role in ("model", "judge") else f"--model {role}=SPEC"
            raise ConfigError(
                f"{request.what} needs a model for its role {role!r} "
                f"({construction.roles[role].help}). Name it with {option}"
            )
    return {
        role: choose(request.roles[role], None, concurrency=request.concurrency) for role in wanted
    }


def _choose_embedder(
    request: BuildRequest, construction: Construction
) -> ModelAccess[EmbedderIdentity] | None:
    model = request.embedder
    if model is None and construction.needs_embedder:
        raise ConfigError(
            f"{request.what} compares texts by their vectors. Name an embedder with --embedder SPEC"
        )
    if model is None:
        return None
    if not construction.needs_embedder:
        raise ConfigError(
            f"--embedder {model.spec}: {request.what} uses no vectors. Remove the option"
        )
    access = parse_embedder(model.spec, key_env=model.key_env, revision=model.revision)
    return replace(access, policy=policy_of(model, request.concurrency))


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
    """Return the spec of an unfinished build that differs only in the dates of its revisions.

    A build that began on an earlier day (UTC) is thus resumed. If there is no such build, return
    `spec`.
    """
    if spec == spec.undated:
        return spec
    unfinished = [
        path for path in home.builds.glob(f"*/{BEGUN}") if not (path.parent / FINISHED).exists()
    ]
    for path in sorted(unfinished, key=lambda path: -path.stat().st_mtime):
        with suppress(OSError, ValueError):
            earlier = BuildSpec.model_validate_json(path.read_text(encoding="utf-8"))
            if earlier.undated == spec.undated:
                return earlier
    return spec
