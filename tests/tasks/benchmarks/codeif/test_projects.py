"""Real projects: the reference code passes its base tests, and published completions get the
published verdicts.

The variable CODEIF_REPOS names a folder that `parley build codeif-repos` made, with as many
projects as could be had.
"""

import json
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import SourceUnreadable, UnknownName
from schemas.problem import BASE_INSTRUCTION
from tasks.benchmarks.codeif import BENCHMARK
from tasks.benchmarks.codeif.projects import (
    LAYOUT,
    PYTEST,
    Project,
    lay_out,
    projects,
    requirements_of,
    with_listing,
)
from tasks.benchmarks.codeif.settings import FUNCTIONALITY_EXTENSION, STRATEGIES
from tasks.benchmarks.codeif.stage import project_of
from tests.fixtures.git_host import commit, git_host, mirrored
from tests.tasks.benchmarks.codeif.laid_out import VARIABLE, folder, judged, passes, tasks

QWEN, DEEPSEEK = "qwen2.5-7b-instruct", "deepseek-chat"
GOLD_FAILS_ITS_BASE_TESTS = {
    "gunicorn.config.Config.logger_class",  # the data's reference is cut off
    "rows.fields.DateField.deserialize",  # the project imports what Python 3.9 took away
    "rows.fields.EmailField.deserialize",
}
AITER, VERSION = "jinja2.async_utils.auto_aiter", "imapclient.version._imapclient_version_string"
SLOTS = "discord.utils.get_slots"
DIFFERING = {
    QWEN: {
        (SLOTS, "Input-Output Conditions")
    },  # its test has the name of another task's in the same file of tests
    DEEPSEEK: {
        (SLOTS, "Input-Output Conditions"),
        (
            "exodus_bundler.bundling.bytes_to_int",
            "Input-Output Conditions",
        ),  # the published verdict is of another test
        # The project turns the warning of a test that is not awaited into an error; upstream's runs
        # skipped such tests.
        *((AITER, STRATEGIES[n]) for n in range(5)),
        (VERSION, "Exception Handling"),  # the published verdict is of another test than the data's
    },
}
"""Of the projects that have been at hand; the facts about the data name others for those that have
not.
"""


@pytest.fixture
def repos() -> Path:
    found = folder()
    if found is None:
        pytest.skip(f"{VARIABLE} names no folder of projects: parley build codeif-repos --out DIR")
    return found


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.shared
@pytest.mark.usefixtures("bubblewrap")
def test_the_reference_code_passes_its_base_tests(repos: Path, shared_data: Path) -> None:
    there = tasks(shared_data / "codeif_bench", repos)
    assert there
    failing = {
        name
        for name, (problem, dialog) in there.items()
        if not passes(
            judged(problem, dialog, BENCHMARK.play.gold_answer(problem, 1), [BASE_INSTRUCTION])[
                BASE_INSTRUCTION
            ]
        )
    }
    assert failing == GOLD_FAILS_ITS_BASE_TESTS & there.keys()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.shared
@pytest.mark.usefixtures("bubblewrap")
@pytest.mark.parametrize("model", [QWEN, DEEPSEEK])
def test_published_completions_get_the_published_verdicts_but_for_the_known_ones(
    model: str, repos: Path, shared_data: Path
) -> None:
    there = tasks(shared_data / "codeif_bench", repos)
    found = {
        (name, kind): (ours, theirs)
        for name, kind, ours, theirs in replayed(model, shared_data / "codeif_bench")
        if name in there
    }
    assert found
    differing = {key for key, (ours, theirs) in found.items() if ours != theirs}
    assert differing == {key for key in DIFFERING[model] if key in found}


def replayed(model: str, data: Path) -> Iterator[tuple[str, str, bool, bool]]:
    """(namespace, instruction, our verdict, the published one) of each row: base tests and all
    instructions so far.
    """
    there = tasks(data, folder() or Path())
    published = {
        (row["namespace"], row.get("type", BASE_INSTRUCTION)): row
        for part in ("base", "n_round")
        for row in rows(
            data / "repo" / "Experiments" / "level_1" / model / part / "result_result.jsonl"
        )
    }
    so_far: dict[str, list[str]] = defaultdict(lambda: [BASE_INSTRUCTION])
    for (name, kind), row in published.items():
        if name not in there or kind == FUNCTIONALITY_EXTENSION:
            continue
        so_far[name] += [kind] if kind != BASE_INSTRUCTION else []
        problem, dialog = there[name]
        decided = judged(
            problem, dialog, f"```python\n{row['completion']}\n```", tuple(so_far[name])
        )
        yield name, kind, all(map(passes, decided.values())), row["Result"] == "Pass"


