"""Workspaces of a run's dialogues and of its patches, in threads of a worker process."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from sandbox import registry as sandboxes
from sandbox.interface import Sandbox
from sandbox.judging.patched_repository import OpenPlace, PatchProgram, run_patch
from sandbox.workspace.interface import (
    CommandResult,
    HoldsWorkspaces,
    TreeBounds,
    image_of,
)
from sandbox.workspace.workspace import Workspace, open_workspace, workspaces_of
from schemas.problem import RepoSnapshot
from schemas.run import Limits
from schemas.verdict import ProgramVerdict
from tasks.storage.files.environments import Environments
from tasks.storage.files.trees import TreeStore
from tasks.storage.home import find_home
from tasks.worker.images import held_repository
from tasks.worker.jobs import RunContext
from tasks.worker.program_book import RunPatch

T = TypeVar("T")
_FILE_THREADS = 4
IMAGE_FOLDER = "/testbed"
"""Folder of an image that contains the repository."""
_OF_IMAGE = TreeBounds(total_mb=4096, file_mb=512, files=500_000)


class RunWorkspaces:
    """Workspaces of one run. See `tasks.dialogue.tools.Workspaces`.

    No thread or sandbox starts before a participant of a dialogue opens a workspace.

    Args:
        sandbox: Name of the run's sandbox.
        commands: Maximum number of parallel commands in this process. The host's slots limit all
            processes.
        environments: Store of Python environments. Default: the store of the home.
    """

    def __init__(
        self,
        sandbox: str,
        trees: TreeStore,
        commands: int,
        environments: Environments | None = None,
    ) -> None:
        self._sandbox_name, self._trees, self._commands = sandbox, trees, commands
        self._environments = environments or Environments(find_home().environments)
        self._of_images: dict[str, str] = {}

    @asynccontextmanager
    async def open(self, tree: str, *, environment: str = "") -> AsyncIterator["OpenWorkspace"]:
        stack, image = ExitStack(), image_of(environment)

        def opened() -> Workspace:
            workspace_tree = tree or self._tree_of_image(image)
            shown = self._environments.shown(environment) if environment and not image else {}
            return stack.enter_context(
                open_workspace(self._sandbox(image), self._trees, workspace_tree, shown=shown)
            )

        try:
            yield OpenWorkspace(await _to_its_end(self._files, opened), self._threads, self._files)
        finally:
            await _to_its_end(self._files, stack.close)

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._commands, thread_name_prefix="parley-workspace")

    @cached_property
    def _files(self) -> ThreadPoolExecutor:
        """Threads for file operations of milliseconds, which must not wait behind commands."""
        self._trees.remove_abandoned()
        return ThreadPoolExecutor(_FILE_THREADS, thread_name_prefix="parley-files")

    def _sandbox(self, image: str) -> HoldsWorkspaces:
        if not image:
            return workspaces_of(sandboxes.load(self._sandbox_name))
        from sandbox.backends.docker.backend import DockerSandbox

        return DockerSandbox(image=image)

    def _tree_of_image(self, image: str) -> str:
        from sandbox.backends.docker.backend import DockerSandbox

        if not image:
            raise ValueError("a workspace needs a tree or an image: name one of them")
        if image not in self._of_images:
            with tempfile.TemporaryDirectory(prefix="parley-image-") as folder:
                DockerSandbox(image=image).copy_folder(IMAGE_FOLDER, Path(folder))
                self._of_images[image] = self._trees.keep(Path(folder), bounds=_OF_IMAGE).digest
        return self._of_images[image]

    def close(self) -> None:
        """Begin no more commands. Running commands finish."""
        for name in {"_threads", "_files"} & vars(self).keys():
            getattr(self, name).shutdown(wait=False, cancel_futures=name == "_threads")


class OpenWorkspace:
    """Workspace of one participant of a dialogue. A cancelled call ends the running command.

    See `tasks.dialogue.tools.DialogueWorkspace`.
    """

    def __init__(self, workspace: Workspace, threads: Executor, files: Executor) -> None:
        self._workspace, self._threads, self._files = workspace, threads, files

    async def shell(self, command: str, limits: Limits | None = None) -> CommandResult:
        return await self.run(self._workspace.shell(command), limits)

    async def run(
        self, argv: tuple[str, ...], limits: Limits | None = None, *, stdin: bytes = b""
    ) -> CommandResult:
        def done() -> CommandResult:
            return self._workspace.run_and_snapshot(argv, limits, stdin=stdin)

        return await _to_its_end(self._threads, done, self._workspace.end)

    async def read(self, path: str) -> bytes:
        return await _to_its_end(self._files, lambda: self._workspace.read(path))

    async def write(self, path: str, data: bytes) -> None:
        await _to_its_end(self._files, lambda: self._workspace.write(path, data))

    async def snapshot(self) -> str:
        return await _to_its_end(self._files, self._workspace.snapshot)


async def _to_its_end(
    threads: Executor, work: Callable[[], T], end: Callable[[], None] = lambda: None
) -> T:
    """Do the work on a thread.

    If the caller is cancelled, call `end` and wait for the work, which still needs its folder.
    """
    under_way = threads.submit(work)
    ended = asyncio.wrap_future(under_way)
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        end()
        if not under_way.cancel():
            await asyncio.wait([ended])
        raise


def patch_places(
    context: RunContext, sandbox: Sandbox, limits: Limits
) -> tuple[TreeStore, OpenPlace]:
    """Return the store of source trees, and a function that opens a workspace in one of them."""
    trees = TreeStore(context.place.trees)
    environments = Environments(context.place.environments)

    def open_place(tree: str, environment: str) -> AbstractContextManager[Workspace]:
        packages = "" if image_of(environment) else environment
        shown = environments.shown(packages) if packages else {}
        return open_workspace(
            workspaces_of(sandbox), trees, tree, limits=limits, with_state=False, shown=shown
        )

    return trees, open_place


def patch_runner(context: RunContext) -> RunPatch:
    """Return the function that runs the tests of a run's patches."""

    def run(
        sandbox: Sandbox, patch: str, repository: RepoSnapshot, limits: Limits
    ) -> ProgramVerdict:
        trees, open_place = patch_places(context, sandbox, limits)
        with held_repository(context, repository) as snapshot:
            return run_patch(open_place, trees, PatchProgram(patch, snapshot), limits)

    return run
