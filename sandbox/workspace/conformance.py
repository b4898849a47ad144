"""Conformance cases that the workspaces of every sandbox must pass.

They are the cases of `sandbox/conformance.py`, run in workspaces, and further cases of this module.

with tree_store() as trees:
    for case in cases(trees):
        print(case.name, case.violation(sandbox) or "holds")
"""

import os
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sandbox import conformance
from sandbox.conformance import LIMITS, Case
from sandbox.host.file_archive import checked_name
from sandbox.interface import Completed, Sandbox
from sandbox.workspace.interface import TreeBounds, Trees
from sandbox.workspace.workspace import Workspace, open_workspace, workspaces_of
from schemas.run import Limits

NOT_OF_WORKSPACES = {
    "each_command_starts_clean",  # In a workspace files persist, see `state_lasts`.
    "scratch_space_is_limited",  # A workspace is on disk, see `a_filled_workspace_is_ended`.
}
_FEW = TreeBounds(total_mb=8, file_mb=4, files=200, depth=16)
_FILLING = LIMITS.model_copy(update={"wall_s": 30.0, "cpu_s": 30.0})
_FILL = """
import time
for number in range(12):
    with open(f"f{number}", "wb") as file: file.write(b"x" * (4 << 20))
time.sleep(25)
print("ended by itself")
"""

_FILES_IN_TMP = "find /tmp -mindepth 1 -maxdepth 1 ! -type d"
"""Shell command that lists the files in /tmp. It omits folders, because a Python below /tmp is
visible there.
"""


@dataclass(frozen=True)
class Opening:
    """Factory of workspaces of one sandbox. A workspace is empty unless a digest is passed."""

    sandbox: Sandbox
    trees: Trees

    def __call__(
        self,
        tree: str | None = None,
        *,
        limits: Limits = LIMITS,
        bounds: TreeBounds = _FEW,
        with_state: bool = True,
    ) -> AbstractContextManager[Workspace]:
        """Open a workspace. See `open_workspace`."""
        workspaces = workspaces_of(self.sandbox)
        return open_workspace(
            workspaces,
            self.trees,
            tree or self._empty(),
            limits=limits,
            bounds=bounds,
            with_state=with_state,
        )

    def _empty(self) -> str:
        with tempfile.TemporaryDirectory() as folder:
            return self.trees.keep(Path(folder), {}, {}, _FEW).digest


def cases(trees: Trees) -> tuple[Case, ...]:
    """Return all cases. A case does no harm, even if the sandbox fails it.

    Args:
        trees: store of folders that the cases may fill.
    """

    def of(check: Callable[[Opening], str]) -> Callable[[Sandbox], str]:
        return lambda sandbox: check(Opening(sandbox, trees))

    programs = (case for case in conformance.CASES if case.name not in NOT_OF_WORKSPACES)
    return (
        *(
            Case(case.name, lambda sandbox, case=case: case.violation(_AsSandbox(sandbox, trees)))
            for case in programs
        ),
        *(Case(check.__name__.lstrip("_"), of(check)) for check in _OWN),
    )


class _AsSandbox:
    """Sandbox whose sessions are workspaces, for the cases of `sandbox/conformance.py`."""

    isolated = True

    def __init__(self, sandbox: Sandbox, trees: Trees) -> None:
        self.name, self.has_host_packages = sandbox.name, sandbox.has_host_packages
        self.check, self.fingerprint = sandbox.check, sandbox.fingerprint
        self._open = Opening(sandbox, trees)

    @contextmanager
    def session(self, limits: Limits, *, keep_files: bool = False) -> Iterator["_AsSession"]:
        with self._open(limits=limits) as workspace:
            yield _AsSession(workspace)


class _AsSession:
    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def run(
        self,
        argv: tuple[str, ...],
        *,
        files: Mapping[str, bytes] | None = None,
        stdin: bytes = b"",
        limits: Limits | None = None,
    ) -> Completed:
        for name, content in (files or {}).items():
            checked_name(name)
            # The workspace refuses the name, because the path contains a link.
            with suppress(OSError, ValueError):
                self._workspace.write(name, content)
        return self._workspace.run(argv, limits, stdin=stdin)


def _run_shell(workspace: Workspace, command: str) -> str:
    """Return what a shell command prints, and its status if that is not 0."""
    done = workspace.run(workspace.shell(command))
    return (done.stdout + done.stderr).decode(errors="replace") + (
        f"[{done.exit_code}]" if done.exit_code else ""
    )


