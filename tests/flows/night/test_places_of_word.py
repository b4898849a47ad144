"""Whether word of a night could be sent is known at its start and in a dry run, and a source that
is away is told.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from flows.night.checkpoints import night_requests
from flows.night.config import NightlyConfig
from flows.night.preflight.notification_destinations import require_places
from flows.night.reporting.destinations import Notify
from flows.orchestration import notification
from flows.orchestration.notification import knows_block
from flows.orchestration.server import PrefectServer
from schemas.errors import ConfigError
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
from tasks.storage.home import Home
from tests.fixtures.post_box import post_box
from tests.flows.parley_command import parley

BENCHMARKS = [{"name": "codeif.static", "dataset_version": "sample", "limit": 1}]


def configured(folder: Path, notify: dict[str, str]) -> Path:
    config = folder / "night.yaml"
    night = {
        "workers": 1,
        "models": [{"spec": "control:gold"}],
        "benchmarks": BENCHMARKS,
        "notify": notify,
    }
    config.write_text(yaml.safe_dump(night), encoding="utf-8")
    return config


def nobody(line: str) -> None:
    raise AssertionError(line)


@pytest.mark.parametrize("field", ["webhook_env", "apprise_env"])
@pytest.mark.parametrize("value", [{}, {"NIGHT_WEBHOOK": " "}])
def test_a_variable_that_is_not_set_is_refused(
    home: Path, field: str, value: dict[str, str]
) -> None:
    notify = Notify.model_validate({field: "NIGHT_WEBHOOK"})
    with pytest.raises(
        ConfigError,
        match=rf"notify\.{field}: the variable NIGHT_WEBHOOK is not set .* remove {field}",
    ):
        require_places(notify, Home(home), nobody, value)
    require_places(notify, Home(home), nobody, {"NIGHT_WEBHOOK": "https://chat.test/x"})
    require_places(None, Home(home), nobody, {})


def test_a_webhook_that_is_no_url_is_refused_and_not_shown(home: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"NIGHT_WEBHOOK .not shown. does not begin with http"
    ) as refused:
        require_places(
            Notify(webhook_env="NIGHT_WEBHOOK"),
            Home(home),
            nobody,
            {"NIGHT_WEBHOOK": "hidden-in-the-url"},
        )
    assert "hidden-in-the-url" not in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize("options", [("--dry-run",), ()])
def test_a_night_whose_word_would_reach_nobody_starts_nothing(
    home: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    config = configured(tmp_path, {"webhook_env": "NOT_SET_WEBHOOK"})
    done = parley(home, "nightly", "--config", config, *options)
    assert (done.code, done.out) == (2, "")
    assert "notify.webhook_env: the variable NOT_SET_WEBHOOK is not set here" in done.err
    assert not (home / "lake").exists()


@pytest.mark.slow
def test_a_deployed_night_by_requests_starts_nothing_either(home: Path) -> None:
    from flows.nightly import nightly

    request = EvaluationRequest(
        model=ModelRequest(spec="control:gold"), benchmark=BenchmarkRequest(name="codeif.static")
    )
    with pytest.raises(ConfigError, match="NOT_SET_WEBHOOK is not set here"):
        nightly.fn(requests=[request], notify=Notify(webhook_env="NOT_SET_WEBHOOK"), home=str(home))
    assert not (home / "lake").exists()


@pytest.mark.slow
def test_a_block_that_nobody_can_be_asked_about_is_told_of(home: Path, tmp_path: Path) -> None:
    done = parley(
        home,
        "nightly",
        "--config",
        configured(tmp_path, {"block": "slack-webhook/nights"}),
        "--dry-run",
    )
    assert done.code == 0
    assert "notify.block: no Prefect server answers now" in done.err
    assert "'slack-webhook/nights'" in done.err


@pytest.mark.slow
def test_a_block_that_the_server_lacks_is_refused(
    server_url: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect.blocks.notifications import CustomWebhookNotificationBlock
    from prefect.blocks.system import Secret
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: server_url}):
        CustomWebhookNotificationBlock.model_validate(
            {"name": "n", "url": "http://127.0.0.1:9"}
        ).save("there", overwrite=True)
        Secret.model_validate({"value": "x"}).save("no-place", overwrite=True)
    own = PrefectServer(server_url, server_url, None, owned=False)
    with monkeypatch.context() as patch:
        patch.setattr(notification, "server_status", lambda folder: own if folder == home else None)
        for name in ("custom-webhook/nowhere", "nosuch/block", "no-slash", "secret/no-place"):
            assert knows_block(name, home) is False
        require_places(Notify(block="custom-webhook/there"), Home(home), nobody, {})
    monkeypatch.setenv("PREFECT_API_URL", server_url)
    done = parley(
        home, "nightly", "--config", configured(tmp_path, {"block": "nosuch/block"}), "--dry-run"
    )
    assert done.code == 2
    assert "notify.block: the Prefect server has no notification block 'nosuch/block'" in done.err
    assert (
        parley(
            home,
            "nightly",
            "--config",
            configured(tmp_path, {"block": "custom-webhook/there"}),
            "--dry-run",
        ).code
        == 0
    )
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    assert knows_block("custom-webhook/there", home) is None


@pytest.mark.slow
def test_a_source_that_is_away_is_told_as_a_failure_beside_other_models(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = NightlyConfig.model_validate(
        {
            "models": [{"spec": "control:gold"}],
            "sources": [{"directory": "away"}, {"recordings": "also-away"}],
            "benchmarks": BENCHMARKS,
            "notify": {"webhook_env": "NIGHT_WEBHOOK"},
        }
    )
    said: list[str] = []
    say: Callable[[str], None] = said.append
    with post_box() as box:
        monkeypatch.setenv("NIGHT_WEBHOOK", box.url)
        assert len(night_requests(Home(home), settings, tmp_path, say, keep=False)) == 1
        assert box.came == [], "a dry run sends no word"
        assert len(night_requests(Home(home), settings, tmp_path, say)) == 1
    [word] = box.came
    assert (word["event"], word["title"]) == ("failure", "Parley: 2 sources could not be read")
    assert [line.split(":")[0] for line in word["text"].splitlines()] == [
        "source away could not be read",
        "source also-away could not be read",
    ]
