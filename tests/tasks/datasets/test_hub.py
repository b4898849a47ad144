"""Files of a loopback hub arrive whole and verified, whatever breaks in between."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.errors import DataUnavailable
from tasks.datasets.download import PARTIAL, download, get
from tests.fixtures.hub_server import COMMIT, Hub, hub_server
from tests.tasks.datasets.declared import declared, fetch

LARGE = bytes(range(256)) * 64
SMALL = b"one row\n"
SOURCE = {
    "hub": "abc/letters",
    "revision": "main",
    "files": {"data/*.bin": ".", "README.md": "README.md"},
}


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.datasets.download.PAUSE_S", 0.0)


@pytest.fixture
def hub() -> Iterator[Hub]:
    with hub_server() as served:
        served.files = {
            "data/a.bin": LARGE,
            "data/b.bin": SMALL,
            "data/deep/c.bin": b"no",
            "README.md": b"# Letters\n",
        }
        yield served


def test_files_that_a_pattern_means_arrive_with_the_commit_that_they_are_of(
    hub: Hub, tmp_path: Path
) -> None:
    done = fetch(declared(SOURCE), tmp_path, {"HF_ENDPOINT": hub.url})
    assert {path.name: path.read_bytes() for path in done.folder.iterdir()} == {
        "a.bin": LARGE,
        "b.bin": SMALL,
        "README.md": b"# Letters\n",
    }
    assert done.receipt.revision == COMMIT
    assert done.receipt.files["a.bin"].sha256 == hashlib.sha256(LARGE).hexdigest()


def test_a_stopped_download_goes_on_where_it_stopped(hub: Hub, tmp_path: Path) -> None:
    hub.cut_after = 1000
    fetch(declared(SOURCE), tmp_path, {"HF_ENDPOINT": hub.url})
    assert [span for file, span in hub.downloads() if file == "data/a.bin"] == ["", "bytes=1000-"]


def test_what_an_earlier_command_left_is_not_fetched_again(hub: Hub, tmp_path: Path) -> None:
    left = tmp_path / f"a.bin{PARTIAL}"
    left.write_bytes(LARGE[:5000])
    download(f"{hub.url}/datasets/abc/letters/resolve/main/data/a.bin", tmp_path / "a.bin", {})
    assert (tmp_path / "a.bin").read_bytes() == LARGE
    assert [span for _, span, _ in hub.asked] == ["bytes=5000-"]


@pytest.mark.parametrize(
    ("n_left", "n_requests"), [(len(LARGE), 1), (len(LARGE) + 7, 2)], ids=["whole", "too long"]
)
def test_a_partial_file_that_is_whole_or_too_long_ends_in_the_right_one(
    hub: Hub, tmp_path: Path, n_left: int, n_requests: int
) -> None:
    (tmp_path / f"a.bin{PARTIAL}").write_bytes((LARGE + b"x" * 7)[:n_left])
    download(f"{hub.url}/datasets/abc/letters/resolve/main/data/a.bin", tmp_path / "a.bin", {})
    assert (tmp_path / "a.bin").read_bytes() == LARGE
    assert len(hub.asked) == n_requests


def test_a_server_without_ranges_sends_all_of_it_again(hub: Hub, tmp_path: Path) -> None:
    hub.takes_ranges, hub.cut_after = False, 300
    done = fetch(declared(SOURCE), tmp_path, {"HF_ENDPOINT": hub.url})
    assert (done.folder / "a.bin").read_bytes() == LARGE


def test_a_file_with_another_digest_than_the_hub_states_is_refused(
    hub: Hub, tmp_path: Path
) -> None:
    hub.stated_digest = "0" * 64
    with pytest.raises(DataUnavailable, match=r"a\.bin has digest .*, but the hub states 0000"):
        fetch(declared(SOURCE), tmp_path, {"HF_ENDPOINT": hub.url})
    hub.stated_digest = ""
    assert (
        fetch(declared(SOURCE), tmp_path, {"HF_ENDPOINT": hub.url}).folder / "a.bin"
    ).read_bytes() == LARGE


def test_a_file_that_the_hub_does_not_have_is_named(hub: Hub, tmp_path: Path) -> None:
    wrong = {**SOURCE, "files": {"data/z.bin": "z.bin"}}
    with pytest.raises(DataUnavailable, match=r"hub abc/letters @ main has no file data/z\.bin"):
        fetch(declared(wrong), tmp_path, {"HF_ENDPOINT": hub.url})


def test_a_key_goes_to_the_hub_and_not_to_the_storage_that_it_redirects_to(
    hub: Hub, tmp_path: Path
) -> None:
    with hub_server() as storage:
        storage.files, hub.storage, storage.cut_after = hub.files, storage.url, 1000
        done = fetch(declared(SOURCE), tmp_path, {"HF_ENDPOINT": hub.url, "HF_TOKEN": "hf_secret"})
        assert (done.folder / "a.bin").read_bytes() == LARGE
        assert {key for _, _, key in hub.asked} == {"Bearer hf_secret"}
        assert {key for _, _, key in storage.asked} == {""}
        assert ("data/a.bin", "bytes=1000-") in storage.downloads()


def test_a_refusal_is_final_and_says_so(hub: Hub) -> None:
    with pytest.raises(DataUnavailable, match="answered 404: the file does not exist"):
        get(f"{hub.url}/datasets/abc/letters/resolve/main/none", {})
    assert len(hub.asked) == 1
