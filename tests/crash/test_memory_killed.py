"""A run with a memory agent is killed while it remembers: nothing is asked twice, and it recalls
what it would have recalled.
"""

from pathlib import Path

import pytest

from tests.crash.night import Kill, Night, counting_server
from tests.fixtures.embedding_server import embedding_server
from tests.tasks.dialogue.agents.remembered_talk import reply
from warehouse.connect import query

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600)]
AT_ONCE = 2
SAID = "select problem_id, turn, role, kind, content from steps where {} order by all"
ABOUT_TALK = "len(list_filter(labels, lambda one : one.key = 'of_talk')) > 0"
"""Answers of which the memory of the talk is built: one of the dialogues after it has each."""


@pytest.mark.parametrize("agent", ["hipporag", "a-mem"])
def test_what_is_remembered_is_made_anew_from_the_kept_steps(
    agent: str, tmp_path: Path, server_url: str
) -> None:
    said: dict[str, object] = {}
    calls: dict[str, int] = {}
    with embedding_server(dim=16) as embedder:
        for name, kills in (("whole", []), ("killed", [Kill("between turns", "driver", 9)])):
            with counting_server(max_seconds=300) as counter:
                counter.server.answer = lambda messages: reply(messages[-1]["content"])
                night = Night(tmp_path / name, counter, {"PREFECT_API_URL": server_url})
                model = f"openai:mock@{counter.server.base_url}"
                run = (
                    "run",
                    "unidial.locomo",
                    "--dataset-version",
                    "sample",
                    "--model",
                    model,
                    "--revision",
                    "1",
                )
                vectors = (
                    "--embedder",
                    f"openai:mock-embedder@{embedder.base_url}",
                    "--embedder-revision",
                    "1",
                )
                run = (
                    *run,
                    "--agent",
                    agent,
                    *vectors,
                    "--concurrency",
                    str(AT_ONCE),
                    "--workers",
                    "1",
                    "--json",
                )
                if kills:
                    assert night.run(kills, run).code == -9
                line = night.run(arguments=run).line()
            assert (line["status"], line["owed"], line["n_unscored"]) == ("finished", 0, 0)
            about_talk = [row[1:] for row in query(night.home, SAID.format(ABOUT_TALK))[1]]
            said[name] = (
                sorted(about_talk),
                query(night.home, SAID.format(f"not ({ABOUT_TALK})"))[1],
            )
            calls[name] = counter.calls()
    assert said["killed"] == said["whole"]
    assert calls["whole"] <= calls["killed"] <= calls["whole"] + AT_ONCE, (
        "what was in flight may be asked again"
    )
