"""Agents in a repository, played with given answers: they ask, fix, go on where they were cut off, and end at their limit."""

from itertools import pairwise
from pathlib import Path

import pytest

from schemas.dialog import Role
from schemas.episode import Step, StepKind, StopReason
from schemas.verdict import Outcome
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.dialogue_swebench.cast import MOST_EMPTY, TRIES
from tasks.benchmarks.dialogue_swebench.scoring import test_runs as programs_of
from tasks.benchmarks.dialogue_swebench.settings import MOST_REVIEW_TOKENS, MOST_TOKENS
from tasks.dialogue.agents.repository.labels import (
    ENDED,
    FINISHED,
    PATCH,
    STEP_LIMIT,
    n_answers,
)
from tasks.dialogue.engine import Ending
from tasks.dialogue.reviewed_subject import draft_note
from tasks.language.chat_model import ChatRequest, Completion
from tasks.storage.home import Home
from tests.tasks.benchmarks.dialogue_swebench.graded import (
    LEDGER,
    RETRIER,
    SLUGS,
    furnished_sample,
    grade,
)
from tests.tasks.benchmarks.dialogue_swebench.played import (
    NO_VIOLATION,
    Play,
    Scripted,
    calls,
    says,
)
from tests.tasks.benchmarks.ended_episode import ended_episode

OLD, NEW = "clock() - begun > deadline_s", "clock() - begun + pause > deadline_s"
FIX = {"command": "str_replace", "path": "src/retrier/core.py", "old_str": OLD, "new_str": NEW}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def staged(home: Home) -> Staged:
    return furnished_sample(home)


def patch_in(steps: tuple[Step, ...]) -> str:
    return next(step.content for step in steps if any(name == PATCH for name, _ in step.labels))


def observations(steps: tuple[Step, ...]) -> list[str]:
    return [step.content for step in steps if step.kind is StepKind.OBSERVATION]


@pytest.mark.slow
def test_an_agent_that_asks_once_and_then_fixes_the_bug_resolves_it(home: Home, staged: Staged):
    problem = next(one for one in staged.problems if one.problem_id == RETRIER)
    subject = Scripted(
        [
            calls(("bash", {"command": "cd src && export SEEN=yes && git log --oneline | wc -l"})),
            calls(("message_user", {"message": "After which pause should it give up?"})),
            calls(("bash", {"command": 'echo "$PWD $SEEN"'}), ("edit_file", FIX)),
            calls(("finish", {"message": "It looks at the clock before it waits now."})),
        ]
    )
    user = Scripted([says("Where the pause would end after the deadline."), says(NO_VIOLATION)])
    ending = Play(home, staged, RETRIER)(subject, user)
    assert ending.stop_reason is StopReason.FINISHED
    said = [step.content for step in ending.steps if step.kind is StepKind.MESSAGE]
    assert said[1:3] == [
        "After which pause should it give up?",
        "Where the pause would end after the deadline.",
    ]
    seen = observations(ending.steps)
    assert seen[0].startswith("1\n")
    assert seen[2].startswith("/testbed/src yes\n")
    shown = subject.asked[2].messages
    assert [m.content for m in shown if m.call_id == shown[-2].calls[0].call_id][-1] == said[2], (
        "the reply is the call's result"
    )
    episode = ended_episode(
        "full", next(d for d in staged.dialogs if d.problem_id == RETRIER), ending
    )
    (run,) = programs_of(
        problem, next(d for d in staged.dialogs if d.problem_id == RETRIER), episode, {}
    )
    assert run.code == patch_in(ending.steps)
    assert grade(home, problem, run.code or "").outcome is Outcome.PASSED


def test_the_simulated_user_never_sees_tests_or_patch(home: Home, staged: Staged):
    problem = next(one for one in staged.problems if one.problem_id == SLUGS)
    subject = Scripted(
        [says("Which headings are they?"), says("And after reset?"), calls(("finish", {}))]
    )
    user = Scripted(
        [
            says("Setup, Setup and Setup 1. I have just run it again."),
            says('{"violations": [{"kind": "ran_code", "why": "it says that it ran it"}]}'),
            says("Setup, Setup and Setup 1."),
            says("It should begin anew."),
            says(NO_VIOLATION),
        ]
    )
    ending = Play(home, staged, SLUGS)(subject, user)
    assert ending.stop_reason is StopReason.FINISHED
    replies = [
        step for step in ending.steps if step.kind is StepKind.MESSAGE and step.role is Role.USER
    ][1:]
    assert [reply.content for reply in replies] == [
        "Setup, Setup and Setup 1.",
        "It should begin anew.",
    ]
    assert [dict(reply.labels)["revised"] for reply in replies] == ["1", "0"]
    assert dict(replies[0].labels)["violations"] == "ran_code"
    notes = [draft_note(ending.steps, n) for n in range(len(ending.steps))]
    assert list(filter(None, notes)) == [
        "rejected draft: ran_code",
        "check of the draft",
        "draft, sent unchanged",
        "check of the draft",
    ]
    bounds = {
        "{" in request.messages[-1].content: request.sampling.max_tokens for request in user.asked
    }
    assert bounds == {False: MOST_TOKENS, True: MOST_REVIEW_TOKENS}, "they are not the subject's"
    assert problem.repo is not None
    hidden = [
        line[1:].strip()
        for text in (problem.reference_code, problem.repo.test_patch)
        for line in text.splitlines()
    ]
    told = {line for line in hidden if len(line) > 12 and line in user.prompts} - set(
        problem.prompt.splitlines()
    )
    assert told == set()
    assert problem.prompt.splitlines()[0] in user.prompts


