"""Brings repositories and environments into a home: each instance's files with and without its tests, and what they run with."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sandbox.workspace.interface import image_of, in_image
from schemas.content_id import content_id
from schemas.errors import ConfigError, SourceUnreadable
from schemas.problem import SERVICES, Problem, QuarantinedRow, RepoSnapshot
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.dialogue_swebench.images import FORM, PROGRAMS, PinnedImages, images_beside
from tasks.benchmarks.raw_lines import BadRow, quarantined_row
from tasks.storage.files.checkouts import Checkouts
from tasks.storage.files.environments import Environments, Recipe
from tasks.storage.files.git_repositories import FORMS, Repositories
from tasks.storage.files.pulled_images import DISK, DISK_FORM, disk_gb
from tasks.storage.files.trees import TreeStore
from tasks.storage.home import Home

REPOS, ENVIRONMENTS, IMAGES = "repos", "environments", "images"
RESOURCES = {
    REPOS: f"It is the folder of the projects' repositories: {FORMS}",
    ENVIRONMENTS: "It is a JSON file of pinned packages by version, and of what each instance's tests need",
    IMAGES: FORM,
    DISK: DISK_FORM,
}


@dataclass(frozen=True)
class _Service:
    """A package that serves the tests on loopback, by `python -m`."""

    module: str
    variable: str
    """Names its address to the tests."""
    port: int

    @property
    def arguments(self) -> tuple[str, ...]:
        return ("-m", self.module, "--host", "127.0.0.1", "--port", str(self.port))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"


_SERVICES = {"httpbin": _Service("httpbin.core", "HTTPBIN_URL", 8765)}
_ASK_HTTPBIN_BEFORE = {"psf/requests": (2, 9)}
"""Project -> first version whose tests start their own httpbin. Older tests ask httpbin.org, or the server of HTTPBIN_URL."""


def _require_httpbin(
    problem: Problem, repository: RepoSnapshot, variables: Mapping[str, str]
) -> None:
    """Quarantine a row whose tests ask httpbin.org where no variable names another server. Raises BadRow."""
    first = _ASK_HTTPBIN_BEFORE.get(repository.repo)
    version = tuple(int(part) for part in re.findall(r"\d+", repository.version))
    if first and version and version < first and _SERVICES["httpbin"].variable not in variables:
        remedy = "give its environment httpbin in `requirements` and `services`"
        raise BadRow(
            "network_missing", f"{problem.problem_id}: its tests ask httpbin.org; {remedy}"
        )


class Pins(BaseModel):
    """One environment of the file."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    repo: str = ""
    """Project whose versions it is for (`django/django`); empty for those of every project."""
    versions: tuple[str, ...] = ()
    python: str | None = None
    """Its Python, where it is not the file's."""
    requirements: tuple[str, ...]
    pth: dict[str, str] = Field(default_factory=dict)
    services: tuple[Literal["httpbin"], ...] = ()
    """Packages among the requirements that serve on loopback while the tests run."""


class Needs(BaseModel):
    """What the file says of one instance."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    environment: str
    python_flags: tuple[str, ...] = ()
    pytest_flags: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    test_files: tuple[str, ...] = ()
    web_tests: tuple[str, ...] = ()


class EnvironmentsFile(BaseModel):
    """Pins by name, and instances."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    python: str
    environments: dict[str, Pins]
    instances: dict[str, Needs] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _can_be_built(self) -> Self:
        for name in self.environments:
            self.recipe(name)
        return self

    def needs(self, problem_id: str, repository: RepoSnapshot) -> Needs | None:
        """What an instance needs: as stated for it, or the environment of its project's version."""
        if problem_id in self.instances:
            return self.instances[problem_id]
        fits = [
            name
            for name, pins in self.environments.items()
            if repository.version
            and repository.version in pins.versions
            and pins.repo in ("", repository.repo)
        ]
        return Needs(environment=fits[0]) if fits else None

    def service_variables(self, name: str) -> dict[str, str]:
        """Return the variables that tell of an environment's services, to the harness and to the tests."""
        named = self.environments[name].services
        if not named:
            return {}
        started = [
            {"port": _SERVICES[one].port, "arguments": _SERVICES[one].arguments} for one in named
        ]
        return {
            SERVICES: json.dumps(started),
            **{_SERVICES[one].variable: _SERVICES[one].url for one in named},
        }

    def recipe(self, name: str) -> Recipe:
        """What an environment is built from."""
        pins = self.environments[name]
        return Recipe(
            python=pins.python or self.python,
            requirements=pins.requirements,
            pth=tuple(sorted(pins.pth.items())),
        )


def furnish(
    staged: Staged, source: Path | None, resources: Mapping[str, Path], home: Home
) -> Staged:
    """See `Resolve`. Folder `repos` and `environments.json` beside the data count where nothing else is named."""
    folder = None if source is None else source if source.is_dir() else source.parent
    images = images_beside(resources.get(IMAGES))
    if images is not None and REPOS in resources:
        raise ConfigError(
            f"--resource {REPOS}= and {IMAGES}=: images bring their repositories; name one of the two"
        )
    repos = None if images is not None else resources.get(REPOS) or _beside(folder, REPOS)
    listing = resources.get(ENVIRONMENTS) or _beside(folder, "environments.json")
    if repos is None and images is None:
        if all(
            problem.repo and (problem.repo.tree or image_of(problem.repo.environment))
            for problem in staged.problems
        ):
            return staged
        raise ConfigError(
            "the instances need their repositories: name the folder that holds them by --resource repos=DIR (`resources` in a"
            f" night's configuration), each {FORMS}; or SWE-bench's Docker images by --resource images=swebench"
        )
    pins = None if listing is None else read_environments(listing)
    checkouts, environments = (
        Checkouts(TreeStore(home.trees), home.checkouts),
        Environments(home.environments),
    )
    if images is not None:
        disk_gb({name: str(value) for name, value in resources.items()})
        pinned = images.pinned(
            (problem.problem_id for problem in staged.problems), home.images / "digests"
        )
        return _some(
            _Furnishing(pinned, pins, checkouts, environments).all(staged), len(staged.quarantined)
        )
    with Repositories([repos] if repos else []) as found:
        return _Furnishing(found, pins, checkouts, environments).all(staged)


