"""Repositories are read in each of their forms; a listing can neither leave its folder nor speak to
git.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import SourceUnreadable
from tasks.storage.files import git_repositories
from tasks.storage.files.git_repositories import Repositories, run_git

FILES = {"a/b.py": ["x = 1"], "README": ["text"]}


def listed(folder: Path, content: Any = FILES, name: str = "owner__name.files.json") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder


def head(folder: Path) -> str:
    return run_git(folder, "rev-parse", "HEAD").decode().strip()


def test_each_form_gives_the_same_commit(tmp_path: Path):
    with Repositories([listed(tmp_path / "listed")]) as found:
        (name,) = found.names
        made = found._repositories[0].path
        commit = head(made)
        run_git(
            tmp_path,
            "clone",
            "--quiet",
            "--bare",
            str(made),
            str(tmp_path / "bare" / "owner__name.git"),
        )
        run_git(tmp_path, "clone", "--quiet", str(made), str(tmp_path / "out" / "owner__name"))
        (tmp_path / "bundled").mkdir()
        run_git(
            made,
            "bundle",
            "create",
            "--quiet",
            str(tmp_path / "bundled" / "owner__name.bundle"),
            "main",
        )
    assert name == "owner__name"
    for form in ("bare", "out", "bundled", "listed"):
        with Repositories([tmp_path / form]) as found:
            assert found.names == ("owner__name",)
            repository = found.with_commit("owner/name", commit)
            assert repository is not None, form
            assert sorted(
                entry.path for entry in repository.entries(commit)[1] if entry.kind == "blob"
            ) == ["README", "a/b.py"]


@pytest.mark.parametrize(
    "name",
    [
        "/etc/parley-was-here",
        "../outside",
        "a/../../outside",
        ".git/config",
        ".gitattributes",
        "a/.gitattributes",
        ".GIT/hooks/x",
        "",
    ],
)
def test_names_that_lead_out_or_are_gits_own_are_refused(tmp_path: Path, name: str):
    with pytest.raises(SourceUnreadable, match=r"owner__name\.files\.json"):
        Repositories([listed(tmp_path / "repos", {name: ["x"], "b": ["y"]})])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["repos"]


def test_a_listing_runs_no_command_of_its_own(tmp_path: Path):
    """A filter that `.git/config` names and `.gitattributes` asks for would run as the files are
    added.
    """
    ran = tmp_path / "ran"
    config = ["[core]", "repositoryformatversion = 0", '[filter "x"]', f"clean = touch {ran}"]
    with pytest.raises(SourceUnreadable, match="git's own"):
        Repositories(
            [
                listed(
                    tmp_path / "repos",
                    {".git/config": config, ".gitattributes": ["* filter=x"], "a": ["1"]},
                )
            ]
        )
    assert not ran.exists()


@pytest.mark.parametrize("content", [{"a": 1}, {"a": "text"}, {"a": [1]}, [], 3, {}])
def test_a_listing_of_another_form_is_named(tmp_path: Path, content: Any):
    with pytest.raises(SourceUnreadable, match="no list of a project's files"):
        Repositories([listed(tmp_path / "repos", content)])


def test_other_json_files_are_left_alone(tmp_path: Path):
    folder = listed(tmp_path / "repos")
    (folder / "environments.json").write_text('{"a": 1}', encoding="utf-8")
    with Repositories([folder]) as found:
        assert found.names == ("owner__name",)


def test_a_git_that_cannot_be_run_is_no_missing_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with Repositories([listed(tmp_path / "repos")]) as found:
        assert found.with_commit("owner/name", "0" * 40) is None

        def gone(*_: object, **__: object) -> None:
            raise FileNotFoundError(2, "No such file or directory")

        monkeypatch.setattr(git_repositories.subprocess, "run", gone)
        with pytest.raises(SourceUnreadable, match="git cannot be run"):
            found.with_commit("owner/name", "1" * 40)
        killed = subprocess.CompletedProcess((), -9, b"", b"")
        monkeypatch.setattr(git_repositories.subprocess, "run", lambda *_, **__: killed)
        with pytest.raises(SourceUnreadable, match="ended by signal 9"):
            found.with_commit("owner/name", "2" * 40)
