"""`parley run` on answers whose programs stand in other forms than the papers' scripts expect."""

from importlib.resources import as_file
from pathlib import Path
from typing import Any

import pytest

from tasks.benchmarks.codeif import BENCHMARK
from tests.fixtures.model_server import Messages, model_server
from tests.flows.parley_command import SAMPLE, parley

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("served_home")]


def references() -> dict[str, str]:
    """Prompt -> the reference of the sample's problems."""
    with as_file(BENCHMARK.data.sample) as folder:
        return {
            problem.prompt: problem.reference_code
            for problem in BENCHMARK.data.stage(folder, "sample").problems
        }


def test_programs_are_found_in_new_runs_and_both_rules_count_what_they_cannot_read(
    home: Path,
) -> None:
    known = references()

    def answer(messages: Messages) -> str:
        reference = next(
            code for prompt, code in known.items() if prompt.strip() in messages[0]["content"]
        )
        if sum(message["role"] == "user" for message in messages) > 1:
            return "I cannot write that program."
        return f"A sketch:\n```python\nprint('first')\n```\nThe program:\n```py\n{reference}\n```"

    def run(*arguments: object) -> dict[str, Any]:
        spec = (
            "--model",
            f"openai:mock@{server.base_url}",
            "--revision",
            "r1",
            "--limit",
            2,
            "--sandbox",
            "none",
        )
        done = parley(home, *SAMPLE, *spec, *arguments)
        assert done.code == 0, done.err
        return {"words": done.out}

    with model_server() as server:
        server.answer = answer
        new = run()
        n_calls = len(server.bodies)
        old = run("--option", "extraction=first_block")
        assert len(server.bodies) == n_calls
    assert "answers without a readable program" in new["words"]
    assert "answers without a readable program" in old["words"]
    sql = """
        SELECT scoring_options, n_unreadable, mean FROM leaderboard
        JOIN (SELECT run_id, spec_json ->> '$.scoring_options' AS scoring_options, n_episodes FROM runs) USING (run_id)
        WHERE metric = 'instruction_accuracy' ORDER BY scoring_options
    """
    first, markdown = sorted(
        parley(home, "sql", "--json", sql).json(),
        key=lambda row: "extraction" in row["scoring_options"],
    )
    assert "markdown" in markdown["scoring_options"]
    assert first["n_unreadable"] == markdown["n_unreadable"] > 0
    assert markdown["mean"] > first["mean"]
