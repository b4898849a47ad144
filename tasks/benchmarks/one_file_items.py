"""Tasks of a benchmark in one file, and the repositories that agents work on."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from pathlib import Path

from sandbox.workspace.interface import Entry
from schemas.problem import RepoSnapshot
from tasks.benchmarks.raw_lines import BadRow
from tasks.storage.files.checkouts import Checkouts
from tasks.storage.files.git_repositories import Repository as GitRepository
from tasks.storage.files.git_repositories import make_repository, require_paths, run_git
from tasks.storage.files.trees import TreeStore
from tasks.storage.home import Home


@dataclass(frozen=True)
class Repository:
    """Files that a task is about. The pytest ids `Item.tests` judge them.

    Args:
        files: path -> text of each file that the agent finds.
        test_files: path -> text of the files with the tests. They are put in place after the agent's work.
        fixed: path -> text of each file that the reference changes. `control:gold` answers with the diff.
    """

    files: Mapping[str, str]
    test_files: Mapping[str, str]
    fixed: Mapping[str, str] = field(default_factory=dict[str, str])

    def require(self, tests: Sequence[str]) -> None:
        """Require texts that git can compare, and tests of the test files.

        Raises:
            BadRow: names the first file or test that will not do.
        """
        for part in (self.files, self.test_files, self.fixed):
            if not isinstance(part, Mapping) or not all(
                isinstance(text, str) for text in part.values()
            ):
                raise BadRow("wrong_type", f"{part!r:.60} is no mapping of path to text")
            try:
                require_paths(part)
            except ValueError as fault:
                raise BadRow("wrong_type", str(fault)) from None
            for path, text in part.items():
                if text and not text.endswith("\n"):
                    raise BadRow("wrong_type", f"the text of {path} does not end with a line end")
        for test in tests:
            if test.partition("::")[0] not in self.test_files or "::" not in test:
                raise BadRow(
                    "wrong_type",
                    f"test {test!r} is no `FILE::NAME` of {', '.join(self.test_files) or 'test_files'}",
                )

    @property
    def diff(self) -> str:
        """The reference's changes as a unified diff."""
        return "".join(
            line for path, text in self.fixed.items() for line in self._changed(path, text)
        )

    def _changed(self, path: str, text: str) -> Iterator[str]:
        old = self.files.get(path)
        before, after = (old or "").splitlines(keepends=True), text.splitlines(keepends=True)
        return unified_diff(before, after, "/dev/null" if old is None else f"a/{path}", f"b/{path}")

    def snapshot(self, name: str, tests: Sequence[str]) -> RepoSnapshot:
        """Return what the tests are; the digests of the files come with `stored`."""
        files = tuple(dict.fromkeys(test.partition("::")[0] for test in tests))
        return RepoSnapshot(repo=name, base_commit="", fail_to_pass=tuple(tests), test_files=files)

    def stored(self, snapshot: RepoSnapshot, home: Home) -> RepoSnapshot:
        """Return the snapshot with the digests of its files, which the home then stores."""
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
        id: unique in the file.
        messages: what the user says, message by message; setting -> messages where a benchmark has several settings.
        tests: Python statements that the program of the last answer must pass.
        reference: what a good last answer holds: a program, where there are tests. `control:gold` gives it.
        level: group of tasks in result tables.
    """

    id: str
    messages: Sequence[str] | Mapping[str, Sequence[str]]
    tests: Sequence[str] = ()
    reference: str = ""
    level: str = "all"

    repository: Repository | None = None
    """Files that an agent works on, in an agentic benchmark; `tests` are then ids of pytest."""

    def by_setting(self, settings: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """Return setting -> messages. Raises BadRow where a setting has none."""
        found = (
            self.messages
            if isinstance(self.messages, Mapping)
            else dict.fromkeys(settings, self.messages)
        )
        for setting in settings:
            texts = found.get(setting, ())
            if (
                not _is_list(texts)
                or not texts
                or not all(isinstance(text, str) and text.strip() for text in texts)
            ):
                raise BadRow(
                    "wrong_type",
                    f"setting {setting} needs a list of messages that are not blank, not {texts!r}",
                )
        return found

    def require(self, is_agentic: bool, has_tests: bool, has_metric: bool) -> None:
        """Require the parts that the benchmark needs, each of its type.

        Raises:
            BadRow: names the first part that will not do.
        """
        if not _is_list(self.tests):
            raise BadRow("wrong_type", f"tests is {self.tests!r:.60}, and must be a list of texts")
        parts = {"id": self.id, "reference": self.reference, "level": self.level}
        parts |= {f"test {n}": test for n, test in enumerate(self.tests, 1)}
        for name, text in parts.items():
            if not isinstance(text, str) or (name == "id" and not text.strip()):
                raise BadRow("wrong_type", f"{name} is {text!r:.60}, and must be a text")
        if is_agentic != (self.repository is not None):
            word = "no" if is_agentic else "a"
            raise BadRow(
                "wrong_type",
                f"the task has {word} repository, and the benchmark says agentic={is_agentic}",
            )
        if self.repository is not None:
            self.repository.require(self.tests)
        if self.tests and not has_tests:
            raise BadRow(
                "wrong_type", "the task has tests, and the benchmark does not say has_tests=True"
            )
        if not self.tests and not has_metric:
            raise BadRow(
                "missing_field",
                "the task has no tests, and the benchmark has no metric or judge for answers without",
            )


def _is_list(value: object) -> bool:
    return isinstance(value, (list, tuple))
