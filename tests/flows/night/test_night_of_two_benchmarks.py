"""One night runs several benchmarks, each with options of its own, and gives a simulator to those
settings that need one.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from schemas.episode import FEEDBACK_SETTINGS, NO_FEEDBACK
from tests.flows.parley_command import Done, ask, parley

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.usefixtures("bubblewrap")]
LIVE = tuple(f"convcode.live[{feedback.name}]" for feedback in FEEDBACK_SETTINGS)
ALONE = f"convcode.live[{NO_FEEDBACK.name}]"
SPOKEN = "Reasoning: nothing is returned.\nFeedback: Write the function that was asked for."


@pytest.fixture(scope="module")
def night(standing_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """One night of both controls: one task of one benchmark, and of the other one task in every
    live setting.
    """
    folder = tmp_path_factory.mktemp("night")
    (folder / "user.jsonl").write_text(
        json.dumps({"problem_id": "Sample/1", "turn": 2, "content": SPOKEN})
    )
    config: dict[str, Any] = {
        "workers": 1,
        "simulator": {"spec": "recorded:user.jsonl"},
        "models": [{"spec": "control:gold"}, {"spec": "control:empty"}],
        "benchmarks": [
            {
                "name": "codeif.static",
                "dataset_version": "sample",
                "limit": 1,
                "options": {"history": "upstream_v0"},
            },
            {"name": ALONE, "dataset_version": "sample", "limit": 1},
            *(
                {"name": name, "dataset_version": "sample", "limit": 1, "options": {"turns": "1"}}
                for name in LIVE
            ),
        ],
    }
    (folder / "night.yaml").write_text(yaml.safe_dump(config))
    return parley(standing_home, "nightly", "--config", folder / "night.yaml")


def test_gold_is_right_at_once_and_empty_never(night: Done, standing_home: Path) -> None:
    assert night.code == 0, night.err
    rows = ask(standing_home, "SELECT setting, model, metric, mean, n, n_unscored FROM leaderboard")
    found = {
        (row["setting"], row["model"], row["metric"]): (row["mean"], row["n"], row["n_unscored"])
        for row in rows
    }
    for model, mean in (("control:gold", 1.0), ("control:empty", 0.0)):
        assert {found[setting, model, "mrr"] for setting in (ALONE, *LIVE)} == {(mean, 1, 0)}
        assert {found[setting, model, "recall"] for setting in (ALONE, *LIVE)} == {(mean, 1, 0)}
        assert found[ALONE, model, "pass_at_1"] == (mean, 1, 0)
        assert {found[setting, model, "pass_at_1"] for setting in LIVE} == {(mean, 2, 0)}
        assert found["codeif.static", model, "instruction_accuracy"][0] == mean
    assert {setting for setting, _, _ in found} == {"codeif.static", ALONE, *LIVE}


def test_each_turn_of_each_setting_has_its_row_and_the_simulator_spoke_where_it_had_to(
    night: Done, standing_home: Path
) -> None:
    sql = (
        "SELECT setting, model, turn, pass_at_1, n_verbal_feedback_in_all AS spoken FROM "
        "convcode_settings ORDER BY ALL"
    )
    rows = ask(standing_home, sql)
    turns = [(row["setting"], row["model"], row["turn"]) for row in rows]
    models = ("control:empty", "control:gold")
    expected = [(ALONE, model, 0) for model in models] + [
        (s, model, turn) for s in LIVE for model in models for turn in (0, 1)
    ]
    assert sorted(turns) == sorted(expected)
    assert {(row["model"], row["pass_at_1"]) for row in rows} == {
        ("control:gold", 1.0),
        ("control:empty", 0.0),
    }
    # No code at all compiles, so a novice who sees the compiler only has nothing to say.
    silent = {
        ALONE,
        *(setting for setting in LIVE if "f_v" not in setting),
        "convcode.live[f_c,f_v]",
    }
    assert {
        row["setting"] for row in rows if row["model"] == "control:empty" and row["spoken"] == 1
    } == set(LIVE) - silent
    assert {row["spoken"] for row in rows if row["model"] == "control:gold"} == {0}


def test_the_night_ends_with_a_table_of_each(night: Done) -> None:
    _, of_metrics, of_settings = night.out.split("Results · ")
    assert of_metrics.startswith("benchmark codeif.static · data sample")
    assert of_settings.startswith("benchmark convcode · data sample")
    (best,) = [
        line.split()
        for line in of_settings.splitlines()
        if "live[f_c,f_e*,f_v*]" in line and "gold" in line
    ]
    assert best[2:4] == ["1.000", "n=1"]
