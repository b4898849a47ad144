"""The command line against a server that fails in all its ways at once, 1% of requests each."""

import json
from collections import Counter
from importlib.resources import as_file
from pathlib import Path
from typing import Any

import pytest

from tasks.benchmarks.codeif.scoring import METRICS
from tasks.benchmarks.codeif.settings import FUNCTIONALITY_EXTENSION
from tasks.benchmarks.registry import BENCHMARKS
from tests.fixtures.misbehaviour import MISBEHAVIOUR, TRUNCATED, one_in_a_hundred_of_each
from tests.fixtures.model_server import Reply, default_answer, model_server
from tests.flows.parley_command import SAMPLE, parley
from warehouse.connect import query

pytestmark = [pytest.mark.slow, pytest.mark.long]
SAMPLES = 4
SEED = 129
"""Draws every misbehaviour at least once in the sample's 32 dialogues, and no other model at the
very first answer.
"""
REFUSALS = (MISBEHAVIOUR["context length"], MISBEHAVIOUR["content filter"])
SERVER_S = [
    reply
    for reply in MISBEHAVIOUR.values()
    if reply not in (*REFUSALS, TRUNCATED, MISBEHAVIOUR["no usage"])
]


def due() -> Counter[str]:
    """Metric -> how many scores the run must have, with or without a value."""
    benchmark = BENCHMARKS.load("codeif")
    with as_file(benchmark.data.sample) as folder:
        dialogs = benchmark.data.stage(folder, "sample").dialogs
    return Counter(
        metric.name
        for dialog in dialogs
        for _ in range(SAMPLES)
        for instruction in dialog.instruction_ids
        for metric, _, on_extension in METRICS
        if on_extension or instruction != FUNCTIONALITY_EXTENSION
    )


def rows(home: Path, sql: str) -> list[dict[str, Any]]:
    names, found = query(home, sql)
    return [dict(zip(names, row, strict=True)) for row in found]


def assert_answers_are_the_model_s(home: Path, n_truncated: int) -> None:
    """Each answer that is kept is the one to this very conversation, or the cut one; none is
    another model's or made up.
    """
    conversations: dict[str, list[dict[str, str]]] = {}
    n_cut = 0
    wanted = "episode_id, role, content, finish_reason, served_model"
    for row in rows(home, f"SELECT {wanted} FROM turns ORDER BY episode_id, turn, role DESC"):
        said = conversations.setdefault(row["episode_id"], [])
        if row["role"] == "assistant":
            is_cut = row["finish_reason"] == "length"
            n_cut += is_cut
            assert row["content"] == (TRUNCATED.content if is_cut else default_answer(said))
            assert row["served_model"] == "mock"
        said.append({"role": row["role"], "content": row["content"]})
    assert n_cut == n_truncated


def test_a_night_of_one_percent_of_each_fault(standing_home: Path) -> None:
    choose, given = one_in_a_hundred_of_each(SEED), []

    def kept(conversation: str, earlier: int) -> Reply:
        given.append(choose(conversation, earlier))
        return given[-1]

    with model_server(choose=kept) as server:
        run = (
            *SAMPLE,
            "--model",
            f"openai:mock@{server.base_url}",
            "--revision",
            "1",
            "--samples",
            SAMPLES,
            "--sandbox",
            "none",
        )
        run = (*run, "--timeout-s", "3", "--concurrency", "16", "--json")
        done = parley(standing_home, *run)
        n_requests = len(server.bodies)
        n_refused = sum(reply in REFUSALS for reply in given)
        n_cut = sum(reply == TRUNCATED for reply in given)
        assert sum(reply in SERVER_S for reply in given) >= 0.1 * n_requests
        assert set(given) == {Reply(), *MISBEHAVIOUR.values()}

        line = json.loads(done.out)
        assert done.code == 0, done.err
        assert (line["episodes"], line["owed"], line["n_infra"], line["published"]) == (
            8 * SAMPLES,
            0,
            0,
            True,
        )
        assert line["model_calls"] == n_requests
        n_filtered = sum(reply == MISBEHAVIOUR["content filter"] for reply in given)
        (record,) = rows(standing_home, "SELECT status, n_refused, n_truncated FROM runs")
        assert record == {"status": "finished", "n_refused": n_filtered, "n_truncated": n_cut}

        again = parley(standing_home, *run)
        assert len(server.bodies) == n_requests, "a finished dialogue is never paid for twice"
    assert again.code == 0, again.err
    assert_denominators_add_up(standing_home)
    assert_answers_are_the_model_s(standing_home, n_cut)
    stops = {
        r["stop_reason"]: r["n"]
        for r in rows(standing_home, "SELECT stop_reason, count(*) n FROM episodes GROUP BY ALL")
    }
    assert stops == {
        "finished": 8 * SAMPLES - n_refused,
        "refused": n_filtered,
        "subject_error": n_refused - n_filtered,
    }
    unscored = rows(
        standing_home, "SELECT DISTINCT unscored_reason r FROM scores WHERE value IS NULL"
    )
    assert {row["r"] for row in unscored} <= {"context_length", "nothing_to_forget", "refused"}


def assert_denominators_add_up(home: Path) -> None:
    """In every mart: scored + unscored + not applicable = wanted."""
    wanted = due()
    board = rows(home, "SELECT metric, n + n_unscored + n_not_applicable AS n FROM leaderboard")
    assert {row["metric"]: row["n"] for row in board} == wanted
    assert rows(home, "SELECT count(*) n FROM run_episodes") == [{"n": 8 * SAMPLES}]
    (turns,) = rows(
        home,
        "SELECT sum(n + n_unscored + n_not_applicable) ia, sum(n_ca + n_ca_unscored + "
        "n_ca_not_applicable) ca,"
        " sum(n_ifr + n_ifr_unscored + n_ifr_not_applicable) ifr"
        " FROM codeif_turns WHERE axis = 'turn' AND level <> 'all'",
    )
    assert turns == {
        "ia": wanted["instruction_accuracy"],
        "ca": wanted["conversation_accuracy_strict"],
        "ifr": wanted["instruction_forgetting_ratio"],
    }
