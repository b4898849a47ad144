"""Each way in which a model server fails, at one request of a run: whose fault it is, and what the
tables say of it.
"""

import itertools
from collections.abc import Iterator

import pytest

from schemas.episode import StopReason, UnscoredReason
from schemas.verdict import Outcome
from tests.faults.nights import (
    Night,
    assert_calls_are_counted,
    assert_nothing_is_dropped_or_made_zero,
    hurry,
    local_client,
    stops,
)
from tests.fixtures.misbehaviour import FILTERED, MISBEHAVIOUR, TRUNCATED
from tests.fixtures.model_server import Reply, model_server

SERVER_S = (
    "429",
    "429 with Retry-After",
    "500",
    "503",
    "hang",
    "drip",
    "reset",
    "truncated body",
    "not JSON",
    "empty choices",
)
"""Faults of the server that another try mends."""
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Iterator[Night]]:
    """Runs in one home, each with a seed of its own: all else being equal, programs that ran in one
    are known in the next.
    """
    home = tmp_path_factory.mktemp("faults") / "home"
    with local_client() as client:
        yield (Night(client, home, seed) for seed in itertools.count())


@pytest.fixture
def night(nights: Iterator[Night], monkeypatch: pytest.MonkeyPatch) -> Night:
    """A run that has not begun, with short pauses between tries."""
    hurry(monkeypatch)
    return next(nights)


@pytest.mark.parametrize("name", SERVER_S)
def test_a_fault_of_the_server_is_asked_again_and_leaves_no_trace(night: Night, name: str) -> None:
    """It hits the first request of an episode and that of its second round."""
    timeout_s = 0.7 if name in ("hang", "drip") else 20.0
    with model_server([MISBEHAVIOUR[name], Reply(), MISBEHAVIOUR[name]]) as server:
        played = night.play(server, limit=1, timeout_s=timeout_s)
    assert stops(played) == {StopReason.FINISHED: 1}
    assert played.withheld_because is None
    assert played.requests >= 2 + sum(len(e.steps) // 2 for e in played.episodes)
    assert_calls_are_counted(played)
    assert_nothing_is_dropped_or_made_zero(played)
    assert not [
        s for s in played.scores if s.unscored_reason is not None and s.unscored_reason.is_fault
    ]


@pytest.mark.parametrize("name", ["429", "500", "reset", "not JSON"])
def test_a_fault_that_stays_is_infra_pending_again_and_withholds_the_run(
    night: Night, name: str
) -> None:
    """One conversation is never answered; all others are.

    The next command pays for what is pending alone.
    """
    cursed: list[str] = []

    def choose(conversation: str, earlier: int) -> Reply:
        if not cursed:
            cursed.append(conversation)
        return MISBEHAVIOUR[name] if conversation in cursed else Reply()

    with model_server(choose=choose) as server:
        played = night.play(server, limit=2)
        assert stops(played) == {StopReason.FINISHED: 1, StopReason.INFRA: 1}
        lost = next(e for e in played.episodes if e.stop_reason is StopReason.INFRA)
        assert 2 <= lost.attempt <= 3
        assert played.conversed.n_pending == 1
        assert_calls_are_counted(played)
        assert_nothing_is_dropped_or_made_zero(played)
        reasons = {s.unscored_reason for s in played.scores if s.episode_id == lost.episode_id}
        assert reasons == {UnscoredReason.INFRA}
        assert "1 of 2 episodes have infra faults" in (played.withheld_because or "")
        assert "max_fault_share" in (played.withheld_because or "")
        assert "'mock'" in (played.conversed.error or "")

        server.choose = None
        again = night.play(server, limit=2)
    assert stops(again) == {StopReason.FINISHED: 2}
    assert again.requests == len(again.plan.dialogs[lost.row_digest].instruction_ids)
    assert again.withheld_because is None


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (MISBEHAVIOUR["context length"], "longer than its context"),
        (MISBEHAVIOUR["content filter"], "content filter"),
        (FILTERED, "content filter"),
    ],
)
def test_a_refused_conversation_is_the_model_s_failure_with_its_own_reason(
    night: Night, reply: Reply, said: str
) -> None:
    """The second answer of the first episode: it is not infra, not asked again, not an empty
    program that scores 0.
    """
    with model_server([Reply(), reply]) as server:
        played = night.play(server, limit=2, concurrency=1)
    too_long = said == "longer than its context"
    stopped = StopReason.SUBJECT_ERROR if too_long else StopReason.REFUSED
    assert stops(played) == {StopReason.FINISHED: 1, stopped: 1}
    refused = next(e for e in played.episodes if e.stop_reason is stopped)
    assert said in (refused.error or "")
    assert (refused.attempt, played.conversed.n_pending) == (1, 0)
    assert refused.answer(1) is not None
    assert refused.answer(2) is None
    assert_calls_are_counted(played)
    assert_nothing_is_dropped_or_made_zero(played)
    without = [v for v in played.verdicts if v.episode_id == refused.episode_id and v.turn > 1]
    assert {(v.outcome, v.detail) for v in without} == {
        (Outcome.ERROR if too_long else Outcome.FAILED, refused.error)
    }
    missing = [s for s in played.scores if s.episode_id == refused.episode_id and s.turn > 1]
    if too_long:
        assert {s.unscored_reason for s in missing} == {UnscoredReason.CONTEXT_LENGTH}
    else:
        assert {s.value for s in missing if s.metric == "instruction_accuracy"} == {0.0}
    assert played.withheld_because is None


