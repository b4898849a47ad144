"""What is counted of a talk that many dialogues come after: its memory is built once, so it costs
once.
"""

from pathlib import Path

import pytest

from flows.night.preflight.dry_run import estimate
from flows.night.preflight.earlier_usage import known_talks, turns_to_build
from schemas.dialog import Context, Role, Turn
from tasks.benchmarks.contract import Staged
from tasks.planning import plan as planning
from tasks.planning.plan import RunPlan, plan_run
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
from tasks.storage.home import Home
from tasks.storage.paid_calls import TalkAnswers
from tests.tasks.benchmarks.unidial.played import sample

N_ROUNDS = 50


def plan(
    home: Path, agent: str | None = "hipporag", temperature: float = 0.0, samples: int = 1
) -> RunPlan:
    model = ModelRequest(spec="openai:m", revision="1", agent=agent, temperature=temperature)
    asked = BenchmarkRequest(name="unidial.locomo", dataset_version="sample", samples=samples)
    vectors = ModelRequest(spec="openai:e", revision="1")
    return plan_run(EvaluationRequest(model=model, benchmark=asked, embedder=vectors), Home(home))


@pytest.fixture(autouse=True)
def _long_talk(monkeypatch: pytest.MonkeyPatch) -> None:
    """LoCoMo's questions of the sample, after a talk of fifty rounds; the first of them after ten
    rounds of it.
    """
    said = tuple(
        Turn(turn=n // 2 + 1, role=(Role.USER, Role.ASSISTANT)[n % 2], content="x" * 400)
        for n in range(2 * N_ROUNDS)
    )
    context = Context.of("unidial", "sample", said)
    dialogs = [one for one in sample().dialogs if one.dialog_id.startswith("locomo/")]
    turns = [20, *(len(said) for _ in dialogs[1:])]
    after = [
        one.model_copy(update={"context_id": context.context_id, "context_turns": n})
        for one, n in zip(dialogs, turns, strict=True)
    ]
    staged = Staged(tuple(after), sample().problems, (), len(sample().problems), (context,))
    monkeypatch.setattr(planning, "resolved_data", lambda *_: staged)


def test_each_turn_of_a_talk_is_counted_for_the_first_dialogue_that_needs_it(
    tmp_path: Path,
) -> None:
    made = plan(tmp_path)
    assert list(turns_to_build(made, made.pending(), {}).values()) == [20, 80, 0, 0]
    assert turns_to_build(plan(tmp_path, None), made.pending(), {}) == {}


def test_a_dry_run_counts_the_talk_once(tmp_path: Path) -> None:
    """Three requests for an answer of HippoRAG's, and one for each round of the talk."""
    found = estimate(plan(tmp_path))
    assert found.calls == 4 * 3 + N_ROUNDS
    talk = 2 * N_ROUNDS * 400 // 4
    alone = estimate(plan(tmp_path, None))
    assert found.input_tokens == pytest.approx(3 * alone.input_tokens + talk, rel=0.01)


def test_a_memory_that_is_built_costs_nothing_more(tmp_path: Path) -> None:
    made = plan(tmp_path)
    answers = TalkAnswers(made.home.talk_answers(made.spec))
    answers.mark_built(made.dialog(made.pending()[1]).context_id or "", 60)
    assert estimate(made).calls == 4 * 3 + N_ROUNDS - 30
    answers.mark_built(made.dialog(made.pending()[1]).context_id or "", 100)
    answers.close()
    assert estimate(made).calls == 4 * 3
    assert len(known_talks(made)) == 1
    other = plan(tmp_path, "a-mem")
    assert known_talks(other) == {}, "another agent has a memory of its own"


def test_samples_share_a_memory_unless_answers_are_drawn(tmp_path: Path) -> None:
    assert estimate(plan(tmp_path, samples=2)).calls == 2 * 4 * 3 + N_ROUNDS
    assert estimate(plan(tmp_path, samples=2, temperature=0.5)).calls == 2 * (4 * 3 + N_ROUNDS)
