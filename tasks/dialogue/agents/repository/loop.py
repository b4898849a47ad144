"""Loop of agents in a repository: the model answers and its tools run until the work ends.

If the answer that ends the work also sends a message, the message becomes part of the last one,
since no reply follows.

All state is derived from the steps, so a loop can resume where a killed one stopped.

The agent's changes are extracted as a patch in UTF-8, without a changed byte. git runs with a
separate directory that shares the objects of the agent's repository. Settings, filters and hooks of
the agent's repository have no effect, and nothing in it is changed.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from schemas.dialog import Role
from schemas.episode import Step, StepKind, ToolCall
from schemas.errors import SandboxUnavailable
from schemas.run import Limits, Sampling
from tasks.dialogue.agents.repository.conversation import (
    accepted_size,
    malformed,
    prompt_of,
    room_of,
)
from tasks.dialogue.agents.repository.labels import (
    CONTEXT,
    ENDED,
    ENDS,
    FINISHED,
    MALFORMED,
    PATCH,
    SENT_BY_TOOL,
    STEP_LIMIT,
    has_label,
    n_answers,
)
from tasks.dialogue.agents.repository.tools import (
    FINISH,
    MESSAGE_USER,
    Bash,
    EditFile,
    Finish,
    MessageUser,
    shortened,
)
from tasks.dialogue.chat_subject import answer_step, refusal_of
from tasks.dialogue.engine import Stop, Transcript
from tasks.dialogue.tools import DialogueWorkspace, Tool, observe
from tasks.language.chat_model import ChatModel, Completion

_HISTORY_GONE = 3
_GIT_FAILED = 128
"""Exit status of git's own errors. A higher status means a signal, and 127 that git is missing."""
_SCRIPT = r"""
command -v git >/dev/null || exit 127
own=/tmp/.parley-git
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_ATTR_NOSYSTEM=1 LC_ALL=C
base=$(git --git-dir="$1/.git" rev-list --max-parents=0 HEAD 2>/dev/null)
code=$?; [ $code -gt 128 ] && exit $code
base=$(printf '%s\n' "$base" | tail -n 1)
[ -n "$base" ] || exit 3
rm -rf "$own" && mkdir -p "$own/objects/info" "$own/refs" "$own/info" || exit 1
echo "ref: refs/heads/main" > "$own/HEAD"
printf '[core]\nrepositoryformatversion = 0\nbare = false\n' > "$own/config"
echo "$1/.git/objects" > "$own/objects/info/alternates"
printf '%s' "$2" > "$own/info/attributes"
export GIT_DIR="$own" GIT_WORK_TREE="$1"
cd "$1" && git read-tree "$base" && git add -A . &&
git --no-pager diff --cached --no-ext-diff --no-textconv --no-color --binary --full-index \
    --src-prefix=a/ --dst-prefix=b/ "$base"
code=$?; rm -rf "$own"; exit $code
"""
_AS_TEXT, _AS_BYTES = "", "* -diff\n"
"""Contents of the attributes file.

Empty: the project's own. `* -diff`: treat all files as binary, so git writes ASCII only.
"""
_LIMITS = Limits(
    cpu_s=600,
    wall_s=600,
    memory_mb=4096,
    processes=128,
    file_mb=128,
    tmp_mb=256,
    open_files=1024,
    output_kb=4096,
)


async def extract_patch(workspace: DialogueWorkspace) -> tuple[str, str]:
    """Return the changes since the first commit as a unified diff, and its origin or the failure.

    If a changed line is not UTF-8, the diff is git's binary one, since another encoding would
    change the patch.

    Args:
        workspace: Workspace of the agent.

    Raises:
        SandboxUnavailable: git is missing, ran out of time or memory, or was killed. The agent is
            not at fault.
    """
    patch, how = await _diff(workspace, _AS_TEXT)
    text = _text(patch)
    if text is None:
        patch, how = await _diff(workspace, _AS_BYTES)
        text = _text(patch)
    return (text, how) if text is not None else ("", "the target of a link is not UTF-8")


def _text(patch: bytes) -> str | None:
    """Return the patch as text, or None if it is not UTF-8."""
    try:
        return patch.decode("utf-8")
    except UnicodeDecodeError:
        return None


async def _diff(workspace: DialogueWorkspace, attributes: str) -> tuple[bytes, str]:
    result = (
        await workspace.run(("/bin/sh", "-c", _SCRIPT, "sh", "/testbed", attributes), _LIMITS)
    ).completed
    errors = shortened(result.stderr.decode(errors="replace").strip(), 400)
    code = result.exit_code
    if (
        result.timed_out
        or result.out_of_memory
        or result.signal is not None
        or code is None
        or code == 127
        or code > _GIT_FAILED
    ):
        how = (
            "ran out of time"
            if result.timed_out
            else f"ended with signal {result.signal} or exit code {code}"
        )
        raise SandboxUnavailable(f"the patch could not be extracted: git {how} ({errors})")
    if code == _HISTORY_GONE:
        return b"", "the repository's history is gone"
    if code:
        return b"", f"git failed: {errors}"
    if len(result.stdout) >= _LIMITS.output_kb * 1024:
        return b"", f"the patch is larger than {_LIMITS.output_kb // 1024} MiB"
    return result.stdout, "git diff --binary" if attributes else "git diff"


