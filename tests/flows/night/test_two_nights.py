"""Two nights at once on one home: of different runs both end well, of one run the second is refused
before anything starts.
"""

import threading
from pathlib import Path
from typing import IO

import pytest
import yaml

from tests.fixtures.model_server import ModelServer, model_server
from tests.flows.night.test_resume import N_TURNS, wait_until
from tests.flows.parley_command import SAMPLE, ask, parley, started

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.usefixtures("bubblewrap")]


def arguments(server: ModelServer, model: str) -> tuple[str, ...]:
    return (
        *SAMPLE,
        "--model",
        f"openai:{model}@{server.base_url}",
        "--revision",
        "1",
        "--concurrency",
        "4",
        "--json",
    )


def test_two_nights_at_once_are_both_whole_and_a_third_of_the_same_run_is_refused(
    served_home: Path,
) -> None:
    with (
        model_server(holds_after=1, models=("mock-1",)) as one,
        model_server(holds_after=1, models=("mock-2",)) as other,
    ):
        with (
            started(served_home, *arguments(one, "mock-1")) as first,
            started(served_home, *arguments(other, "mock-2")) as second,
        ):
            wait_until(
                lambda: min(one.answered, other.answered) >= 1,
                180,
                "the first answer of both nights",
            )
            third = parley(served_home, *arguments(one, "mock-1"))
            one.holds_after = other.holds_after = None
            said = [night.communicate(timeout=180) for night in (first, second)]
        assert [first.returncode, second.returncode] == [0, 0], said
        assert third.code == 2
        assert "another process works on run" in third.err
        assert (sum(one.prompts.values()), sum(other.prompts.values())) == (N_TURNS, N_TURNS), (
            "each answer was asked for once"
        )
    assert ask(
        served_home,
        "select model, count(distinct night_id) nights, count(distinct run_id) runs, "
        "count(*) metrics from leaderboard"
        " group by model order by model",
    ) == [{"model": f"openai:mock-{n}", "nights": 1, "runs": 1, "metrics": 4} for n in (1, 2)]
    assert ask(
        served_home,
        "select (select count(*) from nights) nights, (select count(*) from turns where role "
        "= 'assistant') turns,"
        " (select count(distinct run_id) from codeif_turns) shown",
    ) == [{"nights": 2, "turns": 2 * N_TURNS, "shown": 2}]
    assert sorted(path.name for path in served_home.glob("warehouse*")) == ["warehouse.duckdb"]


def test_two_nights_of_one_configuration_at_once_both_end_well_and_pay_once(
    served_home: Path, tmp_path: Path
) -> None:
    with (
        model_server(holds_after=1, models=("mock-1",)) as one,
        model_server(holds_after=1, models=("mock-2",)) as other,
    ):
        config = {
            "workers": 1,
            "models": [
                {"spec": f"openai:mock-{n}@{server.base_url}", "revision": "1", "concurrency": 4}
                for n, server in enumerate((one, other), start=1)
            ],
            "benchmarks": [{"name": "codeif.static", "dataset_version": "sample"}],
        }
        (tmp_path / "night.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        night = ("nightly", "--config", tmp_path / "night.yaml")
        waiting = threading.Event()
        with started(served_home, *night) as first:
            wait_until(
                lambda: min(one.answered, other.answered) >= 1,
                180,
                "the first answer to both runs of the first night",
            )
            with started(served_home, *night) as second:
                said: list[str] = []
                reader = threading.Thread(
                    target=_read, args=(second.stderr, said, waiting), daemon=True
                )
                reader.start()
                assert waiting.wait(180), said
                one.holds_after = other.holds_after = None
                codes = [process.wait(timeout=180) for process in (first, second)]
                reader.join(10)
        assert codes == [0, 0], said
        assert (sum(one.prompts.values()), sum(other.prompts.values())) == (N_TURNS, N_TURNS), (
            "each answer was asked for once"
        )
    assert ask(served_home, "select count(*) n from runs where status = 'finished'") == [{"n": 2}]


def _read(stream: IO[str] | None, said: list[str], waiting: threading.Event) -> None:
    """Keep the lines of a stream, and tell when one says that a run waits for another process."""
    for line in stream or ():
        said.append(line)
        if "wait for another process" in line:
            waiting.set()
