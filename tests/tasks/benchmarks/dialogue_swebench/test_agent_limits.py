"""Limits of an agent: malformed calls, a full context, its steps, and files of other encodings."""

from pathlib import Path

import pytest

from schemas.dialog import Role
from schemas.episode import StepKind, StopReason, ToolCall
from tasks.benchmarks.contract import Staged
from tasks.dialogue.agents.repository.labels import (
    CONTEXT,
    DROPPED,
    ENDED,
    n_answers,
)
from tasks.language.chat_model import ChatRequest, Completion
from tasks.storage.files.git_repositories import run_git
from tasks.storage.home import Home
from tests.tasks.benchmarks.dialogue_swebench.graded import (
    LEDGER,
)
from tests.tasks.benchmarks.dialogue_swebench.played import (
    Play,
    Scripted,
    calls,
    says,
)
from tests.tasks.benchmarks.dialogue_swebench.test_agents import ending_turns, patch_in
from tests.tasks.benchmarks.dialogue_swebench.test_agents import home as home
from tests.tasks.benchmarks.dialogue_swebench.test_agents import staged as staged


def raw_call(name: str, arguments: str) -> Completion:
    return Completion(
        content="",
        finish_reason="tool_calls",
        calls=(ToolCall(call_id="c", name=name, arguments=arguments),),
    )


MALFORMED_CALLS = {
    "arguments that are cut off": (
        raw_call("bash", '{"command": "ls'),
        "Error: the arguments of bash are no JSON (Unterminated",
    ),
    "arguments that are a list": (
        raw_call("bash", '["ls"]'),
        "Error: the arguments of bash are a list, not an object",
    ),
    "no arguments": (raw_call("bash", ""), "Error: bash needs command, a text; got nothing"),
    "no name": (
        raw_call("unreadable", "{}"),
        "Error: the call names no tool or is no JSON; there are bash, edit_file",
    ),
    "a call in the text that is cut off": (
        says('I look.\n<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}'),
        "[Your answer holds a tool call that could not be read: it is no valid JSON (Expecting",
    ),
    "a call in the text": (
        says('<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>'),
        "[Your answer holds a tool call that could not be read: it stands in the answer's text.",
    ),
    "a call in XML": (
        says("<function=bash>\n<parameter=command>\nls\n</function>"),
        "[Your answer holds a tool call that could not be read: it holds no JSON object.",
    ),
}


@pytest.mark.parametrize("name", MALFORMED_CALLS)
def test_a_malformed_call_costs_one_step_and_is_answered_by_what_is_wrong(
    home: Home, staged: Staged, name: str
):
    answer, wrong = MALFORMED_CALLS[name]
    subject = Scripted([answer, calls(("finish", {}))])
    ending = Play(home, staged, LEDGER)(subject, Scripted([says("-")]))
    assert (ending.stop_reason, n_answers(ending.steps)) == (StopReason.FINISHED, 2)
    assert ending_turns(ending) == 1, "the user gets the last words alone"
    told = subject.asked[1].messages
    assert told[-1].content.startswith(wrong)
    assert (told[-2].role, told[-2].content, len(told)) == (Role.ASSISTANT, answer.content, 4)


@pytest.mark.slow
def test_a_full_context_leaves_out_old_observations_for_good(home: Home, staged: Staged):
    """One refused request in the whole dialogue: later prompts are no larger than one that fitted."""

    def answer(request: ChatRequest) -> Completion:
        if sum(len(message.content) for message in request.messages) > 26_000:
            return Completion(content="", finish_reason="context_length")
        return calls(("bash", {"command": "seq 1 900"}))

    subject = Scripted([answer])
    play = Play(home, staged, LEDGER, options={"steps": "24"})
    ending = play(subject, Scripted([says("-")]))
    assert ending.stop_reason is StopReason.TURN_LIMIT
    answers = [step for step in ending.steps if step.kind is StepKind.TOOL_CALL]
    assert [step.n_calls for step in answers].count(2) == 1
    assert (len(answers), len(subject.asked)) == (24, 25)
    dropped = [int(dict(step.labels).get(DROPPED, "0")) for step in answers]
    assert dropped == sorted(dropped)
    assert len(set(dropped)) > 2
    shown = [
        sum(m.role is Role.TOOL and "left out since" in m.content for m in request.messages)
        for request in subject.asked
    ]
    assert shown == sorted(shown), "what was left out stays out"
    cut = ending.steps[: next(n for n, step in enumerate(ending.steps) if step is answers[12]) + 1]
    again = Scripted([answer])
    resumed = play(again, Scripted([says("-")]), steps=cut)
    assert len(again.asked) == 11, "a dialogue that is taken up knows its room"
    assert [step.labels for step in resumed.steps] == [step.labels for step in ending.steps]


def test_a_context_that_nothing_shortens_ends_the_work_without_asking_again(
    home: Home, staged: Staged
):
    def answer(request: ChatRequest) -> Completion:
        if len(request.messages) > 4:
            return Completion(content="", finish_reason="context_length", n_calls=1)
        return calls(("bash", {"command": "echo x > new.txt"}))

    subject = Scripted([answer])
    ending = Play(home, staged, LEDGER)(subject, Scripted([says("-")]))
    assert ending.stop_reason is StopReason.TURN_LIMIT
    assert dict(ending.steps[-1].labels) == {ENDED: CONTEXT}
    assert "+++ b/new.txt" in patch_in(ending.steps), "what stands there is graded"
    artifact = next(step for step in ending.steps if step.kind is StepKind.ARTIFACT)
    in_vain = [request for request in subject.asked if len(request.messages) > 4]
    assert artifact.n_calls == len(in_vain) > 1, "each request is counted, and none is made twice"
    assert len({tuple(request.messages) for request in in_vain}) == len(in_vain)


def test_an_agent_is_told_how_many_steps_it_has(home: Home, staged: Staged):
    subject = Scripted([calls(("finish", {}))])
    Play(home, staged, LEDGER, options={"steps": "7"})(subject, Scripted([says("-")]))
    assert "You have 7 steps;" in subject.asked[0].messages[0].content


def test_a_file_of_another_encoding_is_changed_byte_by_byte(
    home: Home, staged: Staged, tmp_path: Path
):
    """The patch is a text of UTF-8, whatever the file is."""
    write = r"printf 'caf\351 \377\n' > latin.txt; printf '*.txt text diff=x\n' > .gitattributes; mkdir s; ln -s a s/link"
    ending = Play(home, staged, LEDGER)(
        Scripted([calls(("bash", {"command": write})), calls(("finish", {}))]),
        Scripted([says("-")]),
    )
    patch = patch_in(ending.steps)
    assert patch.isascii()
    run_git(tmp_path, "init", "--quiet")
    run_git(tmp_path, "apply", "-", stdin=patch.encode())
    assert (tmp_path / "latin.txt").read_bytes() == b"caf\xe9 \xff\n"
