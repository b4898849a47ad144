"""A week of deployed nights over a growing folder of checkpoints: one killed, one with a dead
endpoint, one withheld and
released, one with a regression, one with nothing new. Tables, states and messages are as a person
would want them."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.model_server import ModelServer, model_server
from tests.fixtures.post_box import PostBox, post_box
from tests.flows.drivers import ROOT
from tests.flows.orchestration.deployed_night import (
    IN_FLIGHT,
    POOL,
    DeployedNight,
    deploy_unscheduled,
    held,
    trigger,
    wait_until,
)
from tests.flows.orchestration.deployment import prefect, worker
from tests.flows.parley_command import ask, parley
from tests.prefect_servers import prefect_server
from tests.tasks.checkpoints.weight_folders import LONG_AGO_S, MINUTE_S

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.usefixtures("bubblewrap")]
N_TURNS = 38
"""Answers in the sample's eight dialogues."""
BEFORE = 12
"""Answers that the killed night is given before."""
NOBODY = "http://127.0.0.1:9/v1"
Answers = list[dict[str, Any]]


@dataclass(frozen=True)
class Week:
    """The folder of the deployment and its checkpoints, the model that stays, and where word is
    sent.
    """

    folder: Path
    home: Path
    server: ModelServer
    box: PostBox

    def checkpoint(self, step: int, answers: Answers) -> None:
        """A training run leaves another state."""
        folder = self.folder / "tuned"
        folder.mkdir(exist_ok=True)
        path = folder / f"step-{step}.jsonl"
        path.write_text("".join(f"{json.dumps(answer)}\n" for answer in answers), encoding="utf-8")
        os.utime(path, (LONG_AGO_S, LONG_AGO_S + step * MINUTE_S))

    def night(self, *models: str) -> DeployedNight:
        """The night begins; besides the checkpoints it has the model that stays, and these."""
        always = f"openai:mock@{self.server.base_url}"
        return trigger(
            "nightly/nightly",
            self.folder,
            self.home,
            self.server,
            models=[{"spec": spec, "revision": "1", "patience_s": 1} for spec in (always, *models)],
            sources=[{"recordings": "tuned"}],
            notify={"webhook_env": "NIGHT_WEBHOOK"},
        )

    def told(self) -> list[tuple[str, str]]:
        """Event and title of each message, in order."""
        return [(word["event"], word["title"]) for word in self.box.came]

    def status(self, step: int) -> str:
        """How the newest run of a checkpoint stands in the tables."""
        (row,) = ask(
            self.home, f"SELECT status FROM runs WHERE model LIKE 'recorded:tuned/step-{step}%'"
        )
        return row["status"]


@pytest.fixture
def week(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Week]:
    with post_box() as box, model_server() as server, prefect_server(home):
        monkeypatch.setenv("NIGHT_WEBHOOK", box.url)
        deploy_unscheduled(tmp_path)
        prefect(
            "automation",
            "create",
            "--from-file",
            str(ROOT / "flows/orchestration/automations.yaml"),
            cwd=tmp_path,
        )
        yield Week(tmp_path, home, server, box)


def gold(folder: Path) -> Answers:
    """Right answers to all of the sample, as a recording holds them."""
    home = folder / "gold"
    run = parley(
        home,
        "run",
        "codeif.static",
        "--dataset-version",
        "sample",
        "--model",
        "control:gold",
        "--json",
    ).json()["run_id"]
    assert (
        parley(home, "export", "recording", "--run", run, "--out", folder / "gold.jsonl").code == 0
    )
    return [json.loads(line) for line in (folder / "gold.jsonl").read_text().splitlines()]


def wrong(answers: Answers) -> Answers:
    return [answer | {"content": "I would rather not."} for answer in answers]


def ended(
    night: DeployedNight,
    wanted: str,
    inner: Mapping[str, str],
    asked: str = "codeif.static · openai:mock",
) -> None:
    """It ended in that state, and the UI names it and its evaluations so that a person knows them.

    Args:
        inner: name of each evaluation's state, by its model.
        asked: the models that its configuration names.
    """
    assert night.wait_until_it_ended() == wanted, night.logs()
    assert night.state == (wanted, wanted.capitalize())
    assert night.name == f"night · {asked} · new checkpoints"
    shown = {f"codeif.static · {model}": state for model, state in inner.items()}
    assert night.shown() == {**shown, **({"publish": "Completed"} if wanted != "CRASHED" else {})}


def states(**steps: str) -> dict[str, str]:
    """Of the model that stays, and of these checkpoints."""
    return {
        "openai:mock": "Completed",
        **{f"recorded:tuned/{step.replace('_', '-')}": state for step, state in steps.items()},
    }


