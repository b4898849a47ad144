"""SWE-bench's images by name, what is kept of them, and what is said where they cannot be had.

No daemon is needed.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flows.cli.options import parse_resources
from sandbox.backends.docker.backend import DockerSandbox
from sandbox.interface import Completed
from sandbox.judging.patched_repository import PatchProgram, run_patch
from sandbox.workspace.interface import image_of, in_image
from schemas.errors import ConfigError, SandboxUnavailable, SourceUnreadable, Unscorable
from schemas.verdict import FailureReason
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.dialogue_swebench import BENCHMARK
from tasks.benchmarks.dialogue_swebench.images import PROGRAMS, Images
from tasks.benchmarks.dialogue_swebench.resources import resolve_resources
from tasks.planning.plan import plan_run
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
from tasks.storage.files.checkouts import Checkouts, with_built_files, with_trees
from tasks.storage.files.git_repositories import Repository
from tasks.storage.files.pulled_images import disk_gb
from tasks.storage.files.trees import TreeStore
from tasks.storage.home import Home
from tests.tasks.benchmarks.dialogue_swebench.graded import (
    LEDGER,
    RETRIER,
    SAMPLE,
    SLUGS,
    furnished_sample,
)
from tests.tasks.benchmarks.dialogue_swebench.official_image import BUILT, git, lay_out

DIGEST = f"@sha256:{'1' * 64}"
MISSING = "no registry has the Docker image"


@pytest.fixture
def staged() -> Staged:
    return BENCHMARK.data.stage(SAMPLE, "x")


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch, staged: Staged) -> Callable[..., None]:
    """Stands in for a daemon that has these images, each with its instance's repository."""

    def has(*instances: str) -> None:
        names = {
            f"swebench/sweb.eval.x86_64.{name.replace('__', '_1776_')}:latest": name
            for name in instances
        }

        def pinned(self: DockerSandbox, image: str) -> str:
            if image not in names:
                raise SourceUnreadable(f"{MISSING} {image}: manifest unknown")
            return f"{image.removesuffix(':latest')}{DIGEST}"

        def copy(self: DockerSandbox, path: str, into: Path) -> None:
            assert path == "/testbed"
            assert self._image is not None
            (name,) = (
                name
                for image, name in names.items()
                if self._image.startswith(image.removesuffix("latest")[:-1])
            )
            lay_out(
                next(problem for problem in staged.problems if problem.problem_id == name), into
            )

        monkeypatch.setattr(DockerSandbox, "check_daemon", lambda self: None)
        monkeypatch.setattr(DockerSandbox, "has_image", lambda self, image: image in names)
        monkeypatch.setattr(DockerSandbox, "pinned_by_digest", pinned)
        monkeypatch.setattr(DockerSandbox, "copy_folder", copy)

    return has


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("swebench", "swebench/sweb.eval.x86_64.sphinx-doc_1776_sphinx-7462:latest"),
        (
            "localhost:5000/swebench",
            "localhost:5000/swebench/sweb.eval.x86_64.sphinx-doc_1776_sphinx-7462:latest",
        ),
        (
            "mirror.org/a/swebench",
            "mirror.org/a/swebench/sweb.eval.x86_64.sphinx-doc_1776_sphinx-7462:latest",
        ),
        (
            "mine/sweb.eval.arm64.{instance}:v2",
            "mine/sweb.eval.arm64.sphinx-doc_1776_sphinx-7462:v2",
        ),
        ("localhost:5000/eval.{instance_id}", "localhost:5000/eval.sphinx-doc__sphinx-7462"),
    ],
)
def test_an_instances_image_is_named_as_the_user_says(given: str, name: str) -> None:
    assert Images.named(given).name("Sphinx-Doc__sphinx-7462") == name


@pytest.mark.parametrize(
    "given",
    [
        "",
        "swebench/",
        "Mirror.org/swebench",
        "swebench/eval:latest",
        "swebench/{id}",
        "a b/{instance}",
        "Mine/{instance}",
    ],
)
def test_another_name_is_refused_with_the_forms(given: str) -> None:
    with pytest.raises(
        ConfigError, match=r"`swebench` for SWE-bench's official Docker images .*\{instance_id\}"
    ):
        Images.named(given)


