"""Which patch a dialogue ended in, and when there is none whose fault that is."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from sandbox.interface import Completed
from sandbox.workspace.interface import CommandResult
from schemas.dialog import Role
from schemas.episode import Step, StepKind, StopReason
from schemas.errors import SandboxUnavailable
from schemas.run import Limits
from tasks.benchmarks.dialogue_swebench.stage import stage
from tasks.benchmarks.program_runs import diff_in, final_patch
from tasks.dialogue.agents.repository.labels import ENDED, FINISHED, PATCH
from tasks.dialogue.agents.repository.loop import extract_patch
from tasks.dialogue.engine import Ending
from tasks.dialogue.tools import DialogueWorkspace
from tests.tasks.benchmarks.dialogue_swebench.graded import SAMPLE
from tests.tasks.benchmarks.ended_episode import ended_episode


@dataclass
class Answering:
    """A workspace in which a command ends so."""

    completed: Completed

    async def run(
        self, argv: tuple[str, ...], limits: Limits | None = None, *, stdin: bytes = b""
    ) -> CommandResult:
        return CommandResult(self.completed, "tree")


@pytest.mark.parametrize(
    "completed",
    [
        Completed(exit_code=127),
        Completed(exit_code=137),
        Completed(exit_code=None, signal=9, out_of_memory=True),
        Completed(exit_code=None, signal=9, timed_out=True),
    ],
)
def test_a_patch_that_could_not_be_taken_is_no_empty_patch(completed: Completed):
    with pytest.raises(SandboxUnavailable, match="the patch could not be extracted"):
        asyncio.run(extract_patch(cast("DialogueWorkspace", Answering(completed))))


def test_what_the_agent_broke_is_its_own_doing():
    ends = (
        Completed(exit_code=3),
        Completed(exit_code=128, stderr=b"fatal: bad object"),
        Completed(exit_code=0, stdout=b"x" * (5 << 20)),
    )
    found = [asyncio.run(extract_patch(cast("DialogueWorkspace", Answering(end)))) for end in ends]
    assert [patch for patch, _ in found] == ["", "", ""]
    assert [how for _, how in found] == [
        "the repository's history is gone",
        "git failed: fatal: bad object",
        "the patch is larger than 4 MiB",
    ]


def test_what_stands_in_the_workspace_is_graded_and_not_what_is_said_of_it():
    said = "```diff\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n```"
    message = Step(turn=1, role=Role.ASSISTANT, content=said, labels=((ENDED, FINISHED),))
    left = Step(
        turn=1,
        role=Role.ASSISTANT,
        content="",
        kind=StepKind.ARTIFACT,
        labels=((PATCH, "git diff"),),
    )
    dialog = stage(SAMPLE, "sample").dialogs[0]
    patches = [
        final_patch(ended_episode("full", dialog, Ending(steps, StopReason.FINISHED)))
        for steps in ((left, message), (message,), ())
    ]
    assert patches == [(1, ""), (1, diff_in(said)), (1, None)]


def test_a_fence_within_a_diff_is_a_line_of_it(shared_data: Path):
    diff = "--- a/x.md\n+++ b/x.md\n@@ -1,3 +1,3 @@\n ```\n-a\n+b\n ```\n"
    assert diff_in(diff) == diff
    assert diff_in(f"So:\n```diff\n{diff}```\nDone.") == diff
    assert diff_in(f"So:\n~~~~\n{diff}~~~~\nDone.") == diff
    assert diff_in(f"````diff\r\n{diff}````\r\n") == diff
    real = stage(shared_data / "swebench_verified_mini" / "data.csv", "x").problems
    assert len(real) == 50
    for problem in real:
        assert problem.repo is not None
        for patch in (problem.reference_code, problem.repo.test_patch):
            assert diff_in(patch) == (patch if patch.endswith("\n") else f"{patch}\n"), (
                problem.problem_id
            )


def test_a_diff_is_found_in_an_answer_in_words():
    diff = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
    assert diff_in(diff) == diff
    assert diff_in(f"Here it is:\n```diff\n{diff}```\nDone.") == diff
    assert diff_in("no diff") is None
