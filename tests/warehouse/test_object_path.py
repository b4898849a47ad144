"""Places in an object store do what the lake asks of a path.

`memory` is fsspec's store within a process.
"""

from collections.abc import Iterator

import pytest

from schemas.errors import ConfigError, ServerUnavailable
from warehouse.object_path import ObjectPath, object_store


@pytest.fixture
def store() -> Iterator[ObjectPath]:
    place = object_store("memory://bucket/lake")
    yield place
    place.remove_below()


def test_names_and_contents_are_those_of_a_path(store: ObjectPath) -> None:
    part = store / "runs" / "model=a%2Fb" / "part-1.parquet"
    assert (part.name, part.stem, part.suffix, part.parent.name) == (
        "part-1.parquet",
        "part-1",
        ".parquet",
        "model=a%2Fb",
    )
    assert str(part.relative_to(store)) == "runs/model=a%2Fb/part-1.parquet"
    assert not part.exists()
    assert part.write_bytes(b"one") == 3
    assert (part.exists(), part.read_bytes(), part.open().read(2), part.stat().st_size) == (
        True,
        b"one",
        b"on",
        3,
    )
    assert store.is_dir()
    assert part == store / "runs/model=a%2Fb/part-1.parquet"
    assert len({part, store / "runs/model=a%2Fb/part-1.parquet"}) == 1


def test_listings_find_what_fits_at_any_depth_or_right_below(store: ObjectPath) -> None:
    for name in ("b/part-1.parquet", "a/part-2.parquet", "a/x/part-3.parquet", "a/other"):
        (store / name).write_bytes(b"")
    assert [str(path.relative_to(store)) for path in sorted(store.rglob("part-*"))] == [
        "a/part-2.parquet",
        "a/x/part-3.parquet",
        "b/part-1.parquet",
    ]
    assert [path.name for path in (store / "a").glob("part-*")] == ["part-2.parquet"]
    assert [path.name for path in sorted((store / "a").iterdir())] == ["other", "part-2.parquet"]
    assert list((store / "none").iterdir()) == list((store / "none").rglob("*")) == []


def test_other_content_of_the_same_size_is_seen(store: ObjectPath) -> None:
    part = store / "x"
    part.write_bytes(b"one")
    before = part.stat()
    part.write_bytes(b"two")
    assert part.stat().st_ino != before.st_ino
    assert next(store.rglob("x")).stat().st_ino == part.stat().st_ino


def test_what_is_gone_is_told_as_of_a_path(store: ObjectPath) -> None:
    for asked in ("read_bytes", "unlink", "stat"):
        with pytest.raises(FileNotFoundError):
            getattr(store / "gone", asked)()
    (store / "gone").unlink(missing_ok=True)


def test_many_are_read_in_the_order_of_their_names(store: ObjectPath) -> None:
    for number in range(70):
        (store / f"{number:02d}.jsonl").write_bytes(b"%d" % number)
    assert [int(content) for _, content in store.read_each(sorted(store.glob("*.jsonl")))] == list(
        range(70)
    )


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (
            "sftp://host/lake",
            r"PARLEY_LAKE='sftp://host/lake'.*object store \(s3.*Mount other places",
        ),
        (
            "gs://bucket/lake",
            "PARLEY_LAKE='gs://bucket/lake' needs the package gcsfs.*pip install gcsfs",
        ),
    ],
)
def test_a_url_that_cannot_hold_a_lake_is_named_with_a_remedy(url: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        object_store(url)


def test_a_store_that_fails_is_a_fault_of_the_service(
    store: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("connection refused")

    monkeypatch.setattr(store._fs, "pipe_file", broken)
    with pytest.raises(
        ServerUnavailable, match=r"memory://.*RuntimeError: connection refused.*AWS_ENDPOINT_URL"
    ):
        (store / "x").write_bytes(b"")