@pytest.mark.parametrize(
    "reply", [TRUNCATED, Reply(content=TRUNCATED.content, finish_reason="content_filter")]
)
def test_a_cut_answer_is_judged_as_it_is_and_counted(night: Night, reply: Reply) -> None:
    with model_server([reply]) as server:
        played = night.play(server, limit=1)
    (episode,) = played.episodes
    assert episode.stop_reason is StopReason.FINISHED
    assert episode.answer(1) == TRUNCATED.content
    assert [s.finish_reason for s in episode.steps][1] == reply.finish_reason
    assert {v.outcome for v in played.verdicts if v.turn == 1} == {Outcome.FAILED}
    assert played.counted[0].n_truncated == (reply.finish_reason == "length")
    assert played.withheld_because is None
    assert_nothing_is_dropped_or_made_zero(played)


def test_without_usage_tokens_are_unknown_and_nothing_else_changes(night: Night) -> None:
    with model_server(choose=lambda *_: MISBEHAVIOUR["no usage"]) as server:
        played = night.play(server)
    assert stops(played) == {StopReason.FINISHED: 2}
    assert {(s.input_tokens, s.output_tokens) for e in played.episodes for s in e.steps} == {
        (None, None)
    }
    assert played.withheld_because is None


def test_another_model_now_and_then_is_asked_again_and_never_judged(night: Night) -> None:
    """A gateway that falls back to another model for single requests."""
    impostor = Reply(model="impostor-7b", content="the wrong model's answer")
    with model_server([Reply(), Reply(), impostor, impostor]) as server:
        played = night.play(server, concurrency=2)
    assert stops(played) == {StopReason.FINISHED: 2}
    assert not [s for e in played.episodes for s in e.steps if s.content == impostor.content]
    assert_calls_are_counted(played)


def test_another_model_from_the_start_ends_the_run_at_once(night: Night) -> None:
    with model_server(choose=lambda *_: MISBEHAVIOUR["wrong model"]) as server:
        played = night.play(server, limit=2)
    assert stops(played) == {StopReason.INFRA: 2}
    assert played.requests == 2
    assert {e.attempt for e in played.episodes} == {1}
    assert "'impostor-7b' answered instead" in (played.conversed.error or "")
    assert_nothing_is_dropped_or_made_zero(played)
    assert "2 infra" in (played.withheld_because or "")
