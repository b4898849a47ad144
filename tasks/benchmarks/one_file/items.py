"""Task types for authors of a benchmark in one file: questions, and repositories for agents."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from pathlib import Path

from sandbox.workspace.interface import Entry
from schemas.dialog import Role
from schemas.episode import Step, StopReason
from schemas.problem import RepoSnapshot
from schemas.run import Limits
from tasks.benchmarks.advanced import CastRequest
from tasks.benchmarks.raw_rows import BadRow
from tasks.benchmarks.setting import own_texts
from tasks.dialogue.agents.repository.labels import ENDED
from tasks.dialogue.engine import Cast, Stop, Transcript
from tasks.storage.files.checkouts import Checkouts
from tasks.storage.files.git_repositories import Repository as GitRepository
from tasks.storage.files.git_repositories import make_repository, require_paths, run_git
from tasks.storage.files.trees import TreeStore
from tasks.storage.home import Home


@dataclass(frozen=True)
class Repository:
    """Repository of a task. The pytest ids in `Item.tests` decide whether the task is solved.

    Args:
        files: Text of each file that the agent receives, by path.
        test_files: Text of the test files, by path. They are added after the agent has finished.
        fixed: Text of each file changed by the reference, by path. `control:gold` answers with the
            diff.
    """

    files: Mapping[str, str]
    test_files: Mapping[str, str]
    fixed: Mapping[str, str] = field(default_factory=dict[str, str])

    def require(self, tests: Sequence[str]) -> None:
        """Check that git can compare all texts and that every test is in a test file.

        Raises:
            BadRow: A file or test is invalid. The message names the first one.
        """
        for part in (self.files, self.test_files, self.fixed):
            if not isinstance(part, Mapping) or not all(
                isinstance(text, str) for text in part.values()
            ):
                raise BadRow("wrong_type", f"{part!r:.60} is not a mapping from path to text")
            try:
                require_paths(part)
            except ValueError as fault:
                raise BadRow("wrong_type", str(fault)) from None
            for path, text in part.items():
                if text and not text.endswith("\n"):
                    raise BadRow("wrong_type", f"the text of {path} does not end with a newline")
        for test in tests:
            if test.partition("::")[0] not in self.test_files or "::" not in test:
                raise BadRow(
                    "wrong_type",
                    f"test {test!r} is not `FILE::NAME` with a file of "
                    f"{', '.join(self.test_files) or 'test_files'}",
                )

    @property
    def diff(self) -> str:
        """Return the reference's changes as a unified diff."""
        return "".join(
            line for path, text in self.fixed.items() for line in self._changed(path, text)
        )

    def _changed(self, path: str, text: str) -> Iterator[str]:
        old = self.files.get(path)
        before, after = (old or "").splitlines(keepends=True), text.splitlines(keepends=True)
        return unified_diff(before, after, "/dev/null" if old is None else f"a/{path}", f"b/{path}")

    def snapshot(self, name: str, tests: Sequence[str]) -> RepoSnapshot:
        """Return the snapshot with its tests. `stored` adds the digests of the files."""
        files = tuple(dict.fromkeys(test.partition("::")[0] for test in tests))
        return RepoSnapshot(repo=name, base_commit="", fail_to_pass=tuple(tests), test_files=files)

    def stored(self, snapshot: RepoSnapshot, home: Home) -> RepoSnapshot:
        """Store the files in the home and return the snapshot with their digests."""
        trees = TreeStore(home.trees)
        with tempfile.TemporaryDirectory(prefix="parley-files-") as name:
            folder = Path(name)
            make_repository(folder, self.files)
            commit = run_git(folder, "rev-parse", "HEAD").decode().strip()
            tree = Checkouts(trees, home.checkouts).tree(
                GitRepository(folder, snapshot.repo), commit
            )
        tests = {
            path: Entry(0o644, trees.add(text.encode())) for path, text in self.test_files.items()
        }
        return snapshot.model_copy(
            update={
                "base_commit": commit,
                "tree": tree,
                "tested_tree": trees.with_files(tree, tests),
            }
        )