def rows(path: Path) -> list[dict[str, Any]]:
    """A file's rows; none where there is no such file."""
    return (
        [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        if path.is_file()
        else []
    )


def test_every_project_has_a_commit_and_some_a_release() -> None:
    assert all(len(p.repository.split("/")) == 2 and p.commit for p in projects().values())
    assert sorted(p.release for p in projects().values() if p.release) == [
        "IMAPClient==3.0.1",
        "Jinja2==3.1.2",
        "PyJWT==2.8.0",
        "exodus-bundler==2.0.4",
        "feedparser==6.0.10",
        "google-api-python-client==2.105.0",
        "pytube==15.0.0",
        "sqlitedict==2.1.0",
    ]
    assert LAYOUT.lay_out is lay_out


FROM_THE_REGISTRY = (
    *(
        "IMAPClient",
        "sqlitedict",
        "Jinja2",
        "google-api-python-client",
        "exodus-bundler",
        "feedparser",
        "PyJWT",
        "pytube",
    ),
)


@pytest.mark.shared
def test_every_project_of_the_tasks_is_known(shared_data: Path) -> None:
    staged = BENCHMARK.data.stage(shared_data / "codeif_bench" / "repo", "current")
    named = {project for dialog in staged.dialogs if (project := project_of(dialog))}
    assert len(named) == 42
    assert named == projects().keys()
    level_1 = {
        project_of(d)
        for p, d in zip(staged.problems, staged.dialogs, strict=True)
        if p.level == "L1"
    } - {None}
    assert len(level_1) == 14


def test_a_list_of_the_user_s_own_adds_projects_and_replaces_ours(tmp_path: Path) -> None:
    listing = tmp_path / "own.json"
    own = {"repository": "me/thing", "commit": "abc"}
    listing.write_text(
        json.dumps({"My/thing": own, "Utilities/PyJWT": own | {"release": "PyJWT==2.4.0"}}),
        encoding="utf-8",
    )
    known = with_listing(listing)
    assert known["My/thing"] == Project(repository="me/thing", commit="abc")
    assert known["Utilities/PyJWT"].release == "PyJWT==2.4.0"
    assert len(known) == len(projects()) + 1
    (line,) = lay_out(tmp_path / "out", {}, ("thing",), lambda _: None, listing)
    assert line == "My/thing: left out; name a checkout of me/thing that has abc, or --fetch it"


@pytest.mark.parametrize(
    "text",
    ["[]", '{"A/b": {"commit": "x"}}', '{"../b": {"repository": "a/b", "commit": "x"}}', "{"],
)
def test_another_file_is_no_list_of_projects(tmp_path: Path, text: str) -> None:
    listing = tmp_path / "own.json"
    listing.write_text(text, encoding="utf-8")
    with pytest.raises(SourceUnreadable, match=r"own\.json"):
        with_listing(listing)


def test_a_project_without_pins_gets_what_its_own_metadata_ask_for(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text(
        "from setuptools import setup\n"
        "setup(name='thing', version='1', install_requires=['absent>=2', 'pydantic>1', 'old; "
        'python_version < "3"\'],'
        " extras_require={'test': ['mocking==3'], 'docs': ['sphinx']})\n",
        encoding="utf-8",
    )
    assert requirements_of(tmp_path) == ("absent>=2", "mocking==3")


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.shared
@pytest.mark.usefixtures("bubblewrap")
def test_eight_projects_come_from_the_registry_alone(
    tmp_path: Path, shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = lay_out(tmp_path, {}, (), lambda _: None)
    if all(": FAILED: " in line for line in told):
        pytest.skip(f"no package registry: {told[0]}")
    assert [line.partition(": ")[0].partition("/")[2] for line in told] == list(FROM_THE_REGISTRY)
    assert not any("FAILED" in line for line in told)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    there = {
        name: task
        for name, task in tasks(shared_data / "codeif_bench", tmp_path).items()
        if task[0].level == "L1"
    }
    assert len(there) == 10
    for problem, dialog in there.values():
        gold = judged(problem, dialog, BENCHMARK.play.gold_answer(problem, 1), [BASE_INSTRUCTION])
        assert passes(gold[BASE_INSTRUCTION]), (problem.problem_id, gold)
    again = lay_out(tmp_path, {}, (), lambda _: None)
    assert {line.partition(": ")[2] for line in again} == {"is there already"}


def test_all_pins_bound_what_is_installed_beside_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout, told = tmp_path / "checkout", list[tuple[tuple[str, ...], str]]()
    checkout.mkdir()
    (checkout / "thing.py").write_text("def thing(): ...\n", encoding="utf-8")
    git = ("git", "-C", str(checkout), "-c", "user.name=a", "-c", "user.email=a@b")
    for arguments in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "thing")):
        subprocess.run((*git, *arguments), check=True)
    ours = f"pydantic=={version('pydantic')}"
    thing = Project(repository="o/thing", commit="HEAD", packages=("numpy==0.0.1", ours))
    monkeypatch.setattr(f"{lay_out.__module__}.projects", lambda: {"Domain/thing": thing})

    def pip(*arguments: str) -> None:
        told.append(
            (
                arguments,
                Path(arguments[arguments.index("--constraint") + 1]).read_text(encoding="utf-8"),
            )
        )

    monkeypatch.setattr(f"{lay_out.__module__}._pip", pip)
    (line,) = lay_out(tmp_path / "out", {"o/thing": checkout}, (), lambda _: None)
    assert "FAILED" not in line
    ((arguments, bounds),) = told
    assert arguments[-2:] == (PYTEST, "numpy==0.0.1")
    assert bounds.splitlines() == [PYTEST, "numpy==0.0.1", ours]


def test_a_project_without_release_and_checkout_is_fetched_from_its_public_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "served"
    root.mkdir()
    old = commit(root / "o" / "thing", {"thing.py": b"def thing(): ...\n"})
    commit(root / "o" / "thing", {"thing.py": b"changed\n"})
    thing = Project(repository="o/thing", commit=old, packages=("numpy==0.0.1",))
    monkeypatch.setattr(f"{lay_out.__module__}.projects", lambda: {"Domain/thing": thing})
    monkeypatch.setattr(f"{lay_out.__module__}._pip", lambda *arguments: None)
    assert lay_out(tmp_path / "out", {}, (), lambda _: None) == []
    with git_host(root) as base:
        for name, value in mirrored(base).items():
            monkeypatch.setenv(name, value)
        (line,) = lay_out(tmp_path / "out", {}, (), lambda _: None, fetch=True)
        lost = thing.model_copy(update={"commit": "1" * 40})
        monkeypatch.setattr(f"{lay_out.__module__}.projects", lambda: {"Domain/lost": lost})
        (failed,) = lay_out(tmp_path / "out", {}, (), lambda _: None, fetch=True)
    assert line.startswith(f"Domain/thing: commit {old[:12]} of o/thing")
    assert (tmp_path / "out" / "Domain" / "thing" / "thing.py").read_text() == "def thing(): ...\n"
    assert failed.startswith("Domain/lost: FAILED: git https://github.com/o/thing @ 1111")


def test_a_checkout_of_nobody_s_project_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="pallets/jinja2"):
        lay_out(tmp_path, {"pallets/jinja2": tmp_path}, (), lambda _: None)
    with pytest.raises(UnknownName, match="jinja9"):
        lay_out(tmp_path, {}, ("jinja9",), lambda _: None)


def test_a_project_without_a_release_needs_a_checkout_and_one_that_lacks_the_commit_says_so(
    tmp_path: Path,
) -> None:
    (line,) = lay_out(tmp_path, {}, ("peewee",), lambda _: None)
    assert "name a checkout of coleifer/peewee" in line
    (tmp_path / "checkout").mkdir()
    (line,) = lay_out(
        tmp_path / "out", {"coleifer/peewee": tmp_path / "checkout"}, ("peewee",), lambda _: None
    )
    assert line.startswith("Software-Development/peewee: FAILED: ")
    assert not (tmp_path / "out" / "Software-Development" / "peewee").exists()
