"""Files of commits of a repository that a `git daemon` on loopback serves."""

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.errors import DataUnavailable
from tests.fixtures.git_host import commit, git, git_host, mirrored
from tests.tasks.datasets.declared import declared, fetch

URL = "https://github.com/abc/letters"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """A repository, and the variables by which git finds it under its public address."""
    root = tmp_path / "served"
    root.mkdir()
    with git_host(root) as base:
        yield root / "abc" / "letters", mirrored(base)


def test_files_of_two_commits_arrive_and_no_other_content_crosses_the_network(
    served: tuple[Path, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository, environ = served
    first = commit(repository, {"data/a.jsonl": b"old\n"})
    second = commit(
        repository,
        {
            "data/a.jsonl": b"new\n",
            "data/b.jsonl": b"b\n",
            "big.bin": bytes(100_000),
            "x/y/z.txt": b"z",
        },
    )
    files = {"data/*.jsonl": ".", "x/**": "below", f"{first}:data/a.jsonl": "v0/a.jsonl"}
    monkeypatch.setattr(
        "tasks.datasets.fetching.shutil.rmtree", lambda folder: None
    )  # what was fetched is looked at
    done = fetch(
        declared({"git": URL, "commit": second, "files": files}), tmp_path / "home", environ
    )
    arrived = {
        path.relative_to(done.folder).as_posix(): path.read_bytes()
        for path in done.folder.rglob("*")
        if path.is_file()
    }
    assert arrived == {
        "a.jsonl": b"new\n",
        "b.jsonl": b"b\n",
        "below/y/z.txt": b"z",
        "v0/a.jsonl": b"old\n",
    }
    assert done.receipt.revision == second
    (partial,) = (tmp_path / "home").rglob(".repository")
    missing = git(partial, "rev-list", "--objects", "--missing=print", second).splitlines()
    assert [line for line in missing if line.startswith("?")] == [
        "?" + git(repository, "rev-parse", f"{second}:big.bin")
    ]


def test_members_of_an_archive_in_the_tree_are_taken_out(
    served: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    repository, environ = served
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("deep/1.json", "{}")
        archive.writestr("deep/2.json", "[]")
        archive.writestr("../evil.json", "no")
    source = {"git": URL, "archive": "talks.zip", "files": {"deep/*.json": "talks"}}
    dataset = declared({**source, "commit": commit(repository, {"talks.zip": packed.getvalue()})})
    done = fetch(dataset, tmp_path / "home", environ)
    assert {path.name: path.read_text() for path in (done.folder / "talks").iterdir()} == {
        "1.json": "{}",
        "2.json": "[]",
    }
    assert sorted(done.receipt.files) == ["talks/1.json", "talks/2.json"]


def test_a_pointer_to_large_storage_is_no_data(
    served: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    repository, environ = served
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    source = {
        "git": URL,
        "commit": commit(repository, {"a.jsonl": pointer}),
        "files": {"a.jsonl": "a.jsonl"},
    }
    with pytest.raises(DataUnavailable, match=r"the content of a\.jsonl is in Git LFS"):
        fetch(declared(source), tmp_path / "home", environ)


def test_a_commit_that_is_not_there_is_named(
    served: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    repository, environ = served
    commit(repository, {"a.jsonl": b"a"})
    with pytest.raises(DataUnavailable, match=f"git {URL} @ {'1' * 40}: .*not our ref"):
        fetch(
            declared({"git": URL, "commit": "1" * 40, "files": {"a.jsonl": "a.jsonl"}}),
            tmp_path / "home",
            environ,
        )