def _differs(actual: object, expected: object) -> str:
    return "" if actual == expected else f"{actual!r} instead of {expected!r}"


def _state_lasts(opening: Opening) -> str:
    with opening() as workspace:
        _run_shell(
            workspace,
            "mkdir -p a/b && cd a/b && export V='x y\nz' && echo 1 > file && echo 2 > /tmp/other",
        )
        return _differs(
            _run_shell(workspace, 'echo "$PWD" "$V"; cat file /tmp/other'),
            "/testbed/a/b x y\nz\n1\n2\n",
        )


def _state_lasts_however_the_shell_ends(opening: Opening) -> str:
    folders: list[str] = []
    with opening() as workspace:
        ends = (
            "cd /usr; exit 3",
            "cd bin; set -e; false",
            "cd ..; trap 'exit 4' EXIT",
            "cd lib; if; then",
            "cd /; kill -9 $$",
        )
        for end in ends:
            _run_shell(workspace, end)
            folders.append(_run_shell(workspace, "pwd"))
    return _differs(folders, ["/usr\n", "/usr/bin\n", "/usr\n", "/usr\n", "/usr\n"])


def _a_time_limit_leaves_the_shells_state(opening: Opening) -> str:
    with opening() as workspace:
        _run_shell(workspace, "cd /usr")
        done = workspace.run(
            workspace.shell("cd /; sleep 60"), LIMITS.model_copy(update={"wall_s": 1.0})
        )
        return _differs((done.timed_out, _run_shell(workspace, "pwd")), (True, "/usr\n"))


def _a_gone_folder_is_left(opening: Opening) -> str:
    with opening() as workspace:
        _run_shell(workspace, "mkdir gone; cd gone; rmdir ../gone")
        return _differs(_run_shell(workspace, "pwd"), "/testbed\n")


def _a_snapshot_is_the_state(opening: Opening) -> str:
    with opening() as workspace:
        command = (
            "mkdir d; cd d; export V=1; echo 1 > f; chmod 755 f; ln -s f l; mkdir e; "
            "echo 2 > $'\\xff'; echo 3 > /tmp/t"
        )
        tree = workspace.run_and_snapshot(workspace.shell(command)).tree
        _run_shell(workspace, "rm -rf /testbed/d /tmp/t; unset V")
    with opening(tree) as workspace:
        again = workspace.snapshot()
        output = _run_shell(
            workspace, "pwd; ls; cat f l $'\\xff' /tmp/t; echo $V; test -x f && test -d e"
        )
    return _differs((again, output), (tree, "/testbed/d\ne\nf\nl\n\ufffd\n1\n1\n2\n3\n1\n"))


def _without_state_only_the_tree_is_there(opening: Opening) -> str:
    with opening() as workspace:
        tree = workspace.run_and_snapshot(
            workspace.shell("echo 1 > f; export V=1; cd /usr; echo 2 > /tmp/t")
        ).tree
    with opening(tree, with_state=False) as workspace:
        return _differs(
            _run_shell(workspace, f"pwd; cat f; echo $V; {_FILES_IN_TMP}"), "/testbed\n1\n\n"
        )


def _written_files_are_seen_and_read_back(opening: Opening) -> str:
    content = bytes(range(256)) * 100
    with opening() as workspace:
        workspace.write("new folder/file", content)
        workspace.write("/testbed/run.sh", b"echo 1")
        output = _run_shell(
            workspace,
            "chmod 755 run.sh; cat 'new folder/file' > copy; echo more >> 'new folder/file'; "
            "rm -r copy/x",
        )
        workspace.write("run.sh", b"echo 2")
        return _differs(
            (
                workspace.read("copy") == content,
                workspace.read("new folder/file") == content + b"more\n",
                _run_shell(workspace, "./run.sh"),
            ),
            (True, True, "2\n"),
        ) or ("" if "copy/x" in output else output)


