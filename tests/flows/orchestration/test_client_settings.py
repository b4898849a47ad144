"""Prefect's client reaches Parley's own server whatever proxies the environment names."""

from pathlib import Path

import httpx
import pytest

from flows.orchestration.settings import changed_environment, client_settings


@pytest.mark.parametrize("name", ["ALL_PROXY", "all_proxy"])
@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:9", "socks://127.0.0.1:9"])
def test_a_socks_proxy_does_not_break_prefects_client(
    name: str, proxy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(name, proxy)
    with pytest.raises((ImportError, ValueError)):
        httpx.Client()
    with changed_environment(client_settings(tmp_path, "http://127.0.0.1:9/api")):
        httpx.Client().close()