def _some(furnished: Staged, n_before: int) -> Staged:
    """What was furnished, if any was: where no image is there at all, their name is wrong."""
    if furnished.problems or len(furnished.quarantined) == n_before:
        return furnished
    raise SourceUnreadable(
        f"none of the instances has an image. {furnished.quarantined[n_before].detail}. {FORM}"
    )


def _beside(folder: Path | None, name: str) -> Path | None:
    return folder / name if folder is not None and (folder / name).exists() else None


def read_environments(path: Path) -> EnvironmentsFile:
    """The file of pins.

    Raises:
        SourceUnreadable: it is not there, or is no such file.
    """
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        return EnvironmentsFile.model_validate(data)
    except (OSError, ValueError) as error:
        said = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise SourceUnreadable(f"{path}: no file of environments ({said})") from error


@dataclass(frozen=True)
class _Furnishing:
    source: Repositories | PinnedImages
    """What has the repositories; images have what their programs run with, too."""
    pins: EnvironmentsFile | None
    checkouts: Checkouts
    environments: Environments

    def all(self, staged: Staged) -> Staged:
        problems: dict[str, Problem] = {}
        bad: list[QuarantinedRow] = []
        for problem in staged.problems:
            try:
                problems[problem.problem_id] = self._one(problem)
            except BadRow as why:
                row = quarantined_row(
                    problem.benchmark,
                    problem.dataset_version,
                    problem.source_file,
                    problem.source_line,
                    why,
                )
                bad.append(row)
        dialogs = [
            dialog.model_copy(
                update={"row_digest": _digest(dialog.row_digest, problems[dialog.problem_id])}
            )
            for dialog in staged.dialogs
            if dialog.problem_id in problems
        ]
        return replace(
            staged,
            dialogs=tuple(dialogs),
            problems=tuple(problems.values()),
            quarantined=(*staged.quarantined, *bad),
        )

    def _one(self, problem: Problem) -> Problem:
        repository = problem.repo
        assert repository is not None
        image = self.source.of(problem.problem_id) if isinstance(self.source, PinnedImages) else ""
        needs = self._needs(problem, repository)
        if needs is not None and needs.web_tests:
            named = ", ".join(needs.web_tests)
            raise BadRow(
                "network_missing",
                f"{problem.problem_id}: its tests ask for public web pages: {named}",
            )
        needed = needs or Needs(environment="")
        services = (
            self.pins.service_variables(needs.environment)
            if self.pins and needs and not image
            else {}
        )
        _require_httpbin(problem, repository, {**services, **needed.env})
        try:
            tree = (
                ""
                if isinstance(self.source, PinnedImages)
                else self._tree(problem, repository, self.source)
            )
            tested = self.checkouts.patched(tree, repository.test_patch) if tree else ""
        except SourceUnreadable as error:
            raise BadRow("repository_unreadable", f"{problem.problem_id}: {error}") from error
        environment = in_image(image, PROGRAMS) if image else ""
        if self.pins and needs and not image:
            environment = self._environment(problem, self.pins.recipe(needs.environment))
        furnished = repository.model_copy(
            update={
                "tree": tree,
                "tested_tree": tested,
                "environment": environment,
                "test_files": needed.test_files or repository.test_files,
                "python_flags": needed.python_flags,
                "pytest_flags": needed.pytest_flags,
                "variables": tuple(
                    sorted({**dict(repository.variables), **services, **needed.env}.items())
                ),
                "web_tests": needed.web_tests,
            }
        )
        return problem.model_copy(update={"repo": furnished})

    def _environment(self, problem: Problem, recipe: Recipe) -> str:
        if not self.environments.can_have(recipe):
            said = f"{problem.problem_id}: its environment needs Python {recipe.python}, and this machine has none: put a"
            raise BadRow(
                "python_missing",
                f"{said} python{recipe.python} on the PATH, or build one with pyenv",
            )
        return self.environments.keep(recipe)

    def _tree(self, problem: Problem, repository: RepoSnapshot, source: Repositories) -> str:
        found = source.with_commit(repository.repo, repository.base_commit)
        if found is None:
            said = f"{problem.problem_id}: no repository here has the commit {repository.base_commit} of {repository.repo}"
            raise BadRow("repository_missing", said)
        return self.checkouts.tree(found, repository.base_commit)

    def _needs(self, problem: Problem, repository: RepoSnapshot) -> Needs | None:
        if self.pins is None:
            return None
        needs = self.pins.needs(problem.problem_id, repository)
        if isinstance(self.source, PinnedImages):
            return needs
        if needs is None or needs.environment not in self.pins.environments:
            said = f"{problem.problem_id}: the file of environments has none for {repository.repo} {repository.version}"
            raise BadRow("environment_missing", said)
        return needs


def _digest(row_digest: str, problem: Problem) -> str:
    """A dialogue's digest with what its agent finds beside the files: the packages."""
    environment = problem.repo.environment if problem.repo else ""
    return content_id([row_digest, environment]) if environment else row_digest
