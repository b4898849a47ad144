"""Settings, options, prompts and limits may be added to a benchmark without moving an id of
before.
"""

from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from schemas.run import Limits, ModelIdentity, RunSpec
from tasks.benchmarks.codeif import BENCHMARK
from tasks.benchmarks.conditions import query_rows
from tasks.benchmarks.contract import Benchmark
from tasks.benchmarks.setting import Option
from warehouse.connect import warehouse_path

NEW = Option(
    name="tone",
    values=("plain", "rude"),
    default="plain",
    affects="episode",
    help="how the user speaks",
)


@pytest.fixture
def grown() -> Benchmark:
    """The benchmark with an option more in its setting, and with a setting more that has a prompt
    and limits of its own.
    """
    static = BENCHMARK.settings["static"]
    other = replace(
        static, name="other", prompts={"other": "Say it again."}, limits=Limits(cpu_s=9.0)
    )
    return replace(
        BENCHMARK,
        settings={"static": replace(static, options=(*static.options, NEW)), "other": other},
    )


def spec(benchmark: Benchmark, **given: str) -> RunSpec:
    episode_options, scoring_options = benchmark.split_options("static", given)
    return RunSpec(
        benchmark=benchmark.name,
        benchmark_version=benchmark.about.version,
        setting="static",
        dataset_version="sample",
        dataset_digest="d",
        episode_options=episode_options,
        scoring_options=scoring_options,
        subject=ModelIdentity(provider="control", name="gold"),
    )


def test_a_new_option_at_its_default_is_in_no_id_but_is_known_where_it_is_read(grown: Benchmark):
    assert spec(grown) == spec(BENCHMARK)
    assert grown.options_of(spec(grown)) == {
        **BENCHMARK.options_of(spec(BENCHMARK)),
        "tone": "plain",
    }
    assert spec(grown, tone="rude").run_id != spec(BENCHMARK).run_id
    assert grown.options_of(spec(grown, tone="rude"), "episode") == {
        **BENCHMARK.options_of(spec(BENCHMARK), "episode"),
        "tone": "rude",
    }


def test_an_option_of_before_stays_in_the_id_at_its_default():
    assert dict(spec(BENCHMARK).episode_options) == {"history": "on_policy"}


def test_a_setting_s_prompts_and_limits_are_its_own(grown: Benchmark):
    assert grown.settings["static"].prompts == BENCHMARK.settings["static"].prompts
    assert grown.limits_of("other").cpu_s == 9.0
    assert grown.limits_of("static") == BENCHMARK.programs.limits


def test_a_standing_setting_may_get_a_prompt_for_a_new_choice():
    static = BENCHMARK.settings["static"]
    tone = replace(NEW, prompts=("rude",))
    more = replace(
        static,
        options=(*static.options, tone),
        prompts={**static.prompts, "rude": "Do it at last."},
    )
    grown = replace(BENCHMARK, settings={"static": more})
    assert (
        grown.prompts_of("static", {})
        == grown.prompts_of("static", {"tone": "plain"})
        == static.prompts
    )
    assert grown.prompts_of("static", {"tone": "rude"}) == more.prompts


def test_a_prompt_of_two_choices_is_in_the_id_where_either_is_taken():
    static = BENCHMARK.settings["static"]
    options = tuple(replace(NEW, name=name, prompts=("rude",)) for name in ("tone", "voice"))
    grown = replace(
        BENCHMARK,
        settings={"static": replace(static, options=options, prompts={"rude": "Do it at last."})},
    )
    assert grown.prompts_of("static", {}) == {}
    assert (
        set(grown.prompts_of("static", {"tone": "rude"}))
        == set(grown.prompts_of("static", {"voice": "rude"}))
        == {"rude"}
    )


def test_a_plug_in_s_queries_lie_beside_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info, package = tmp_path / "mine-1.dist-info", tmp_path / "mine_package"
    (package / "queries").mkdir(parents=True)
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[parley.benchmarks]\nmine = mine_package:BENCHMARK\n")
    (package / "__init__.py").write_text("")
    (package / "queries" / "figures.sql").write_text("-- One row.\nselect n from mine_table;\n")
    monkeypatch.syspath_prepend(tmp_path)
    with duckdb.connect(warehouse_path(tmp_path)) as connection:
        connection.execute("create table mine_table as select 7 as n")
    assert query_rows(tmp_path, "mine", "figures") == (("n",), [(7,)])
