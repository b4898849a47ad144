"""What a setting asks of a run: a simulator, and dialogs that it plays."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flows.cli.commands.role_options import RoleValues, simulator_request
from flows.night.preflight.assumed_requests import CHARACTERS_PER_TOKEN, TOKENS_PER_ANSWER
from flows.night.preflight.dry_run import estimate
from flows.text.dry_run import show_dry_run
from schemas.audit import AUDIT_SAMPLE
from schemas.dialog import HistoryPolicy
from schemas.errors import ConfigError
from schemas.run import RunSpec
from tasks.benchmarks import codeif
from tasks.benchmarks.registry import BENCHMARKS
from tasks.planning.dataset import write_staged
from tasks.planning.plan import RunPlan, plan_run
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
from tasks.planning.why_rerun import digests_by_dialog, rows_of
from tasks.storage.home import Home
from tests.tasks.storage.test_dialogue_calls import append, steps
from tests.tasks.worker.coding_rounds import ANSWERS, BENCHMARK, MODULE, N_ROUNDS, NAME, RIGHT

PRICED = ModelRequest(spec="control:gold", usd_per_million_input=1.0, usd_per_million_output=2.0)
DEAR = ModelRequest(spec="control:empty", usd_per_million_input=10.0, usd_per_million_output=20.0)


@pytest.fixture(autouse=True)
def _known_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BENCHMARKS.built_in, NAME, f"{MODULE}:BENCHMARK")


def request(
    setting: str, simulator: ModelRequest | None = None, **benchmark: object
) -> EvaluationRequest:
    # fields by name
    asked = BenchmarkRequest(name=f"{NAME}.{setting}", **benchmark)  # type: ignore[arg-type]
    return EvaluationRequest(model=PRICED, benchmark=asked, simulator=simulator, sandbox="none")


def plan(
    home: Path, setting: str, simulator: ModelRequest | None = None, **benchmark: object
) -> RunPlan:
    return plan_run(request(setting, simulator, **benchmark), Home(home))


def test_the_plan_holds_what_its_setting_plays(tmp_path: Path) -> None:
    live, told = plan(tmp_path, "live"), plan(tmp_path, "told")
    assert set(live.problems) == set(ANSWERS)
    assert set(told.problems) == {"wrong at first", "never compiles"}
    assert len(told.wanted) == len(told.dialogs) == 4
    assert live.spec.dataset_digest != told.spec.dataset_digest
    assert live.staged.dialogs == told.staged.dialogs


def test_a_limit_counts_problems(tmp_path: Path) -> None:
    assert [w.dialog_id for w in plan(tmp_path, "told", limit=1).wanted] == [
        "wrong at first#told 1", "wrong at first#told 2",
    ]  # fmt: skip


def test_data_without_a_dialog_of_the_setting_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError,
        match=r"none of the 8 dialogs of this data belongs to setting rounds.other\. .*--data.*live",
    ):
        plan(tmp_path, "other")


def test_a_setting_that_needs_a_simulator_is_refused_without_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"rounds.live\[model\] .*--simulator control:gold"):
        plan(tmp_path, "live[model]")
    spec = plan(tmp_path, "live[model]", DEAR).spec
    assert spec.simulator is not None
    assert spec.simulator.label == "control:empty"


def test_a_simulator_that_nobody_needs_changes_no_run(tmp_path: Path) -> None:
    assert plan(tmp_path, "live", DEAR).spec == plan(tmp_path, "live").spec


def test_rows_of_a_setting_are_found_in_the_edition_that_holds_other_settings_too(
    tmp_path: Path,
) -> None:
    told = plan(tmp_path, "told")
    assert rows_of(told.lake, told.spec) is None
    write_staged(told.staged, NAME, "sample", told.lake)
    assert rows_of(told.lake, told.spec) == digests_by_dialog(told.dataset)
    assert (
        rows_of(told.lake, RunSpec.model_validate(told.spec.model_dump() | {"dataset_digest": "0"}))
        is None
    )


def tokens(*texts: str) -> int:
    return sum(len(text) // CHARACTERS_PER_TOKEN for text in texts)


def test_a_dry_run_counts_and_prices_the_simulator_s_calls_too(tmp_path: Path) -> None:
    found = estimate(plan(tmp_path, "live[model]", DEAR, limit=1))
    first, later = tokens("Write solve(x). (live)"), N_ROUNDS - 1
    assert (found.calls, found.simulator_calls, found.at_most) == (N_ROUNDS, later, True)
    assert found.input_tokens == N_ROUNDS * first + later * 2 * TOKENS_PER_ANSWER
    told = tokens("x" * 400, "Write solve(x).", RIGHT) + 2 * TOKENS_PER_ANSWER
    assert (found.simulator_input_tokens, found.simulator_output_tokens) == (
        later * told,
        later * TOKENS_PER_ANSWER,
    )
    subject = found.input_tokens * 1.0 + found.output_tokens * 2.0
    assert found.usd == pytest.approx(
        (subject + later * told * 10.0 + later * TOKENS_PER_ANSWER * 20.0) / 1e6
    )
    unpriced = ModelRequest(spec="openai:m", revision="1")
    assert estimate(plan(tmp_path, "live[model]", unpriced)).usd is None


def test_a_control_without_a_price_is_sent_nothing_and_costs_nothing(tmp_path: Path) -> None:
    found = estimate(plan(tmp_path, "live[model]", ModelRequest(spec="control:empty"), limit=1))
    assert (found.simulator_calls, found.simulator_input_tokens, found.simulator_output_tokens) == (
        0,
        0,
        0,
    )
    alone = request("live", limit=1).model_copy(update={"model": ModelRequest(spec="control:gold")})
    free = estimate(plan_run(alone, Home(tmp_path)))
    assert (free.pending, free.calls, free.input_tokens, free.output_tokens, free.usd) == (
        1,
        0,
        0,
        0,
        0.0,
    )


def test_a_dry_run_says_how_many_passes_are_audited_at_most(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [
        request("live", limit=1).model_copy(update={"audit": audit})
        for audit in ("none", "sample", "all")
    ]
    assert [estimate(plan_run(one, Home(tmp_path))).audits_at_most for one in asked] == [
        0,
        AUDIT_SAMPLE,
        None,
    ]
    assert len({plan_run(one, Home(tmp_path)).run_id for one in asked}) == 3
    show_dry_run(Home(tmp_path), asked[1:2], json_output=False)
    assert f"Audit: at most {AUDIT_SAMPLE} passed programs of the run" in capsys.readouterr().out


def test_max_tokens_bounds_the_estimate_of_subject_and_simulator(tmp_path: Path) -> None:
    short = request("live[model]", DEAR, limit=1).model_copy(
        update={"model": PRICED.model_copy(update={"max_tokens": 20})}
    )
    found, unbounded = (
        estimate(plan_run(short, Home(tmp_path))),
        estimate(plan(tmp_path, "live[model]", DEAR, limit=1)),
    )
    later, less = N_ROUNDS - 1, TOKENS_PER_ANSWER - 20
    assert (found.output_tokens, found.simulator_output_tokens) == (N_ROUNDS * 20, later * 20)
    assert unbounded.input_tokens - found.input_tokens == later * less
    assert unbounded.simulator_input_tokens - found.simulator_input_tokens == later * less


def test_a_dry_run_leaves_out_what_the_journal_holds(tmp_path: Path) -> None:
    pending = plan(tmp_path, "live[model]", DEAR, limit=1)
    append(pending.home.journal(pending.run_id), pending.wanted[0].episode_id, 1, steps(2))
    assert (estimate(pending).calls, estimate(pending).simulator_calls) == (
        N_ROUNDS - 2,
        N_ROUNDS - 2,
    )


def test_what_is_shown_of_the_past_decides_the_estimate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_of_it = replace(BENCHMARK.settings["live"], history=HistoryPolicy.ON_POLICY)
    alone = estimate(plan(tmp_path, "live", limit=1))
    monkeypatch.setattr(
        f"{MODULE}.BENCHMARK",
        replace(BENCHMARK, settings={**BENCHMARK.settings, "live": all_of_it}),
    )
    first = tokens("Write solve(x). (live)")
    grown = estimate(plan(tmp_path, "live", limit=1))
    assert grown.input_tokens == sum(first + n * 2 * TOKENS_PER_ANSWER for n in range(N_ROUNDS))
    assert alone.input_tokens < grown.input_tokens


def test_of_two_rounds_the_first_alone_is_shown_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_alone = replace(BENCHMARK.settings["live"], history=HistoryPolicy.FIRST_ROUND)
    monkeypatch.setattr(
        f"{MODULE}.BENCHMARK",
        replace(BENCHMARK, settings={**BENCHMARK.settings, "live": first_alone}),
    )
    first = tokens("Write solve(x). (live)")
    found = estimate(plan(tmp_path, "live", limit=1))
    shown = (
        first + TOKENS_PER_ANSWER + TOKENS_PER_ANSWER
    )  # the first message, its answer, and this round's reply
    assert found.input_tokens == first + (N_ROUNDS - 1) * shown


def test_contexts_that_an_option_cuts_are_estimated_as_they_are_sent(tmp_path: Path) -> None:
    bundled = Path(str(codeif.BENCHMARK.data.bundled[codeif.SAMPLE_REPOSITORIES]))
    projects = bundled / "projects"
    row = json.loads((bundled / "L_3.jsonl").read_text(encoding="utf-8"))
    row["prompt"] += "# a long file\n" * 2000
    (tmp_path / "L_3.jsonl").write_text(json.dumps(row), encoding="utf-8")

    def found(**options: str) -> int:
        asked = BenchmarkRequest(
            name="codeif.two_round",
            dataset_version="current",
            data=str(tmp_path / "L_3.jsonl"),
            resources={"repos": str(projects)},
            options=options,
        )
        request = EvaluationRequest(model=PRICED, benchmark=asked, sandbox="none")
        return estimate(plan_run(request, Home(tmp_path / "home"))).input_tokens

    assert found() == found(context_tokens="131072") > found(context_tokens="1024")


def test_a_dry_run_says_that_dialogues_may_end_early(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: Sequence[EvaluationRequest] = (request("live[model]", DEAR),)
    show_dry_run(Home(tmp_path), asked, json_output=False)
    assert "Dialogues that can end early are estimated" in capsys.readouterr().out
    show_dry_run(Home(tmp_path), asked, json_output=True)
    assert json.loads(capsys.readouterr().out)["simulator_calls"] == len(ANSWERS) * (N_ROUNDS - 1)


def test_a_dry_run_names_the_keys_that_are_not_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of models whose calls are pending: neither where no key is needed nor where nobody speaks."""
    hosted, speaker = (
        ModelRequest(spec="openai:m"),
        ModelRequest(spec="openai:s", key_env="SPEAKER_KEY"),
    )
    local = ModelRequest(spec="openai:l@http://127.0.0.1:9/v1")
    asked = [
        request("live[model]", speaker).model_copy(update={"model": hosted}),
        request("live", speaker).model_copy(update={"model": hosted}),
        request("live[model]", hosted).model_copy(update={"model": local}),
    ]
    monkeypatch.setenv("OPENAI_API_KEY", " ")
    monkeypatch.delenv("SPEAKER_KEY", raising=False)
    show_dry_run(Home(tmp_path), asked, json_output=False)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "API keys not set: OPENAI_API_KEY (for openai:m); SPEAKER_KEY (for openai:s)"
    show_dry_run(Home(tmp_path), asked, json_output=True)
    lines = [json.loads(line)["keys_not_set"] for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        [["OPENAI_API_KEY", "openai:m"], ["SPEAKER_KEY", "openai:s"]], [["OPENAI_API_KEY", "openai:m"]],
        [["OPENAI_API_KEY", "openai:m"]],
    ]  # fmt: skip
    monkeypatch.setenv("OPENAI_API_KEY", "sk-parley-1")
    monkeypatch.setenv("SPEAKER_KEY", "sk-parley-2")
    show_dry_run(Home(tmp_path), asked, json_output=False)
    said = capsys.readouterr().out
    assert "not set" not in said
    assert "sk-parley" not in said


