"""Resolution of repositories and environments: each instance's files, and packages of its tests."""

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
from tasks.benchmarks.dialogue_swebench.images import FORM, PROGRAMS, Images, PinnedImages
from tasks.benchmarks.raw_rows import BadRow
from tasks.benchmarks.staging import quarantined_row
from tasks.storage.files.checkouts import Checkouts
from tasks.storage.files.environments import Environments, Recipe
from tasks.storage.files.git_repositories import FORMS, Repositories
from tasks.storage.files.pulled_images import DISK, DISK_FORM, disk_gb
from tasks.storage.files.trees import TreeStore
from tasks.storage.home import Home

REPOS, ENVIRONMENTS, IMAGES = "repos", "environments", "images"
RESOURCES = {
    REPOS: f"It is the folder of the projects' repositories: {FORMS}",
    ENVIRONMENTS: "It is a JSON file of pinned packages by version, and of the needs of each"
    " instance's tests",
    IMAGES: FORM,
    DISK: DISK_FORM,
}


_PORT = 8765
_HTTPBIN = {
    "port": _PORT,
    "arguments": ("-m", "httpbin.core", "--host", "127.0.0.1", "--port", str(_PORT)),
}
"""HTTP server on loopback that tests use: its port, and the arguments of its Python."""
_HTTPBIN_URL = "HTTPBIN_URL"
"""Environment variable that tells the tests the server's address."""
_ASK_HTTPBIN_BEFORE = {"psf/requests": (2, 9)}
"""Project -> first version whose tests start their own httpbin.

Older tests use httpbin.org or the server in HTTPBIN_URL.
"""


def _require_httpbin(
    problem: Problem, repository: RepoSnapshot, variables: Mapping[str, str]
) -> None:
    """Reject a row whose tests use httpbin.org if no variable names another server.

    Raises:
        BadRow: The environment has no httpbin.
    """
    first = _ASK_HTTPBIN_BEFORE.get(repository.repo)
    version = tuple(int(part) for part in re.findall(r"\d+", repository.version))
    if first and version and version < first and _HTTPBIN_URL not in variables:
        remedy = "Add httpbin to `requirements` and `services` of its environment"
        raise BadRow(
            "network_missing", f"{problem.problem_id}: its tests use httpbin.org. {remedy}"
        )


class Pins(BaseModel):
    """One environment in the file `environments.json`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    repo: str = ""
    """Project to whose versions the environment applies. Empty for all projects."""
    versions: tuple[str, ...] = ()
    python: str | None = None
    """Version of Python, if it differs from the default at the top of the file."""
    requirements: tuple[str, ...]
    pth: dict[str, str] = Field(default_factory=dict)
    services: tuple[Literal["httpbin"], ...] = ()
    """Packages among the requirements that serve on loopback during the tests."""


class Needs(BaseModel):
    """Needs of one instance, as the file `environments.json` states them."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    environment: str
    python_flags: tuple[str, ...] = ()
    pytest_flags: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    test_files: tuple[str, ...] = ()
    web_tests: tuple[str, ...] = ()


class EnvironmentsFile(BaseModel):
    """Content of `environments.json`: environments by name, and the needs of instances."""

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
        """Return an instance's own needs, or else the environment of its project's version."""
        if problem_id in self.instances:
            return self.instances[problem_id]
        matches = [
            name
            for name, pins in self.environments.items()
            if repository.version
            and repository.version in pins.versions
            and pins.repo in ("", repository.repo)
        ]
        return Needs(environment=matches[0]) if matches else None

    def service_variables(self, name: str) -> dict[str, str]:
        """Return the variables that describe an environment's services to harness and tests."""
        if not self.environments[name].services:
            return {}
        return {
            SERVICES: json.dumps([_HTTPBIN]),
            _HTTPBIN_URL: f"http://127.0.0.1:{_PORT}/",
        }

    def recipe(self, name: str) -> Recipe:
        """Return the recipe that an environment is built from."""
        pins = self.environments[name]
        return Recipe(
            python=pins.python or self.python,
            requirements=pins.requirements,
            pth=tuple(sorted(pins.pth.items())),
        )


