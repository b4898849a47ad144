"""What vLLM's servers did is in the lake and the warehouse, a restart included."""

from pathlib import Path

import pytest

from flows.night.serving import ServingMeter
from schemas.lake.records import Serving
from tasks.language.servers.vllm_metrics import NoMetrics, read_metrics
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake
from tests.fixtures.vllm_program import METRICS
from warehouse.connect import query
from warehouse.publication.publish import publish

COUNTS = {"name": "d", "prompt": 100, "generated": 20, "hits": 60, "requests": 2}


def test_metrics_of_all_engines_are_added_and_a_missing_one_is_no_zero() -> None:
    text = METRICS.format(**COUNTS)
    both = read_metrics(text + text.replace('engine="0"', 'engine="1"'))
    assert both.counters["prefix_cache_hits"] == 120
    assert (both.running, both.waiting, both.counters["requests"]) == (2, 0, 4)
    with pytest.raises(NoMetrics, match="prefix_cache_hits"):
        read_metrics(
            "\n".join(line for line in text.splitlines() if "prefix_cache_hits" not in line)
        )


def test_each_stretch_has_what_was_done_in_it_and_a_restart_loses_no_later_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, looks = Home(tmp_path), iter([(0, 0), (100, 60), (150, 80), None, (30, 10), (30, 10)])

    def asked(base_url: str) -> object:
        look = next(looks)
        if look is None:
            raise OSError("it does not answer")
        return read_metrics(
            METRICS.format(**COUNTS | {"prompt": look[0], "hits": look[1]}).replace(
                "} 1.0", "} 0.0"
            )
        )

    monkeypatch.setattr("flows.night.serving.ask_metrics", asked)
    with ServingMeter(
        Lake(home.lake), "night-1", "vllm:m", "d", ["http://127.0.0.1:1/v1"], every_s=3600
    ) as meter:
        for _ in range(4):
            meter.look()
    rows = Lake(home.lake).read("serving", Serving)
    assert [(row.prompt_tokens, row.prefix_cache_hits, row.is_restarted) for row in rows] == [
        (100, 60, False),
        (50, 20, False),
        (30, 10, True),
    ]
    publish(home.path)
    _, found = query(
        home.path,
        "SELECT model, sum(prefix_cache_hits), sum(prefix_cache_queries) FROM serving GROUP BY ALL",
    )
    assert [tuple(row) for row in found] == [("vllm:m", 90, 180)]
