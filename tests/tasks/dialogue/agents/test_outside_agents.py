"""Agents of other projects as the subject: their own packages and prompts, our model,
workspace, user and journal.
"""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from schemas.dialog import Role
from schemas.episode import Step, StepKind, StopReason
from schemas.errors import SandboxUnavailable
from schemas.verdict import Outcome
from tasks.benchmarks.contract import Staged
from tasks.dialogue.agents.repository.labels import ENDED, FINISHED, PATCH, SENT_BY_TOOL, STEP_LIMIT
from tasks.dialogue.engine import Ending
from tasks.storage.home import Home
from tests.tasks.benchmarks.dialogue_swebench.graded import RETRIER, furnished_sample, grade
from tests.tasks.benchmarks.dialogue_swebench.played import Play, Scripted, calls
from tests.tasks.dialogue.agents.outside_scripts import (
    EACH,
    FURTHER,
    LAST_WORDS,
    MINI_SWE_AGENT,
    OPENHANDS,
    QUESTION,
    REPLIES,
    Script,
    needs,
    user,
)

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.usefixtures("bubblewrap")]
each = pytest.mark.parametrize("script", EACH)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def staged(home: Home) -> Staged:
    return furnished_sample(home)


@dataclass(frozen=True)
class Played:
    """A dialogue that nothing cut off."""

    subject: Scripted
    ending: Ending


@dataclass(frozen=True)
class Stage:
    """The sample, on which each script is played once."""

    home: Home
    staged: Staged
    known: dict[str, Played] = field(default_factory=dict[str, Played])

    def play(self, agent: str, options: dict[str, str] | None = None) -> Play:
        """Return a play of the instance."""
        return Play(self.home, self.staged, RETRIER, agent=agent, options=options)

    def whole(self, script: Script) -> Played:
        """Return the script's dialogue, which is played once."""
        if script.agent not in self.known:
            subject = Scripted(script.answers)
            self.known[script.agent] = Played(subject, self.play(script.agent)(subject, user()))
        return self.known[script.agent]


@pytest.fixture(scope="module")
def stage(home: Home, staged: Staged) -> Stage:
    return Stage(home, staged)


def results(steps: tuple[Step, ...]) -> list[str]:
    return [step.content for step in steps if step.kind is StepKind.OBSERVATION]


def patch_in(steps: tuple[Step, ...]) -> str:
    return next(step.content for step in steps if any(name == PATCH for name, _ in step.labels))


@each
def test_it_asks_works_and_ends_in_the_workspace(stage: Stage, script: Script) -> None:
    problem = next(one for one in stage.staged.problems if one.problem_id == RETRIER)
    ending = stage.whole(script).ending
    assert (ending.stop_reason, ending.error) == (StopReason.FINISHED, None)
    messages = [step for step in ending.steps if step.kind is StepKind.MESSAGE]
    assert [step.content for step in messages[1:]] == [
        QUESTION,
        REPLIES[0],
        FURTHER,
        REPLIES[1],
        LAST_WORDS,
    ]
    assert [dict(step.labels).get(SENT_BY_TOOL) for step in (messages[1], messages[3])] == [
        "message_user",
        script.agent,
    ]
    assert dict(ending.steps[-1].labels) == {ENDED: FINISHED}
    called = [call.call_id for step in ending.steps for call in step.calls]
    assert sorted(called) == sorted(
        step.call_id or "" for step in ending.steps if step.kind is StepKind.OBSERVATION
    )
    outputs = results(ending.steps)
    assert outputs[0] == script.first, "the workspace's history has one commit"
    assert any(text.startswith(f"{script.folder}\none\ntwo\n") for text in outputs), (
        "files last, the folder by the agent's rule"
    )
    assert any("no_such_tool" in text for text in outputs), (
        "a tool that is not there is said to be so"
    )
    assert grade(stage.home, problem, patch_in(ending.steps)).outcome is Outcome.PASSED


@each
def test_the_model_is_shown_its_prompt_its_tools_and_each_reply(
    stage: Stage, script: Script
) -> None:
    requests = stage.whole(script).subject.asked
    assert len(requests) == len(script.answers)
    first = requests[0]
    assert {tool.name for tool in first.tools} == script.tools, (
        "no tool of the agent's own reaches this machine"
    )
    assert script.prompt in "\n".join(message.content for message in first.messages)
    assert "You have 100 steps" in next(
        message.content for message in first.messages if message.role is Role.USER
    )
    result = next(
        message for message in reversed(requests[2].messages) if message.call_id == "c0_2"
    )
    assert result.content == REPLIES[0], "the reply is the result of the call that asked"
    last = requests[3].messages[-1]
    assert (last.role, last.content) == (Role.USER, REPLIES[1])


@each
def test_its_prompt_is_the_same_in_each_process(stage: Stage, script: Script) -> None:
    """A prompt with a path or a time of its own would be another request after a kill, and be paid
    for again.
    """
    subject = Scripted(script.answers)
    stage.play(script.agent, options={"steps": "1"})(subject, user())
    prompt = [
        message.content.replace("You have 1 steps", "You have 100 steps")
        for message in subject.asked[0].messages
    ]
    assert prompt == [message.content for message in stage.whole(script).subject.asked[0].messages]


