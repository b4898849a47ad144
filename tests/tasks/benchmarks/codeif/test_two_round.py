"""The two-round design: the base task, then one instruction, each on its own (section 5.3)."""

from schemas.episode import StepKind
from schemas.verdict import Outcome
from tasks.benchmarks.codeif import BENCHMARK
from tasks.benchmarks.codeif.settings import TWO_ROUND
from tests.tasks.benchmarks.codeif.dialogues import episode_of, sample, scores_of, verdicts_of
from tests.tasks.benchmarks.codeif.test_cast import play, shown


def test_each_instruction_follows_the_base_round_and_nothing_else() -> None:
    ending, model, texts = play({}, TWO_ROUND)
    assert shown(model, 1) == [("user", texts[0])]
    for turn in range(2, len(texts) + 1):
        assert shown(model, turn) == [
            ("user", texts[0]),
            ("assistant", "answer 1"),
            ("user", texts[turn - 1]),
        ]
    assert all(step.kind is StepKind.MESSAGE for step in ending.steps)


def test_an_answer_is_held_to_its_own_instruction_alone() -> None:
    problem, dialog = sample().problems[0], sample().dialogs[0]
    names = dialog.instruction_ids
    episode = episode_of(problem, dialog, ["x"] * len(names), setting=TWO_ROUND)
    runs = BENCHMARK.programs.test_runs(problem, dialog, episode, {})
    assert [(run.turn, run.instruction_id) for run in runs] == list(enumerate(names, 1))
    failing = names[2]
    verdicts = verdicts_of(
        episode,
        runs,
        lambda run: Outcome.FAILED if run.instruction_id == failing else Outcome.PASSED,
    )
    scores = scores_of(problem, dialog, episode, verdicts)
    assert {score.metric for score in scores} == {"instruction_accuracy"}
    assert {score.instruction_id: score.value for score in scores} == {
        name: float(name != failing) for name in names
    }
