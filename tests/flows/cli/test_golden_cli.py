"""The published qwen2.5-7b run, through the command line alone: its known figures on both axes, and
nothing done twice.
"""

import resource
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.flows.parley_command import ask, parley, parley_process

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.shared,
    pytest.mark.usefixtures("bubblewrap"),
]

MODEL = "qwen2.5-7b-instruct"
FINISHED_LIMIT_S = 5.0
"""Seconds of processor that a run with nothing left to do may take, whatever else the machine
does.
"""


def processor_s() -> float:
    """Seconds of processor of all commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@dataclass(frozen=True)
class Figures:
    """Percent by position from 1; shorter tuples leave out the last positions, which have no
    conversation accuracy.
    """

    n: tuple[int, ...]
    ia: tuple[float, ...]
    ca_strict: tuple[float, ...]
    ca_fraction: tuple[float, ...] | None
    """None where no figure is known from elsewhere."""


KNOWN = {
    "strategy_slot": Figures(
        n=(50, 29, 50, 47, 49, 23, 47, 48),
        ia=(46.0, 75.9, 76.0, 66.0, 34.7, 34.8, 57.4, 41.7),
        ca_strict=(46.0, 58.6, 36.0, 29.8, 16.3, 0.0, 2.1),
        ca_fraction=(46.0, 69.0, 62.7, 58.2, 55.2, 55.0, 54.1),
    ),
    "turn": Figures(
        n=(50, 50, 50, 50, 50, 47, 33, 13),
        ia=(46.0, 76.0, 74.0, 42.0, 52.0, 46.8, 48.5, 23.1),
        ca_strict=(46.0, 42.9, 36.0, 22.4, 14.3, 2.9, 0.0),
        ca_fraction=None,
    ),
}


@dataclass(frozen=True)
class Golden:
    """A home in which the run is finished."""

    home: Path
    run: tuple[object, ...]
    """The command's arguments."""
    run_id: str


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Golden:
    folder = tmp_path_factory.mktemp("golden")
    home, recording = folder / "home", folder / "qwen.jsonl.gz"
    published = shared_data / "codeif_bench" / "function" / "Experiments"
    imported = parley(home, "import", "codeif", published, "--model", MODEL, "--out", recording)
    assert imported.code == 0, imported.err
    readings = ("--option", "history=upstream_v0", "--option", "answer_cleanup=upstream_v0")
    run = (
        "run",
        "codeif.static",
        "--dataset-version",
        "v0",
        *readings,
        "--model",
        f"recorded:{recording}",
        "--json",
    )
    line = parley_process(home, *run).json()
    assert (line["status"], line["episodes"], line["owed"], line["n_infra"]) == (
        "finished",
        50,
        0,
        0,
    )
    assert (line["n_unscored"], line["published"]) == (0, True)
    return Golden(home, run, line["run_id"])


@pytest.mark.parametrize("axis", KNOWN)
def test_the_figures_are_the_known_ones(golden: Golden, axis: str) -> None:
    rows = ask(
        golden.home,
        (
            "SELECT turn, ia, ca_strict, ca_fraction, n, n_unscored FROM codeif_turns WHERE "
            f"axis = '{axis}' ORDER BY turn"
        ),
    )
    assert [row["turn"] for row in rows] == list(range(1, 9))
    assert {row["n_unscored"] for row in rows} == {0}

    def percent(name: str) -> tuple[float, ...]:
        return tuple(round(100 * row[name], 1) for row in rows if row[name] is not None)

    known = KNOWN[axis]
    assert tuple(row["n"] for row in rows) == known.n
    assert percent("ia") == known.ia
    assert percent("ca_strict") == known.ca_strict
    assert known.ca_fraction is None or percent("ca_fraction") == known.ca_fraction


def test_a_second_identical_run_does_nothing_and_quickly(golden: Golden) -> None:
    before = {path: path.stat().st_mtime_ns for path in (golden.home / "lake").rglob("*.parquet")}
    state, log = golden.home / "prefect" / "server.json", golden.home / "prefect" / "server.log"
    assert before
    assert not state.exists()
    log_before = log.stat().st_mtime_ns
    took_s: list[float] = []
    for _ in range(2):
        before_s = processor_s()
        done = parley_process(
            golden.home, *golden.run, environ={"PREFECT_API_URL": "http://127.0.0.1:9/api"}
        )
        took_s.append(processor_s() - before_s)
        line = done.json()
        assert (line["run_id"], line["model_calls"], line["owed"], line["published"]) == (
            golden.run_id,
            0,
            0,
            True,
        )
        assert not state.exists()
    assert log.stat().st_mtime_ns == log_before, "a Prefect server was started"
    assert {
        path: path.stat().st_mtime_ns for path in (golden.home / "lake").rglob("*.parquet")
    } == before
    assert min(took_s) < FINISHED_LIMIT_S, took_s