def _links_lead_nowhere_else(opening: Opening) -> str:
    """Check that links made by a program neither reveal nor change files of the host.

    The host reads them, writes through them, and stores the workspace.
    """
    with tempfile.TemporaryDirectory(prefix="parley-planted-") as host:
        secret = Path(host) / "secret"
        secret.write_text("sentinel")
        with opening() as workspace:
            depth = "../" * 12
            _run_shell(
                workspace,
                f"ln -s {secret} file; ln -s {host} d; ln -s {depth}{host[1:]} up; "
                "ln -s loop loop; ln -s /testbed/in l",
            )
            refusals = [
                _refused(workspace, path)
                for path in (
                    "file",
                    "d/secret",
                    "up/secret",
                    "loop",
                    "../tmp/x",
                    "/etc/passwd",
                    "a/../..",
                )
            ]
            workspace.write("in", b"inside")
            tree = workspace.snapshot()
            inside = workspace.read("l")
        with opening(tree) as workspace:
            links = _run_shell(workspace, "readlink file")
        changed = secret.read_text() != "sentinel" or os.listdir(host) != ["secret"]
    return _differs((refusals, inside, links, changed), ([""] * 7, b"inside", f"{secret}\n", False))


def _refused(workspace: Workspace, path: str) -> str:
    for attempt in (lambda: workspace.read(path), lambda: workspace.write(path, b"changed")):
        try:
            attempt()
        except (ValueError, OSError):
            continue
        return f"{path} was not refused"
    return ""


def _pipes_are_dropped_and_never_waited_for(opening: Opening) -> str:
    with opening() as workspace:
        done = workspace.run_and_snapshot(
            (
                "{python}",
                "-c",
                "import os; os.mkfifo('p'); open('f', 'w').close(); os.mkfifo('/tmp/q')",
            )
        )
        refused = _refused(workspace, "p") if "p" in done.dropped else "kept"
        return _differs(
            (sorted(done.dropped), _run_shell(workspace, f"ls; {_FILES_IN_TMP}")),
            (["p", "q"], "f\np\n" if refused else "f\n"),
        )


def _too_much_is_undone(opening: Opening) -> str:
    deep = "import os\nfor _ in range(40): os.mkdir('d'); os.chdir('d')"
    many = "for n in range(300): open(f'm{n}', 'w').close()"
    with opening() as workspace:
        tree = workspace.run_and_snapshot(workspace.shell("echo 1 > f; cd /usr")).tree
        for program in (deep, many):
            done = workspace.run_and_snapshot(("{python}", "-c", program))
            if done.tree != tree or not done.undone or b"undone" not in done.completed.stderr:
                return f"kept {done}"
        return _differs(_run_shell(workspace, "pwd; ls /testbed; cat /testbed/f"), "/usr\nf\n1\n")


def _a_filled_workspace_is_ended(opening: Opening) -> str:
    with opening(limits=_FILLING) as workspace:
        begun = time.monotonic()
        done = workspace.run_and_snapshot(("{python}", "-c", _FILL))
        if done.completed.stdout or time.monotonic() - begun > 20:
            return f"was not ended: {done.completed}"
        return _differs(
            (bool(done.undone), done.completed.timed_out, _run_shell(workspace, "ls")),
            (True, False, ""),
        )


def _workspaces_are_apart(opening: Opening) -> str:
    mark = secrets.token_hex(8)
    with opening() as first, opening() as second:
        _run_shell(
            first,
            f"export V={mark}; echo {mark} > f; echo {mark} > /tmp/t; chmod -R 777 /testbed /tmp",
        )
        output = _run_shell(
            second,
            f"ls -A /testbed /tmp; echo $V; grep -rls {mark} /testbed /tmp/t /shell; "
            "ls -d /tmp/parley-* 2>&1",
        )
        _run_shell(second, "echo 2 > /testbed/f")
        return _differs(mark in output, False) or _differs(_run_shell(first, "cat f"), f"{mark}\n")


def _no_slot_is_held_between_commands(opening: Opening) -> str:
    """Check that the number of open workspaces can exceed the number of slots."""
    with opening() as first, opening() as second, opening() as three:
        return _differs(
            [_run_shell(workspace, "echo 1") for workspace in (first, second, three, first)],
            ["1\n"] * 4,
        )


_OWN: tuple[Callable[[Opening], str], ...] = (
    _state_lasts,
    _state_lasts_however_the_shell_ends,
    _a_time_limit_leaves_the_shells_state,
    _a_gone_folder_is_left,
    _a_snapshot_is_the_state,
    _without_state_only_the_tree_is_there,
    _written_files_are_seen_and_read_back,
    _links_lead_nowhere_else,
    _pipes_are_dropped_and_never_waited_for,
    _too_much_is_undone,
    _a_filled_workspace_is_ended,
    _workspaces_are_apart,
    _no_slot_is_held_between_commands,
)