@dataclass(frozen=True)
class Item:
    """One task.

    Args:
        id: Id, unique within the file.
        messages: The user's messages in order. If the benchmark has several settings, messages by
            setting.
        tests: Python statements that the program in the last answer must pass.
        reference: A good last answer, or a program if there are tests. `control:gold` answers with
            it.
        level: Group of tasks in result tables.
    """

    id: str
    messages: Sequence[str] | Mapping[str, Sequence[str]]
    tests: Sequence[str] = ()
    reference: str = ""
    level: str = "all"

    repository: Repository | None = None
    """Repository on which an agent works in an agentic benchmark. `tests` are then pytest ids."""

    def by_setting(self, settings: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """Return the messages by setting. Raise BadRow if a setting has none."""
        messages = (
            self.messages
            if isinstance(self.messages, Mapping)
            else dict.fromkeys(settings, self.messages)
        )
        for setting in settings:
            texts = messages.get(setting, ())
            if (
                not _is_list(texts)
                or not texts
                or not all(isinstance(text, str) and text.strip() for text in texts)
            ):
                raise BadRow(
                    "wrong_type",
                    f"setting {setting} needs a list of non-blank messages, but has {texts!r}",
                )
        return messages

    def require(self, is_agentic: bool, has_tests: bool, has_metric: bool) -> None:
        """Check that the item has the parts that the benchmark needs, with the right types.

        Raises:
            BadRow: A part is missing or invalid. The message names the first one.
        """
        if not _is_list(self.tests):
            raise BadRow("wrong_type", f"tests is {self.tests!r:.60}, not a list of strings")
        parts = {"id": self.id, "reference": self.reference, "level": self.level}
        parts |= {f"test {n}": test for n, test in enumerate(self.tests, 1)}
        for name, text in parts.items():
            if not isinstance(text, str) or (name == "id" and not text.strip()):
                raise BadRow("wrong_type", f"{name} is {text!r:.60}, not a string")
        if is_agentic != (self.repository is not None):
            word = "no" if is_agentic else "a"
            raise BadRow(
                "wrong_type",
                f"the task has {word} repository, but the benchmark has agentic={is_agentic}",
            )
        if self.repository is not None:
            self.repository.require(self.tests)
        if self.tests and not has_tests:
            raise BadRow("wrong_type", "the task has tests, but the benchmark lacks has_tests=True")
        if not self.tests and not has_metric:
            raise BadRow(
                "missing_field",
                "the task has no tests, and the benchmark has neither metric nor judge",
            )


def _is_list(value: object) -> bool:
    return isinstance(value, (list, tuple))


LIMITS = Limits(cpu_s=120.0, wall_s=240.0, memory_mb=2048, processes=128, file_mb=64, tmp_mb=256)
MOST_ROUNDS, MOST_STEPS = 101, 2000
"""Limits that the agents' own limit of 100 answers cannot reach."""
NOTHING_TO_ADD = "I have nothing to add. Do as you think best, and finish."


@dataclass(frozen=True)
class WaitingUser:
    """User who sends one text per round, then repeats that there is nothing to add."""

    texts: tuple[str, ...]
    """Texts of the user, in order. The user stops when the agent ends its work."""
    is_agent: bool
    """True if an agent answers. With a chat model, the dialogue ends after the last text."""

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """Return the text of this round, or stop."""
        n = transcript.turn
        if n > 1 and ENDED in dict(transcript.messages[-1].labels):
            return Stop(StopReason.FINISHED)
        if n > len(self.texts) and not self.is_agent:
            return Stop(StopReason.FINISHED)
        return Step(
            turn=n,
            role=Role.USER,
            content=self.texts[n - 1] if n <= len(self.texts) else NOTHING_TO_ADD,
        )


def cast(request: CastRequest) -> Cast:
    """Return a cast of the subject and a user who waits until the subject's work is done."""
    user = WaitingUser(
        tuple(own_texts(request.dialog, request.options)), request.make_subject is not None
    )
    return Cast(
        subject=request.subject_participant(),
        counterpart=user,
        max_turns=MOST_ROUNDS,
        max_steps=MOST_STEPS,
    )
