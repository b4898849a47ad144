"""Two models served one after the other under one name, on one day."""

import time
from pathlib import Path
from typing import Any

import pytest

from flows.night.preflight.served_models import differences
from tests.fixtures.model_server import model_server
from tests.flows.parley_command import SAMPLE, Done, parley

HERE, THERE = "http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"
MOVED = f"base_url is {THERE!r} and was {HERE!r}"


@pytest.mark.parametrize(
    ("known", "seen", "changed"),
    [
        ({"root": "/a", "base_url": HERE}, {"root": "/a", "base_url": THERE}, ()),
        (
            {"root": "/a", "base_url": HERE},
            {"root": "/b", "base_url": HERE},
            ("root is '/b' and was '/a'",),
        ),
        ({"owned_by": "vllm", "base_url": HERE}, {"owned_by": "vllm", "base_url": HERE}, ()),
        (
            {"owned_by": "me", "base_url": HERE},
            {"owned_by": "me", "base_url": THERE},
            (f"base_url is {THERE!r} and was {HERE!r}",),
        ),
        (
            {"created": "1", "base_url": HERE},
            {"created": "2", "base_url": HERE},
            ("created is '2' and was '1'",),
        ),
        ({"root": "/a", "base_url": HERE}, {"created": "1", "base_url": HERE}, ()),
    ],
)
def test_models_are_told_apart_by_what_both_sights_have(
    known: dict[str, str], seen: dict[str, str], changed: tuple[str, ...]
) -> None:
    assert differences(known, seen) == changed


def run(home: Path, url: str, *arguments: object) -> Done:
    return parley(
        home,
        *SAMPLE,
        "--model",
        f"openai:mock@{url}",
        "--limit",
        1,
        "--sandbox",
        "none",
        *arguments,
    )


@pytest.mark.slow
@pytest.mark.usefixtures("served_home")
def test_another_checkpoint_under_the_same_name_does_not_get_the_score_of_the_first(
    home: Path,
) -> None:
    with model_server(listed={"root": "/weights/step-100", "owned_by": "team"}) as server:
        first = run(home, server.base_url, "--json").json()
        again = run(home, server.base_url, "--json").json()
        assert (again["run_id"], again["model_calls"]) == (first["run_id"], 0)
        url = server.base_url
    (record,) = parley(home, "sql", "--json", "SELECT endpoints FROM runs").json()
    assert record["endpoints"] == [
        {"key": "subject", "value": f"base_url {url}, owned_by team, root /weights/step-100"}
    ]
    assert run(home, url, "--json").json()["model_calls"] == 0, (
        "a finished run is shown while its endpoint is down"
    )
    with model_server(listed={"root": "/weights/step-200", "owned_by": "team"}) as server:
        refused = run(home, server.base_url)
        assert refused.code != 0
        assert not server.bodies
        assert "root is '/weights/step-200' and was '/weights/step-100'" in refused.err
        assert "--revision NAME" in refused.err
        stated = run(home, server.base_url, "--revision", "step-200", "--json").json()
        assert stated["run_id"] != first["run_id"]
        assert server.bodies
        vouched: Any = run(
            home,
            server.base_url,
            "--revision",
            f"unpinned-{time.strftime('%Y-%m-%d', time.gmtime())}",
            "--json",
        )
        assert vouched.json()["model_calls"] == 0


@pytest.mark.slow
@pytest.mark.usefixtures("served_home")
def test_a_server_that_moves_or_tells_the_present_time_is_the_same_model(home: Path) -> None:
    for _ in range(2):
        with model_server(listed={"created": int(time.time())}) as server:
            assert run(home, server.base_url, "--json").code == 0
            time.sleep(1.1)


@pytest.mark.slow
@pytest.mark.usefixtures("served_home")
def test_another_simulator_under_the_same_name_is_refused_by_its_role(home: Path) -> None:
    asked = (
        "run",
        "convcode.live[f_c,f_e*,f_v*]",
        "control:empty",
        "--dataset-version",
        "sample",
        "--limit",
        1,
    )

    def play(url: str, *arguments: object) -> Done:
        return parley(
            home, *asked, "--simulator", f"openai:user@{url}", "--sandbox", "none", *arguments
        )

    with model_server(
        models=("user",),
        listed={"root": "/weights/one"},
        answer=lambda _: "Feedback: Mind the empty list.",
    ) as server:
        assert play(server.base_url).code == 0
    with model_server(models=("user",), listed={"root": "/weights/two"}) as server:
        refused = play(server.base_url)
        assert refused.code != 0
        assert "simulator openai:user" in refused.err
        assert "--simulator-revision NAME" in refused.err
        assert not server.bodies
