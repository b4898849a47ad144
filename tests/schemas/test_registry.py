"""Things by name: ours, those found as the program runs, and those that other distributions add by
entry points.
"""

from pathlib import Path

import pytest

from schemas.errors import UnknownName, near_name
from schemas.outside.registry import Registry


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry[object]:
    """A registry with a thing of each kind; a distribution offers one of its own, and one of a name
    that is taken.
    """
    info = tmp_path / "shapes-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shapes\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[parley.shapes]\ncircle = math:tau\nsquare = no_such_module:SQUARE\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return Registry(
        "shape",
        "parley.shapes",
        {"square": "math:pi"},
        lambda: {"line": lambda: 1},
        "See `parley list`",
    )


def test_ours_come_before_others_and_nothing_is_imported_for_names(
    registry: Registry[object],
) -> None:
    import math

    assert registry.names() == ("circle", "line", "square")
    assert [registry.load(name) for name in registry.names()] == [math.tau, 1, math.pi]


def test_an_unknown_name_is_refused_with_the_nearest(registry: Registry[object]) -> None:
    registry.require("line")
    message = (
        r"^unknown shape 'Sqaure'; known: circle, line, square\. Do you mean square\? See "
        r"`parley list`$"
    )
    for refuse in (registry.load, registry.require):
        with pytest.raises(UnknownName, match=message):
            refuse("Sqaure")


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("Code-IF", "codeif"),
        ("chain of thought", "chain_of_thought"),
        ("lab/chain-of-thougt", "chain_of_thought"),
        ("zzz", None),
    ],
)
def test_a_name_is_near_whatever_its_case_and_dashes(name: str, near: str | None) -> None:
    assert near_name(name, ("codeif", "chain_of_thought")) == near