def test_a_long_reply_is_revised_without_the_model_finding_it(home: Home, staged: Staged):
    subject = Scripted([says("Tell me more."), calls(("finish", {}))])
    user = Scripted([says("well " * 200), says(NO_VIOLATION), says("In short: the sign is lost.")])
    ending = Play(home, staged, LEDGER)(subject, user)
    reply = [
        step for step in ending.steps if step.kind is StepKind.MESSAGE and step.role is Role.USER
    ][-1]
    assert (reply.content, dict(reply.labels)["violations"]) == (
        "In short: the sign is lost.",
        "too_long",
    )


def test_without_revision_the_candidate_is_said(home: Home, staged: Staged):
    user = Scripted([says("I ran it myself.")])
    ending = Play(home, staged, LEDGER, setting="no_revision")(
        Scripted([says("Did you?"), calls(("finish", {}))]), user
    )
    assert [s.content for s in ending.steps if s.kind is StepKind.MESSAGE and s.role is Role.USER][
        1:
    ] == ["I ran it myself."]
    assert len(user.asked) == 1
    assert dict(ending.steps[3].labels) == {"violations_left": ""}, "nobody looked for more"


def test_a_check_that_cannot_be_read_is_no_clean_bill(home: Home, staged: Staged):
    user = Scripted([says("The sign is lost."), *[says("looks fine to me")] * TRIES])
    ending = Play(home, staged, LEDGER)(
        Scripted([says("Tell me more."), calls(("finish", {}))]), user
    )
    assert draft_note(ending.steps, 2) == "draft, sent without a readable check"
    reply = [
        step for step in ending.steps if step.kind is StepKind.MESSAGE and step.role is Role.USER
    ][-1]
    assert (reply.content, dict(reply.labels)) == (
        "The sign is lost.",
        {"reviewed": "unreadable", "violations_left": ""},
    )


def test_nobody_answers_after_the_first_query(home: Home, staged: Staged):
    ending = Play(home, staged, LEDGER, setting="first_query")(
        Scripted([says("Hello?"), calls(("finish", {}))])
    )
    said = [s.content for s in ending.steps if s.kind is StepKind.MESSAGE and s.role is Role.USER]
    assert said[1:] == ["the user is not available."]


def test_wrong_calls_are_answered_and_cost_a_step(home: Home, staged: Staged):
    subject = Scripted(
        [
            calls(("no_such_tool", {})),
            calls(("bash", {"cmd": "ls"})),
            calls(
                (
                    "edit_file",
                    {
                        "command": "str_replace",
                        "path": "ledger/amounts.py",
                        "old_str": "r",
                        "new_str": "x",
                    },
                )
            ),
            calls(("edit_file", {"command": "view", "path": "../../etc/passwd"})),
            calls(("edit_file", {"command": "create", "path": "a/new.py", "file_text": "1\n2\n"})),
            calls(
                (
                    "edit_file",
                    {"command": "insert", "path": "a/new.py", "insert_line": 1, "new_str": "x"},
                )
            ),
            calls(("edit_file", {"command": "view", "path": "a/new.py", "view_range": [2, -1]})),
            says(""),
            calls(("message_user", {"message": " "})),
        ]
    )
    ending = Play(home, staged, LEDGER, options={"steps": "9"})(subject, Scripted([says("-")]))
    seen = observations(ending.steps)
    assert [text.startswith("Error:") for text in seen] == [
        True,
        True,
        True,
        True,
        False,
        False,
        False,
        True,
    ]
    assert "stands" in seen[2]
    assert seen[6] == "     2\tx\n     3\t2"
    assert ending.stop_reason is StopReason.TURN_LIMIT
    assert dict(ending.steps[-1].labels) == {ENDED: STEP_LIMIT}
    assert len(subject.asked) == 9
    assert "+++ b/a/new.py" in patch_in(ending.steps), "what stands at the limit is graded"


def no_two_of_the_user_in_a_row(request: ChatRequest) -> bool:
    roles = [message.role for message in request.messages]
    return all(pair != (Role.USER, Role.USER) for pair in pairwise(roles))


