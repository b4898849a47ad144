"""The OpenHands SDK in the subject's seat: its own agent and prompts, our model, workspace and journal.

`PARLEY_OPENHANDS` names a Python (3.12 or newer) that has `openhands-sdk`; without it there is nothing to test with.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from schemas.dialog import Role
from schemas.episode import Step, StepKind, StopReason
from schemas.errors import SandboxUnavailable
from schemas.verdict import Outcome
from tasks.benchmarks.contract import Staged
from tasks.dialogue.agents.repository.labels import ENDED, FINISHED, PATCH, STEP_LIMIT
from tasks.dialogue.engine import Ending
from tasks.storage.home import Home
from tests.tasks.benchmarks.dialogue_swebench.graded import RETRIER, furnished_sample, grade
from tests.tasks.benchmarks.dialogue_swebench.played import NO_VIOLATION, Play, Scripted, calls, says

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.skipif(not os.environ.get("PARLEY_OPENHANDS"), reason="PARLEY_OPENHANDS names no Python with openhands-sdk"),
]
FIX = {
    "command": "str_replace",
    "path": "src/retrier/core.py",
    "old_str": "clock() - begun > deadline_s",
    "new_str": "clock() - begun + pause > deadline_s",
}
ANSWERS = (
    calls(("bash", {"command": "cd src && echo one >> /tmp/log && git log --oneline | wc -l"})),
    says("After which pause should it give up?"),
    calls(("bash", {"command": "pwd; echo two >> /tmp/log; cat /tmp/log"}), ("edit_file", FIX)),
    calls(("no_such_tool", {})),
    calls(("finish", {"message": "It looks at the clock before it waits now."})),
)
REPLIES = ("Where the pause would end after the deadline.", NO_VIOLATION)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def staged(home: Home) -> Staged:
    return furnished_sample(home)


def user() -> Scripted:
    return Scripted([says(text) for text in REPLIES])


def seen(steps: tuple[Step, ...]) -> list[str]:
    return [step.content for step in steps if step.kind is StepKind.OBSERVATION]


def patch_in(steps: tuple[Step, ...]) -> str:
    return next(step.content for step in steps if any(name == PATCH for name, _ in step.labels))


@dataclass(frozen=True)
class Played:
    """A dialogue that nothing cut off."""

    subject: Scripted
    ending: Ending


@pytest.fixture(scope="module")
def whole(home: Home, staged: Staged) -> Played:
    subject = Scripted(ANSWERS)
    return Played(subject, Play(home, staged, RETRIER, agent="openhands")(subject, user()))


def test_it_asks_works_and_ends_in_the_workspace(home: Home, staged: Staged, whole: Played):
    problem = next(one for one in staged.problems if one.problem_id == RETRIER)
    subject, ending = whole.subject, whole.ending
    assert (ending.stop_reason, ending.error) == (StopReason.FINISHED, None)
    said = [step.content for step in ending.steps if step.kind is StepKind.MESSAGE]
    assert said[1:] == ["After which pause should it give up?", REPLIES[0], "It looks at the clock before it waits now."]
    assert dict(ending.steps[-1].labels) == {ENDED: FINISHED}
    called = [call.call_id for step in ending.steps for call in step.calls]
    assert sorted(called) == sorted(step.call_id or "" for step in ending.steps if step.kind is StepKind.OBSERVATION)
    outputs = seen(ending.steps)
    assert outputs[0].startswith("1\n"), "the workspace's history has one commit"
    assert outputs[1].startswith("/testbed/src\none\ntwo\n"), "folder and files last"
    assert grade(home, problem, patch_in(ending.steps)).outcome is Outcome.PASSED
    assert len(subject.asked) == len(ANSWERS)
    first = subject.asked[0]
    assert {tool.name for tool in first.tools} == {"bash", "edit_file", "finish", "think"}, (
        "no tool of the SDK's reaches this machine"
    )
    assert "OpenHands" in first.messages[0].content
    assert "You have 100 steps" in next(message.content for message in first.messages if message.role is Role.USER)
    assert subject.asked[2].messages[-1].content == REPLIES[0]


class Killed(Exception):
    pass


@pytest.mark.parametrize("n_kept", [2, 6])
def test_killed_it_goes_on_from_its_steps(home: Home, staged: Staged, whole: Played, n_kept: int):
    play = Play(home, staged, RETRIER, agent="openhands")
    kept: list[Step] = []

    def keep(step: Step) -> None:
        kept.append(step)
        if len(kept) == n_kept:
            raise Killed

    with pytest.raises(Killed):
        play(Scripted(ANSWERS), user(), keep=keep)
    n_answers = sum(step.kind is StepKind.TOOL_CALL or ("spoke", "1") in step.labels for step in kept)
    n_replies = sum(step.role is Role.USER and step.kind is not StepKind.MESSAGE for step in kept)
    again = Scripted(ANSWERS[n_answers:])
    ending = play(again, Scripted([says(text) for text in REPLIES[n_replies:] or REPLIES]), steps=tuple(kept))
    assert len(again.asked) == len(ANSWERS) - n_answers, "no answer is asked for twice"
    assert [(step.role, step.kind, step.content, step.tree) for step in ending.steps] == [
        (step.role, step.kind, step.content, step.tree) for step in whole.ending.steps
    ]


def test_its_steps_are_bounded(home: Home, staged: Staged):
    subject = Scripted([calls(("bash", {"command": "echo x >> src/x.txt"}))])
    ending = Play(home, staged, RETRIER, agent="openhands", options={"steps": "3"})(subject, user())
    assert (len(subject.asked), dict(ending.steps[-1].labels)) == (3, {ENDED: STEP_LIMIT})
    assert "+++ b/src/x.txt" in patch_in(ending.steps)


def test_another_version_of_it_is_another_agent(home: Home, staged: Staged):
    ending = Play(home, staged, RETRIER, agent="openhands", options={"sdk": "0.1"})(Scripted(ANSWERS), user())
    assert ending.stop_reason is StopReason.INFRA
    assert "say --agent-option sdk=1" in (ending.error or "")


def test_where_the_sdk_is_not_there_the_dialogue_is_infra(
    home: Home, staged: Staged, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.delenv("PARLEY_OPENHANDS")
    with pytest.raises(SandboxUnavailable, match="name its Python by"):
        Play(home, staged, RETRIER, agent="openhands")(Scripted(ANSWERS), user())
    monkeypatch.setenv("PARLEY_OPENHANDS", str(tmp_path / "none"))
    with pytest.raises(SandboxUnavailable, match="cannot be started"):
        Play(home, staged, RETRIER, agent="openhands")(Scripted(ANSWERS), user())