def test_a_name_stays_as_it_is_and_a_path_becomes_whole() -> None:
    found = parse_resources(["images=swebench", "environments=pins.json"], "dialogue_swebench.full")
    assert found == {"images": "swebench", "environments": str(Path.cwd() / "pins.json")}


@pytest.mark.slow
def test_the_tree_of_an_image_is_the_base_commit_and_what_was_built(
    staged: Staged, daemon: Callable[..., None], tmp_path: Path
) -> None:
    daemon(LEDGER, SLUGS, RETRIER)
    home = Home(tmp_path / "home")
    found, plain = (
        resolve_resources(staged, SAMPLE, {"images": Path("swebench")}, home),
        furnished_sample(home),
    )
    store = TreeStore(home.trees)
    for problem, other in zip(found.problems, plain.problems, strict=True):
        assert problem.repo is not None
        assert other.repo is not None
        assert (problem.repo.tree, problem.repo.tested_tree) == ("", "")
        assert image_of(problem.repo.environment).endswith(DIGEST)
        held = with_trees(problem.repo, Checkouts(store, home.checkouts))
        changes, tested = (
            store.changes(other.repo.tree, held.tree),
            store.changes(other.repo.tested_tree, held.tested_tree),
        )
        assert [path for path in changes if not path.startswith(".git/")] == [BUILT]
        assert [path for path in tested if not path.startswith(".git/")] == [BUILT]
        agent = tmp_path / problem.problem_id
        agent.mkdir()
        store.restore(held.tree, agent, {})
        assert git(agent, "rev-list", "--all", "--count") == "1\n"
        assert (git(agent, "tag"), git(agent, "remote"), git(agent, "status", "--porcelain")) == (
            "",
            "",
            "",
        )
        assert "tomorrow" not in git(agent, "log", "--all", "--format=%s %D")
        fixed = {
            line.split()[0]
            for line in git(agent, "cat-file", "--batch-all-objects", "--batch-check").splitlines()
        }
        base = {line.split()[2] for line in git(agent, "ls-tree", "-r", "-t", "HEAD").splitlines()}
        assert fixed == base | {
            git(agent, "rev-parse", "HEAD").strip(),
            git(agent, "rev-parse", "HEAD^{tree}").strip(),
        }
    assert all(
        a.row_digest != b.row_digest for a, b in zip(found.dialogs, plain.dialogs, strict=True)
    )


def test_settings_and_hooks_of_an_image_are_not_run_here(staged: Staged, tmp_path: Path) -> None:
    copied, own, ran = tmp_path / "copied", tmp_path / "own", tmp_path / "ran"
    copied.mkdir()
    own.mkdir()
    lay_out(staged.problems[0], copied)
    commit = git(copied, "rev-parse", "HEAD").strip()
    (copied / ".gitattributes").write_text("* filter=own\n")
    for name, value in (
        ("core.fsmonitor", f"touch {ran}"),
        ("filter.own.clean", f"touch {ran}; cat"),
    ):
        git(copied, "config", name, value)
    (copied / "link").symlink_to("/etc/passwd")
    made = with_built_files(copied, own, commit)
    assert not ran.exists()
    entries = {entry.path: entry.mode for entry in Repository(own, "").entries(made)[1]}
    assert (entries["link"], entries[BUILT], ".gitattributes" in entries) == (
        "120000",
        "100644",
        True,
    )
    with pytest.raises(SourceUnreadable, match="does not have the commit"):
        with_built_files(copied, own, "1" * 40)


def test_an_instance_without_an_image_is_quarantined_and_none_with_one_is_refused(
    staged: Staged, daemon: Callable[..., None], tmp_path: Path
) -> None:
    daemon(LEDGER, RETRIER)
    found = resolve_resources(staged, None, {"images": Path("swebench")}, Home(tmp_path))
    assert {problem.problem_id for problem in found.problems} == {LEDGER, RETRIER}
    (row,) = found.quarantined
    assert (row.reason, MISSING in row.detail) == ("image_missing", True)
    daemon()
    with pytest.raises(SourceUnreadable, match=f"no instance has an image.*{MISSING}"):
        resolve_resources(staged, None, {"images": Path("swebench")}, Home(tmp_path / "other"))
    with pytest.raises(ConfigError, match="images contain their repositories"):
        resolve_resources(
            staged, None, {"images": Path("swebench"), "repos": SAMPLE / "repos"}, Home(tmp_path)
        )