def resolve_resources(
    staged: Staged, source: Path | None, resources: Mapping[str, Path], home: Home
) -> Staged:
    """Resolve the instances' repositories and environments. See `Resolve`.

    By default, the folder `repos` and the file `environments.json` in the data's folder are used.
    """
    folder = None if source is None else source if source.is_dir() else source.parent
    images = Images.named(str(resources[IMAGES])) if IMAGES in resources else None
    if images is not None and REPOS in resources:
        raise ConfigError(
            f"--resource {REPOS}= and {IMAGES}=: images contain their repositories. Remove one of"
            " the two"
        )
    repos = None if images is not None else resources.get(REPOS) or _path_beside(folder, REPOS)
    listing = resources.get(ENVIRONMENTS) or _path_beside(folder, "environments.json")
    if repos is None and images is None:
        if all(
            problem.repo and (problem.repo.tree or image_of(problem.repo.environment))
            for problem in staged.problems
        ):
            return staged
        raise ConfigError(
            "the instances need their repositories. Name their folder by --resource repos=DIR"
            f" (`resources` in a night's configuration), each {FORMS}, or SWE-bench's Docker images"
            " by --resource images=swebench"
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
        return _require_an_image(
            _Resolver(pinned, pins, checkouts, environments).all(staged), len(staged.quarantined)
        )
    with Repositories([repos] if repos else []) as repositories:
        return _Resolver(repositories, pins, checkouts, environments).all(staged)


def _require_an_image(resolved: Staged, n_before: int) -> Staged:
    """Return the resolved instances if at least one has an image.

    If none has one, the form of the image names is probably wrong.

    Raises:
        SourceUnreadable: No instance has an image.
    """
    if resolved.problems or len(resolved.quarantined) == n_before:
        return resolved
    raise SourceUnreadable(
        f"no instance has an image. {resolved.quarantined[n_before].detail}. {FORM}"
    )


def _path_beside(folder: Path | None, name: str) -> Path | None:
    return folder / name if folder is not None and (folder / name).exists() else None


def read_environments(path: Path) -> EnvironmentsFile:
    """Return the contents of a file that describes Python environments of tasks.

    Raises:
        SourceUnreadable: The file cannot be read or is not valid.
    """
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        return EnvironmentsFile.model_validate(data)
    except (OSError, ValueError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise SourceUnreadable(
            f"{path} does not describe environments of tasks ({reason}). The README of"
            " dialogue_swebench has its format"
        ) from error


@dataclass(frozen=True)
class _Resolver:
    source: Repositories | PinnedImages
    """Source of the repositories. Images contain the packages as well."""
    pins: EnvironmentsFile | None
    checkouts: Checkouts
    environments: Environments

    def all(self, staged: Staged) -> Staged:
        problems: dict[str, Problem] = {}
        bad: list[QuarantinedRow] = []
        for problem in staged.problems:
            try:
                problems[problem.problem_id] = self._resolve(problem)
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

    def _resolve(self, problem: Problem) -> Problem:
        repository = problem.repo
        assert repository is not None
        image = self.source.of(problem.problem_id) if isinstance(self.source, PinnedImages) else ""
        needs = self._needs(problem, repository)
        if needs is not None and needs.web_tests:
            pages = ", ".join(needs.web_tests)
            raise BadRow(
                "network_missing",
                f"{problem.problem_id}: its tests use public web pages: {pages}",
            )
        present_needs = needs or Needs(environment="")
        services = (
            self.pins.service_variables(needs.environment)
            if self.pins and needs and not image
            else {}
        )
        _require_httpbin(problem, repository, {**services, **present_needs.env})
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
        resolved = repository.model_copy(
            update={
                "tree": tree,
                "tested_tree": tested,
                "environment": environment,
                "test_files": present_needs.test_files or repository.test_files,
                "python_flags": present_needs.python_flags,
                "pytest_flags": present_needs.pytest_flags,
                "variables": tuple(
                    sorted({**dict(repository.variables), **services, **present_needs.env}.items())
                ),
                "web_tests": present_needs.web_tests,
            }
        )
        return problem.model_copy(update={"repo": resolved})

    def _environment(self, problem: Problem, recipe: Recipe) -> str:
        if not self.environments.can_have(recipe):
            raise BadRow(
                "python_missing",
                f"{problem.problem_id}: its environment needs Python {recipe.python}, which this"
                f" machine lacks. Put a python{recipe.python} on the PATH, or build one with pyenv",
            )
        return self.environments.keep(recipe)

    def _tree(self, problem: Problem, repository: RepoSnapshot, source: Repositories) -> str:
        folder = source.with_commit(repository.repo, repository.base_commit)
        if folder is None:
            raise BadRow(
                "repository_missing",
                f"{problem.problem_id}: no repository here has the commit {repository.base_commit}"
                f" of {repository.repo}",
            )
        return self.checkouts.tree(folder, repository.base_commit)

    def _needs(self, problem: Problem, repository: RepoSnapshot) -> Needs | None:
        if self.pins is None:
            return None
        needs = self.pins.needs(problem.problem_id, repository)
        if isinstance(self.source, PinnedImages):
            return needs
        if needs is None or needs.environment not in self.pins.environments:
            raise BadRow(
                "environment_missing",
                f"{problem.problem_id}: the file of environments has none for {repository.repo}"
                f" {repository.version}",
            )
        return needs


def _digest(row_digest: str, problem: Problem) -> str:
    """Return a dialogue's digest, extended by the packages that its agent can use."""
    environment = problem.repo.environment if problem.repo else ""
    return content_id([row_digest, environment]) if environment else row_digest
