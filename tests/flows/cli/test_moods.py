"""`parley run` against an endpoint with every mood of gateways and models at once, beside honest
dialogues.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.model_server import Reply, model_server
from tests.fixtures.moods import ANSWER, Mood, moods
from tests.flows.parley_command import SAMPLE, parley
from tests.tasks.language.endpoints.test_vendor_words import MESSAGES

pytestmark = pytest.mark.slow
MOODS = moods(MESSAGES)
N_HONEST = 8
STOPS = {
    "asked again": "finished",
    "empty": "finished",
    "answered": "finished",
    "refused": "refused",
    "too long": "subject_error",
}


def rows(home: Path, sql: str) -> Any:
    return parley(home, "sql", "--json", sql).json()


def run(base_url: str, *arguments: object) -> tuple[str, ...]:
    model = ("--model", f"openai:mock@{base_url}", "--revision", "r1", "--sandbox", "none")
    return (*SAMPLE, *model, "--limit", "1", *map(str, arguments))


@pytest.fixture(scope="module")
def played(standing_home: Path) -> Iterator[tuple[Path, dict[str, Any], int]]:
    """(home, what the run reported, requests): the seed of each episode says which mood meets its
    first request.
    """
    met: set[int] = set()

    def meet(body: dict[str, Any]) -> Reply | None:
        seed = body["seed"]
        if seed >= len(MOODS) or len(body["messages"]) > 1 or seed in met:
            return None
        met.add(seed)
        return MOODS[seed].reply

    with model_server(refuse=meet, answer=lambda _: ANSWER) as server:
        done = parley(
            standing_home, *run(server.base_url, "--samples", len(MOODS) + N_HONEST, "--json")
        )
        assert done.code == 0, done.err
        yield standing_home, json.loads(done.out), len(server.bodies)


@pytest.mark.parametrize("seed", range(len(MOODS)), ids=[mood.name for mood in MOODS])
def test_each_mood_ends_its_own_dialogue_as_it_must(
    played: tuple[Path, dict[str, Any], int], seed: int
) -> None:
    home, _, _ = played
    mood: Mood = MOODS[seed]
    (episode,) = rows(
        home, f"SELECT episode_id, stop_reason, error FROM episodes WHERE sample = {seed}"
    )
    assert episode["stop_reason"] == STOPS[mood.outcome], episode["error"]
    first = rows(
        home,
        "SELECT content, reasoning, n_calls FROM steps WHERE role = 'assistant' AND turn = 1"
        f" AND kind = 'message' AND episode_id = '{episode['episode_id']}'",
    )
    if mood.outcome in ("refused", "too long"):
        assert first == [], "a refusal is no answer"
        assert episode["error"]
        return
    expected = "" if mood.outcome == "empty" else ANSWER
    assert [(step["content"], step["n_calls"]) for step in first] == [
        (expected, 1 + (mood.outcome == "asked again"))
    ]
    assert bool(first[0]["reasoning"]) == ("reasoning" in mood.name)


def test_no_dialogue_is_lost(played: tuple[Path, dict[str, Any], int]) -> None:
    home, report, n_requests = played
    n = {outcome: sum(mood.outcome == outcome for mood in MOODS) for outcome in STOPS}
    assert (report["episodes"], report["owed"], report["n_infra"]) == (len(MOODS) + N_HONEST, 0, 0)
    assert report["model_calls"] == n_requests
    (record,) = rows(home, "SELECT status, n_refused, n_empty, n_cut_off FROM runs")
    assert record == {
        "status": "finished",
        "n_refused": n["refused"],
        "n_empty": n["empty"],
        "n_cut_off": 0,
    }
    honest = rows(home, f"SELECT DISTINCT stop_reason FROM episodes WHERE sample >= {len(MOODS)}")
    assert honest == [{"stop_reason": "finished"}]
    unscored = rows(
        home,
        (
            "SELECT DISTINCT unscored_reason r FROM scores WHERE value IS NULL AND "
            "unscored_reason IS NOT NULL"
        ),
    )
    assert "infra" not in {row["r"] for row in unscored}


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (401, "The key was rejected"),
        ("402", "no credit left"),
        ("insufficient_quota", "no credit left"),
    ],
)
def test_a_refused_key_or_account_within_a_200_ends_at_once(
    standing_home: Path, code: object, advice: str
) -> None:
    reply = Reply(body=(("choices", []), ("error", {"code": code, "message": "refused"})))
    with model_server(choose=lambda *_: reply) as server:
        done = parley(
            standing_home, *run(server.base_url, "--seed", 1000 + sum(map(ord, str(code))))
        )
        assert len(server.bodies) == 1, "no request is asked again"
    assert done.code != 0
    assert advice in done.out + done.err


def test_the_cost_of_refused_answers_without_counts_is_unknown(standing_home: Path) -> None:
    reply = Reply(content="", finish_reason="content_filter", usage=False)
    with model_server(choose=lambda *_: reply) as server:
        command = run(server.base_url, "--seed", 6000, "--price", 1, 1)
        done = parley(standing_home, *command)
        assert done.code == 0, done.err
        assert "paid: 1 model calls, unknown tokens (no counts for 1 answers);" in done.out
        (work,) = rows(
            standing_home,
            "SELECT usd, n_unknown_tokens FROM night_work ORDER BY night_id DESC LIMIT 1",
        )
    assert work == {"usd": None, "n_unknown_tokens": 1}


def test_the_tokens_of_some_refused_answers_count(standing_home: Path) -> None:
    """A filter that answers is paid, a rejection by an error is not: cost, table and mart agree."""
    usage = ("usage", {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010})
    filtered = Reply(content="", finish_reason="content_filter", body=(usage,))
    rejected = Reply(status=400, code="content_filter", message="withheld by the content policy")

    def refuse(body: dict[str, Any]) -> Reply | None:
        if len(body["messages"]) == 1:
            return None
        return {8000: filtered, 8001: rejected}.get(body["seed"])

    answer = Reply(content=ANSWER, body=(usage,))
    with model_server(refuse=refuse, answer=lambda _: answer) as server:
        command = run(server.base_url, "--seed", 8000, "--samples", 3, "--price", 1, 10)
        done = parley(standing_home, *command)
        assert done.code == 0, done.err
        n_calls, n_paid = len(server.bodies), len(server.bodies) - 1
    usd = f"round(usd * 1e6)::int AS usd FROM {{}} WHERE run_id LIKE '{done.out.split('(run ')[1][:12]}%'"
    (work,) = rows(standing_home, f"SELECT model_calls, requests_paid, {usd.format('night_work')}")
    assert work == {"model_calls": n_calls, "requests_paid": n_paid, "usd": 1100 * n_paid}
    (cost,) = rows(standing_home, f"SELECT calls, n_unknown_tokens, {usd.format('costs')}")
    assert cost == {"calls": n_calls, "n_unknown_tokens": 0, "usd": 1100 * n_paid}


def test_dialogues_beyond_the_context_are_counted(standing_home: Path) -> None:
    too_long = Reply(status=400, code="context_length_exceeded", message="maximum context length")
    with model_server(
        refuse=lambda body: too_long if len(body["messages"]) > 1 else None,
        answer=lambda _: ANSWER,
    ) as server:
        done = parley(standing_home, *run(server.base_url, "--seed", 7000))
    assert done.code == 0, done.err
    assert "1 dialogues cut short by the model's context (context_length)" in done.out


def test_a_share_of_empty_answers_is_warned_of(standing_home: Path) -> None:
    with model_server([Reply(content="")], answer=lambda _: ANSWER) as server:
        done = parley(standing_home, *run(server.base_url, "--seed", 5000))
    assert done.code == 0, done.err
    assert "1 empty answers" in done.out
    assert "WARNING" in done.out