def test_six_nights(week: Week, tmp_path: Path) -> None:
    right = gold(tmp_path)
    first_problem = right[0]["problem_id"]
    week.checkpoint(1, right)
    killed = _killed_with_its_worker(week)
    with worker(POOL, week.folder):
        killed.retry()
        wait_until(lambda: killed.state[0] == "RUNNING", week.folder, "the second attempt")
        ended(killed, "COMPLETED", states(step_1="Completed"))
        assert N_TURNS <= sum(week.server.prompts.values()) <= N_TURNS + IN_FLIGHT
        assert (week.status(1), week.told()) == ("finished", []), (
            "a machine that died with its worker sends no word"
        )

        week.checkpoint(2, right[::-1])
        ended(week.night(), "COMPLETED", states(step_2="Completed"))
        assert (week.status(2), week.told()) == ("finished", [])

        week.checkpoint(3, [*right[1:], *wrong(right[:1])])
        dead = week.night(f"openai:gone@{NOBODY}")
        ended(
            dead,
            "FAILED",
            states(step_3="Completed") | {"openai:gone": "Failed"},
            "2 models on codeif.static",
        )
        assert (week.status(3), week.told()) == ("finished", [("failure", "Parley: 1 run failed")])
        assert "openai:gone" in week.box.came.pop()["text"]

        week.checkpoint(4, [answer for answer in right if answer["problem_id"] != first_problem])
        ended(week.night(), "COMPLETED", states(step_4="Withheld"))
        assert (week.status(4), week.told()) == (
            "withheld",
            [("withheld", "Parley: 1 run withheld")],
        )
        week.box.came.clear()
        _released(week, 4)

        week.checkpoint(5, wrong(right))
        ended(week.night(), "COMPLETED", states(step_5="Completed"))
        assert week.status(5) == "finished"
        assert [event for event, _ in week.told()] == ["regression"]
        assert "recorded:tuned/step-5" in week.box.came[0]["text"]

        ended(week.night(), "COMPLETED", states())
        assert [event for event, _ in week.told()] == ["regression"], (
            "a night in which nothing new happens sends no word"
        )
    _tables_tell_the_week(week)


def _killed_with_its_worker(week: Week) -> DeployedNight:
    """A night that got some of its answers, as the UI shows it some time after its machine has
    died.
    """
    with held(week.server, BEFORE):
        with worker(POOL, week.folder):
            night = week.night()
            wait_until(lambda: week.server.answered >= BEFORE, week.folder, f"answer {BEFORE}")
        ended(night, "CRASHED", states(step_1="Running") | {"openai:mock": "Running"})
    return night


def _released(week: Week, step: int) -> None:
    (run,) = ask(
        week.home, f"SELECT run_id FROM runs WHERE model LIKE 'recorded:tuned/step-{step}%'"
    )
    assert (
        parley(week.home, "release", run["run_id"], "--because", "the recording lost one task").code
        == 0
    )
    assert week.status(step) == "finished"


def _tables_tell_the_week(week: Week) -> None:
    def rows(sql: str) -> list[Sequence[Any]]:
        return [tuple(row.values()) for row in ask(week.home, sql)]

    assert rows("SELECT step, family FROM checkpoints ORDER BY step") == [
        (step, "tuned") for step in range(1, 6)
    ]
    assert rows("SELECT model, because FROM releases") == [
        ("recorded:tuned/step-4", "the recording lost one task")
    ]
    accuracy = "metric = 'instruction_accuracy' AND model LIKE 'recorded:%'"
    means = rows(f"SELECT model, mean FROM leaderboard WHERE {accuracy} ORDER BY model")
    assert [model for model, _ in means] == [f"recorded:tuned/step-{step}" for step in range(1, 6)]
    values = [mean for _, mean in means]
    assert values[:2] == [1, 1]
    assert 0.9 < values[2] < 1
    assert values[3:] == [1, 0]
    assert rows(f"SELECT position, mean FROM history WHERE {accuracy} ORDER BY position") == list(
        enumerate(values, start=1)
    )
    assert rows(
        f"SELECT model, other_model FROM comparisons WHERE {accuracy} AND event = 'regression'"
    ) == [("recorded:tuned/step-5", "recorded:tuned/step-4")]
    assert rows("SELECT count(*) FROM nights") == [(6,)]
    assert sum(week.server.prompts.values()) <= N_TURNS + IN_FLIGHT, (
        "the model that stays is asked once in the week"
    )