def test_an_empty_answer_neither_ends_the_dialogue_nor_reaches_the_user(home: Home, staged: Staged):
    subject = Scripted(
        [
            says(""),
            says(" \n"),
            says("Which amounts are wrong?"),
            says(""),
            calls(("bash", {"command": "true"})),
            says(""),
            calls(("finish", {"message": "Done."})),
        ]
    )
    user = Scripted([says("Those in parentheses."), says(NO_VIOLATION)])
    ending = Play(home, staged, LEDGER)(subject, user)
    assert (ending.stop_reason, len(subject.asked)) == (StopReason.FINISHED, 7)
    assert n_answers(ending.steps) == 7, "each empty answer costs a step"
    said = [step.content for step in ending.steps if step.kind is StepKind.MESSAGE]
    assert said[1:] == ["Which amounts are wrong?", "Those in parentheses.", "Done."]
    assert all(map(no_two_of_the_user_in_a_row, subject.asked))
    notes = [draft_note(ending.steps, n) for n in range(len(ending.steps))]
    assert notes.count("rejected draft: an empty answer") == 4
    last = [
        request.messages[-1].content.removeprefix(said[0]).strip() for request in subject.asked[1:3]
    ]
    assert [text[:32] for text in last] == [
        "[Your answer is empty. Call a to",
        "[Your last 2 answers are empty. ",
    ]
    assert (
        subject.asked[4]
        .messages[-1]
        .content.startswith("Those in parentheses.\n\n[Your answer is empty.")
    )
    assert [message.role for message in subject.asked[6].messages[-2:]] == [Role.TOOL, Role.USER]


def test_a_subject_without_tools_goes_on_after_an_empty_answer(home: Home, staged: Staged):
    fix = "```diff\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n```"
    user = Scripted([says("Are you there?"), says(NO_VIOLATION)])
    ending = Play(home, staged, LEDGER, agent=None)(Scripted([says(""), says(fix)]), user)
    assert (ending.stop_reason, ending.steps[-1].content) == (StopReason.FINISHED, fix)
    silent = Play(home, staged, LEDGER, agent=None, setting="first_query")(Scripted([says("")]))
    assert (silent.stop_reason, ending_turns(silent)) == (StopReason.TURN_LIMIT, MOST_EMPTY)
    alone = Play(home, staged, LEDGER, agent=None)(Scripted([says("")]))
    assert (alone.stop_reason, ending_turns(alone)) == (StopReason.FINISHED, 1), (
        "nobody is there to go on with"
    )


def ending_turns(ending: Ending) -> int:
    return sum(
        step.role is Role.ASSISTANT and step.kind is StepKind.MESSAGE for step in ending.steps
    )


def test_an_answer_that_speaks_and_ends_ends(home: Home, staged: Staged):
    subject = Scripted(
        [calls(("message_user", {"message": "I mended it."}), ("finish", {"message": "Goodbye."}))]
    )
    ending = Play(home, staged, LEDGER)(subject, Scripted([says("-")]))
    assert (ending.stop_reason, len(subject.asked)) == (StopReason.FINISHED, 1)
    assert (ending.steps[-1].content, dict(ending.steps[-1].labels)) == (
        "I mended it.\n\nGoodbye.",
        {ENDED: FINISHED},
    )


class Killed(Exception):
    pass


@pytest.mark.slow
def test_killed_at_step_60_it_goes_on_at_61_in_the_same_tree(home: Home, staged: Staged):
    def command(request: ChatRequest) -> Completion:
        number = sum(bool(message.calls) for message in request.messages) + 1
        return calls(
            (
                "bash",
                {
                    "command": f"echo {number} >> notes.txt; mkdir -p d{number}; cd d{number}; cd ..; wc -l < notes.txt"
                },
            )
        )

    kept: list[Step] = []

    def keep(step: Step) -> None:
        kept.append(step)
        if sum(one.kind is StepKind.OBSERVATION for one in kept) == 60:
            raise Killed

    play = Play(home, staged, LEDGER, options={"steps": "62"})
    with pytest.raises(Killed):
        play(Scripted([command]), Scripted([says("-")]), keep=keep)
    again = Scripted([command])
    ending = play(again, Scripted([says("-")]), steps=tuple(kept))
    assert len(again.asked) == 2
    assert observations(ending.steps)[60].startswith("61\n")
    whole = play(Scripted([command]), Scripted([says("-")]))
    assert patch_in(ending.steps) == patch_in(whole.steps)
    assert [step.tree for step in ending.steps] == [step.tree for step in whole.steps]


def test_an_agent_s_tree_has_one_commit_and_nothing_else(
    home: Home, staged: Staged, tmp_path: Path
):
    ask = "git log --all --oneline | wc -l; git remote; git tag; git status --short; git fsck --unreachable; ls .git; git reflog"
    ending = Play(home, staged, SLUGS, options={"steps": "1"})(
        Scripted([calls(("bash", {"command": ask}))]), Scripted([says("-")])
    )
    lines = observations(ending.steps)[0].splitlines()
    assert lines[0] == "1"
    assert set(lines[1:-1]) == {"HEAD", "config", "index", "objects", "refs"}