@pytest.mark.parametrize("stated", ["0", "-1", "much", "inf", "nan"])
def test_the_bound_of_disk_is_a_number(
    stated: str, staged: Staged, daemon: Callable[..., None], tmp_path: Path
) -> None:
    daemon(LEDGER)
    with pytest.raises(ConfigError, match=f"images_gb={stated}: must be a number above 0"):
        resolve_resources(
            staged, None, {"images": Path("swebench"), "images_gb": Path(stated)}, Home(tmp_path)
        )
    assert (disk_gb({"images_gb": "0.5"}), disk_gb({})) == (0.5, 100.0)


def test_an_image_that_has_gone_since_keeps_the_digest_of_its_first_look_up(
    staged: Staged, daemon: Callable[..., None], tmp_path: Path
) -> None:
    """Else a registry whose tag has moved would give the dataset another id, and all its dialogues
    would be paid for again.
    """
    resources, home = {"images": Path("swebench")}, Home(tmp_path)
    daemon(LEDGER, SLUGS, RETRIER)
    before = resolve_resources(staged, None, resources, home)
    daemon()
    assert resolve_resources(staged, None, resources, home) == before
    with pytest.raises(SourceUnreadable):
        resolve_resources(staged, None, resources, Home(tmp_path / "other"))


def test_without_a_daemon_nothing_is_begun(
    monkeypatch: pytest.MonkeyPatch, staged: Staged, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    with pytest.raises(SandboxUnavailable, match=r"could not reach its daemon.*set DOCKER_HOST"):
        resolve_resources(staged, None, {"images": Path("swebench")}, Home(tmp_path))


def test_a_run_in_images_runs_in_docker_whatever_its_sandbox(
    daemon: Callable[..., None], tmp_path: Path
) -> None:
    daemon(LEDGER, SLUGS, RETRIER)
    benchmark = BenchmarkRequest(
        name="dialogue_swebench.full", dataset_version="sample", resources={"images": "swebench"}
    )
    request = EvaluationRequest(
        model=ModelRequest(spec="control:gold"), benchmark=benchmark, sandbox="zygote"
    )
    plan = plan_run(request, Home(tmp_path))
    assert (plan.spec.sandbox, plan.environment) == ("docker", "docker, an image for each program")
    assert len(plan.images) == 3
    assert all(image.endswith(DIGEST) for image in plan.images)


class OldPython:
    """A place whose runner ends at once, with the Python that it has."""

    def __init__(self, version: str, code: int) -> None:
        self.version, self.code = version, code

    def put(self, *_: object, **__: object) -> None:
        """The tests' files are put in place."""

    def __enter__(self) -> "OldPython":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(self, argv: tuple[str, ...], *_: object, **__: object) -> Completed:
        if "-c" in argv:
            return Completed(
                exit_code=self.code, stdout=self.version.encode(), stderr=b"no such file"
            )
        return Completed(exit_code=0, report=b"ready\n", stderr=b"SyntaxError: invalid syntax")


@pytest.mark.parametrize(
    ("version", "code", "said"),
    [("3 4", 0, "is 3.4: tests .* 3.5 or newer"), ("", 127, "has no Python at")],
)
def test_an_older_python_of_an_image_is_unscored_and_no_failure(
    staged: Staged, tmp_path: Path, version: str, code: int, said: str
) -> None:
    repository = furnished_sample(Home(tmp_path)).problems[0].repo
    assert repository is not None
    program = PatchProgram(
        "", repository.model_copy(update={"environment": in_image(f"x{DIGEST}", PROGRAMS)})
    )
    limits = BENCHMARK.programs.limits
    store = TreeStore(Home(tmp_path).trees)
    opened: Any = OldPython(version, code)
    with pytest.raises(Unscorable, match=said) as caught:
        run_patch(lambda tree, environment: opened, store, program, limits)
    assert caught.value.reason == FailureReason.TOOLCHAIN_MISSING