class Killed(Exception):
    pass


@pytest.mark.parametrize(
    ("script", "n_kept"),
    [
        *(
            pytest.param(MINI_SWE_AGENT, n, marks=needs(MINI_SWE_AGENT.agent))
            for n in (2, 5, 8, 12)
        ),
        *(pytest.param(OPENHANDS, n, marks=needs(OPENHANDS.agent)) for n in (5, 12)),
    ],
)
def test_killed_it_resumes_from_its_steps(stage: Stage, script: Script, n_kept: int) -> None:
    play, whole = stage.play(script.agent), stage.whole(script)
    kept: list[Step] = []

    def keep(step: Step) -> None:
        kept.append(step)
        if len(kept) == n_kept:
            raise Killed

    with pytest.raises(Killed):
        play(Scripted(script.answers), user(), keep=keep)
    n_answers = sum(step.role is Role.ASSISTANT and step.input_tokens is not None for step in kept)
    n_before = sum(step.role is Role.USER and step.kind is StepKind.ARTIFACT for step in kept)
    again = Scripted(script.answers[n_answers:])
    ending = play(again, user(n_before), steps=tuple(kept))
    assert len(again.asked) == len(script.answers) - n_answers, "no answer is asked for twice"
    assert [(step.role, step.kind, step.content, step.tree) for step in ending.steps] == [
        (step.role, step.kind, step.content, step.tree) for step in whole.ending.steps
    ]


@each
def test_its_steps_are_bounded(stage: Stage, script: Script) -> None:
    subject = Scripted([calls(("bash", {"command": "echo x >> src/x.txt"}))])
    ending = stage.play(script.agent, options={"steps": "3"})(subject, user())
    assert (len(subject.asked), dict(ending.steps[-1].labels)) == (3, {ENDED: STEP_LIMIT})
    assert "+++ b/src/x.txt" in patch_in(ending.steps)


@each
def test_two_messages_of_an_answer_are_one_message_and_a_refusal(
    stage: Stage, script: Script
) -> None:
    asks = calls(("message_user", {"message": QUESTION}), ("message_user", {"message": FURTHER}))
    subject = Scripted((asks, script.answers[-1]))
    ending = stage.play(script.agent)(subject, user())
    messages = [step.content for step in ending.steps if step.kind is StepKind.MESSAGE]
    assert messages[1:] == [QUESTION, REPLIES[0], LAST_WORDS]
    seen = {
        message.call_id: message.content
        for message in subject.asked[1].messages
        if message.role is Role.TOOL
    }
    assert seen["c0"] == REPLIES[0]
    assert "one message" in seen["c1"]


@needs(OPENHANDS.agent)
def test_a_message_beside_the_end_belongs_to_the_last_words(stage: Stage) -> None:
    ends = calls(("finish", {"message": LAST_WORDS}), ("message_user", {"message": "Look at it."}))
    ending = stage.play(OPENHANDS.agent)(Scripted((ends,)), user())
    assert [step.content for step in ending.steps if step.kind is StepKind.MESSAGE][1:] == [
        f"{LAST_WORDS}\n\nLook at it."
    ]


@needs(MINI_SWE_AGENT.agent)
def test_a_failed_command_and_a_malformed_call_are_shown_to_mini_swe_agent(stage: Stage) -> None:
    answers = (
        calls(("bash", {"command": "echo out; echo err >&2; exit 3"})),
        calls(("bash", {"command": "kill -9 $$"})),
        calls(("message_user", {"text": "?"})),
        MINI_SWE_AGENT.answers[-1],
    )
    subject = Scripted(answers)
    ending = stage.play(MINI_SWE_AGENT.agent)(subject, user())
    shown = [request.messages[-1].content for request in subject.asked[1:]]
    assert '"returncode": 3' in shown[0]
    assert r"out\nerr" in shown[0]
    assert '"returncode": -9' in shown[1]
    assert "Bad 'message' argument" in shown[2]
    assert any("Bad 'message' argument" in text for text in results(ending.steps)), (
        "the journal says what was wrong"
    )
    assert ending.stop_reason is StopReason.FINISHED


@each
def test_another_version_of_it_is_another_agent(stage: Stage, script: Script) -> None:
    option = {"openhands": "sdk", "mini-swe-agent": "release"}[script.agent]
    ending = stage.play(script.agent, options={option: "0.1"})(Scripted(script.answers), user())
    assert ending.stop_reason is StopReason.INFRA
    assert f"give --agent-option {option}=" in (ending.error or "")


@each
def test_a_program_that_is_no_such_python_is_named(
    stage: Stage, script: Script, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    variable = f"PARLEY_{script.agent.upper().replace('-', '_')}"
    monkeypatch.setenv(variable, str(tmp_path / "none"))
    with pytest.raises(SandboxUnavailable, match=f"{variable}=.*there is no such program"):
        stage.play(script.agent)(Scripted(script.answers), user())