def test_a_dry_run_that_owes_nothing_asks_for_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    done = plan_run(
        request("live").model_copy(update={"model": ModelRequest(spec="openai:m")}), Home(tmp_path)
    )
    assert estimate(done).keys_not_set == (("OPENAI_API_KEY", "openai:m"),)
    monkeypatch.setattr(done, "pending", lambda: done.wanted[:0])
    assert estimate(done).keys_not_set == ()


def test_a_simulator_that_is_the_model_itself_has_its_key_revision_and_price() -> None:
    model = ModelRequest(
        spec="openai:m",
        key_env="K",
        revision="r",
        temperature=1.0,
        usd_per_million_input=1.0,
        usd_per_million_output=2.0,
    )
    roles: RoleValues = {"simulator": {}}
    assert simulator_request(None, model, roles, {}) is None
    prices: dict[str, Any] = {"usd_per_million_input": 3.0, "usd_per_million_output": 4.0}
    alike = simulator_request("openai:m,temperature=0.5", model, roles, prices)
    assert alike == ModelRequest(
        spec="openai:m", key_env="K", revision="r", temperature=0.5, **prices
    )
    other: RoleValues = {"simulator": {"key_env": ["L"], "revision": ["s"]}}
    assert simulator_request("openai:n", model, other, {}) == ModelRequest(
        spec="openai:n", key_env="L", revision="s"
    )