async def patch_step(
    workspace: DialogueWorkspace, transcript: Transcript, reason: str, refused: Step | None = None
) -> Step:
    """Return the patch as an artifact, with the reason for the end.

    Args:
        workspace: Workspace of the agent.
        transcript: Transcript so far.
        reason: Reason for the end, a value of the label ENDED.
        refused: Step of failed answers, whose requests count. None if there are none.
    """
    patch, how = await extract_patch(workspace)
    step = refused or Step(turn=transcript.turn, role=Role.ASSISTANT, content="")
    labels = ((PATCH, how), (ENDS, reason))
    return step.model_copy(update={"content": patch, "kind": StepKind.ARTIFACT, "labels": labels})


MOST_STEPS = 100
USUAL_STEPS = 50
"""Average answers of the model per dialogue (Dialogue-SWEBench Table 1: 50 to 61, four models)."""


@dataclass(frozen=True)
class RepositorySubject:
    """Subject of one dialogue that works in an open workspace."""

    model: ChatModel
    sampling: Sampling
    system: str
    workspace: DialogueWorkspace
    most_steps: int = MOST_STEPS

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Return the tools of the model."""
        return (Bash(self.workspace), EditFile(self.workspace), MessageUser(), Finish())

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """Return the next step: an answer of the model, a tool's result, the patch, or a message.

        Raises:
            ModelUnavailable: No usable answer after all retries.
            AnswerMissing: A recording does not have this answer.
            SandboxUnavailable: The workspace cannot be used.
        """
        if pending := transcript.pending_calls:
            return await observe(self.tools, pending[0], transcript.turn)
        if patch := next((step for step in transcript.turn_steps if has_label(step, PATCH)), None):
            return self._last_words(transcript, patch)
        if _is_fresh(transcript) and _calls_named(transcript, FINISH):
            return await patch_step(self.workspace, transcript, FINISHED)
        if (step := _message_of_calls(transcript)) is not None:
            return step
        if n_answers(transcript.steps) >= self.most_steps:
            return await patch_step(self.workspace, transcript, STEP_LIMIT)
        return await self._answer(transcript)

    def _last_words(self, transcript: Transcript, patch: Step) -> Step:
        """Return the last message: the text to the user at the end of the work."""
        messages = [
            _argument(call, "message")
            for name in (MESSAGE_USER, FINISH)
            for call in _calls_named(transcript, name)
        ]
        reason = dict(patch.labels)[ENDS]
        words = "\n\n".join(filter(None, messages)) if reason == FINISHED else ""
        return Step(
            turn=transcript.turn, role=Role.ASSISTANT, content=words, labels=((ENDED, reason),)
        )

    async def _answer(self, transcript: Transcript) -> Step | Stop:
        """Return the model's answer.

        If the context is full, leave out old observations permanently.
        """
        before = room = room_of(transcript.steps)
        answers: list[Completion] = []
        while True:
            prompt = prompt_of(self.system, transcript, room.n_dropped)
            if room.fits(prompt):
                tools = tuple(tool.spec for tool in self.tools)
                request = transcript.request(prompt.messages, self.sampling, tools=tools)
                answer = await self.model.complete(request)
                answers.append(answer)
                if answer.content or answer.calls or answer.finish_reason != "context_length":
                    break
                is_first = len(answers) == 1
                room = room.after_refusal(
                    prompt,
                    accepted_size(self.system, transcript, room.n_dropped)
                    if is_first
                    else prompt.size,
                )
            if not prompt.n_shown:
                refused = _step(transcript, answers)
                return await patch_step(self.workspace, transcript, CONTEXT, refused)
            room = room.with_fewer_observations(prompt)
        if refusal := refusal_of(answers[-1], self.model, transcript):
            return replace(refusal, n_calls=sum(answer.n_calls for answer in answers))
        step, labels = _step(transcript, answers), room.labels(before)
        if (why := malformed(answers[-1])) is not None:
            return step.model_copy(
                update={"kind": StepKind.ARTIFACT, "labels": (*labels, (MALFORMED, why))}
            )
        return step.model_copy(update={"labels": labels})


def _calls_named(transcript: Transcript, name: str) -> list[ToolCall]:
    """Return the executed calls of a tool in the round's last answer."""
    executed_ids = {
        step.call_id
        for step in transcript.turn_steps
        if step.kind is StepKind.OBSERVATION and not step.content.startswith("Error:")
    }
    last = next(
        (step for step in reversed(transcript.turn_steps) if step.kind is StepKind.TOOL_CALL), None
    )
    return [
        call
        for call in (last.calls if last else ())
        if call.name == name and call.call_id in executed_ids
    ]


def _is_fresh(transcript: Transcript) -> bool:
    """Return True if the round's last answer called tools and all calls have results."""
    answers = [step for step in transcript.turn_steps if step.kind is not StepKind.OBSERVATION]
    return bool(answers) and answers[-1].kind is StepKind.TOOL_CALL


def _message_of_calls(transcript: Transcript) -> Step | None:
    """Return the message that the round's last answer sends by its tool, or None."""
    if not _is_fresh(transcript) or not (calls := _calls_named(transcript, MESSAGE_USER)):
        return None
    text = "\n\n".join(_argument(call, "message") for call in calls)
    return Step(
        turn=transcript.turn,
        role=Role.ASSISTANT,
        content=text,
        labels=((SENT_BY_TOOL, MESSAGE_USER),),
    )


def _argument(call: ToolCall, name: str) -> str:
    arguments: Any = json.loads(call.arguments or "{}", strict=False)
    return str(arguments.get(name, ""))


def _step(transcript: Transcript, answers: Sequence[Completion]) -> Step:
    """Return the last of the answers as a step that counts the requests of all of them."""
    n_calls = sum(answer.n_calls for answer in answers)
    return answer_step(transcript, answers[-1], StepKind.MESSAGE, n_calls)
