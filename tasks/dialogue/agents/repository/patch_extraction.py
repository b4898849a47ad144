"""Extraction of an agent's changes as a patch in UTF-8, without a changed byte.

git runs with a separate directory that shares the objects of the agent's repository. Settings,
filters and hooks of the agent's repository have no effect, and nothing in it is changed.
"""

from schemas.dialog import Role
from schemas.episode import Step, StepKind
from schemas.errors import SandboxUnavailable
from schemas.run import Limits
from tasks.dialogue.agents.repository.labels import ENDS, PATCH
from tasks.dialogue.agents.repository.tools import shortened
from tasks.dialogue.engine import Transcript
from tasks.dialogue.tools import DialogueWorkspace

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
