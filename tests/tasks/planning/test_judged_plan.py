"""What a judged run will ask, told before anything is started: its judges' calls, tokens, cost,
keys and endpoints.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flows.night.preflight.assumed_requests import CHARACTERS_PER_TOKEN, TOKENS_PER_ANSWER
from flows.night.preflight.checks import preflight
from flows.night.preflight.dry_run import estimate
from schemas.errors import ModelUnavailable
from tasks.benchmarks.registry import BENCHMARKS
from tasks.converse import ConverseStage, context_for
from tasks.driver.judging import Judgements, judge_context
from tasks.judge import JudgeStage
from tasks.planning.plan import RunPlan, plan_run
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
from tasks.stage import run_stage
from tasks.storage.home import Home
from tasks.storage.run_rows import read_episodes
from tasks.worker.jobs import JudgeShard, ShardResult
from tasks.worker.judge_shard import judge_shard
from tests.faults.nights import local_client
from tests.fixtures.model_server import ModelServer, model_server
from tests.tasks.benchmarks import judged
from tests.tasks.benchmarks.judged import CLEAR, GOOD, N_DIALOGS, N_ROUNDS, WHOLE
from tests.tasks.staged_plan import stage

N_DISTINCT = (N_DIALOGS - 1) * N_ROUNDS
"""Prompts of the rubric `clear`: two dialogues say the same."""
ROUND = len("Problem 0, round 1") // CHARACTERS_PER_TOKEN + TOKENS_PER_ANSWER
"""Tokens of one round: the message, and an answer that is not there yet."""
FORM, WHOLE_FORM = (
    len(rubric.prompt + rubric.form) // CHARACTERS_PER_TOKEN for rubric in (CLEAR, WHOLE)
)


_deaths: list[str] = []


def asked_by_workers_of_whom_one_dies(shard: JudgeShard) -> ShardResult:
    if not _deaths:
        _deaths.append(shard.name)
        judge_shard(replace(shard, jobs=shard.jobs[:1]))
    return judge_shard(shard)  # Dask gives a dead worker's shard, as first sent, to another one


@pytest.fixture(autouse=True)
def _known_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BENCHMARKS.built_in, judged.NAME, f"{judged.__name__}:BENCHMARK")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server(max_seconds=120) as found:
        found.answer = lambda messages: GOOD
        yield found


def plan(
    home: Path, setting: str, judge: ModelRequest, limit: int | None = None, **judges: ModelRequest
) -> RunPlan:
    subject = ModelRequest(
        spec="control:gold", usd_per_million_input=1.0, usd_per_million_output=2.0
    )
    benchmark = BenchmarkRequest(name=f"judged.{setting}", dataset_version="sample", limit=limit)
    asked = EvaluationRequest(
        model=subject, judges={"": judge, **judges}, benchmark=benchmark, sandbox="none"
    )
    return plan_run(asked, Home(home))


def drift_tokens() -> int:
    return sum(
        len(f"{messages[0].content}\n\n{CLEAR.form}") // CHARACTERS_PER_TOKEN
        for messages in CLEAR.drift
    )


def test_a_dry_run_counts_and_prices_every_rubric_s_calls(tmp_path: Path) -> None:
    dear = ModelRequest(
        spec="control:empty", usd_per_million_input=10.0, usd_per_million_output=20.0
    )
    short = dear.model_copy(update={"max_tokens": 20, "usd_per_million_input": 100.0})
    found = estimate(plan(tmp_path, "code", dear, limit=1, whole=short))
    alone = estimate(plan(tmp_path, "talk", ModelRequest(spec="openai:j", revision="1"), limit=1))
    free = estimate(plan(tmp_path, "talk", ModelRequest(spec="control:empty"), limit=1))
    assert (found.judge_calls, alone.judge_calls) == (
        N_ROUNDS + len(CLEAR.drift) + 1,
        N_ROUNDS + len(CLEAR.drift),
    )
    turns = alone.judge_input_tokens
    assert turns == pytest.approx(2 * (FORM + ROUND) + drift_tokens(), abs=4), "each answer alone"
    whole = found.judge_input_tokens - turns
    assert whole == pytest.approx(WHOLE_FORM + 2 * TOKENS_PER_ANSWER, abs=20)
    assert found.judge_output_tokens == (N_ROUNDS + len(CLEAR.drift)) * TOKENS_PER_ANSWER + 20
    subject = found.input_tokens * 1.0 + found.output_tokens * 2.0
    judges = turns * 10.0 + whole * 100.0 + found.judge_output_tokens * 20.0
    assert found.usd == pytest.approx((subject + judges) / 1e6)
    assert (free.judge_calls, free.judge_input_tokens, free.judge_output_tokens) == (0, 0, 0)
    assert (alone.usd, alone.at_most, found.at_most) == (None, True, True)


def test_a_dry_run_names_the_keys_of_judges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JUDGE_KEY", raising=False)
    found = estimate(
        plan(tmp_path, "talk", ModelRequest(spec="openai:j", key_env="JUDGE_KEY"), limit=1)
    )
    assert found.keys_not_set == (("JUDGE_KEY", "openai:j"),)


def test_judgements_on_kept_dialogues_are_counted_as_they_will_be_asked_and_their_judge_is_looked_for(
    tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two dialogues say the same: their judgement is asked for once, though a worker dies after its
    first answer.
    """
    asked = ModelRequest(spec=f"openai:mock@{server.base_url}", revision="1", key_env="JUDGE_KEY")
    owing = plan(tmp_path, "talk", asked)
    stage(owing)
    with local_client() as client:
        stage(owing)
        run_stage(ConverseStage(owing, context_for(owing, workers=1, cores=1), client))
        monkeypatch.delenv("JUDGE_KEY", raising=False)
        played = estimate(owing)
        assert (played.pending, played.calls, played.judge_calls) == (
            0,
            0,
            N_DISTINCT + len(CLEAR.drift),
        )
        assert played.keys_not_set == (("JUDGE_KEY", "openai:mock"),)
        monkeypatch.setenv("JUDGE_KEY", "sk-parley-1")
        preflight(owing)
        assert server.model_lists == 1
        server.models_status = 401
        with pytest.raises(ModelUnavailable):
            preflight(owing)
        server.models_status = 200

        judgements, context = Judgements(owing), judge_context(owing, workers=1)
        episodes = read_episodes(
            owing.lake, judged.NAME, owing.spec.label, [w.episode_id for w in owing.members]
        )
        wanted = judgements.wanted(episodes.values(), {}, all_rubrics=True)
        n_before = len(server.bodies)
        monkeypatch.setattr(
            JudgeStage, "run_shard", staticmethod(asked_by_workers_of_whom_one_dies)
        )
        done = run_stage(JudgeStage(owing, judgements, wanted, lambda: (context, client)))
    assert (done.error, len(_deaths), len(server.bodies) - n_before) == (None, 1, N_DISTINCT)
    assert (done.n_new, len(done.rows)) == (N_DISTINCT, 2 * N_DIALOGS * N_ROUNDS)
    told = estimate(owing)
    assert (told.judge_calls, told.judge_input_tokens, told.at_most, told.keys_not_set) == (
        0,
        0,
        False,
        (),
    )
    server.models_status, n_lists = 401, server.model_lists
    preflight(owing)
    assert server.model_lists == n_lists
