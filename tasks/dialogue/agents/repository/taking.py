"""Takes what an agent changed, as a patch that a journal of UTF-8 text can hold without a byte's change.

git works from a folder of its own with the objects of the agent's: no setting, filter or hook of the agent's folder counts, and
nothing in it is changed.
"""

from schemas.errors import SandboxUnavailable
from schemas.run import Limits
from tasks.dialogue.agents.repository.tools import shortened
from tasks.dialogue.workspaces import SeatWorkspace

_HISTORY_GONE = 3
_GIT_FAILED = 128
"""git's own word that it gave up. A status above it is a signal's, and 127 tells that there is no git."""
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
git --no-pager diff --cached --no-ext-diff --no-textconv --no-color --binary --full-index --src-prefix=a/ --dst-prefix=b/ "$base"
code=$?; rm -rf "$own"; exit $code
"""
_AS_TEXT, _AS_BYTES = "", "* -diff\n"
"""What the attributes say: as the project has it, or that no file is a text, so that git writes it in letters of ASCII."""
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


async def take_patch(workspace: SeatWorkspace, place: str = "/testbed") -> tuple[str, str]:
    """What was changed since the first commit, as a unified diff, and how that went: `git diff`, or why there is none.

    Where a changed line is not UTF-8, the diff is git's binary one: another encoding would be another patch.

    Raises:
        SandboxUnavailable: git is not there, ran out of time or memory, or was ended: no failure of the agent's.
    """
    patch, how = await _diff(workspace, place, _AS_TEXT)
    text = _text(patch)
    if text is None:
        patch, how = await _diff(workspace, place, _AS_BYTES)
        text = _text(patch)
    return (text, how) if text is not None else ("", "the target of a link is not UTF-8")


def _text(patch: bytes) -> str | None:
    """The patch, if it is UTF-8."""
    try:
        return patch.decode("utf-8")
    except UnicodeDecodeError:
        return None


async def _diff(workspace: SeatWorkspace, place: str, attributes: str) -> tuple[bytes, str]:
    ran = (
        await workspace.run(("/bin/sh", "-c", _SCRIPT, "sh", place, attributes), _LIMITS)
    ).completed
    said = shortened(ran.stderr.decode(errors="replace").strip(), 400)
    code = ran.exit_code
    if (
        ran.timed_out
        or ran.out_of_memory
        or ran.signal is not None
        or code is None
        or code == 127
        or code > _GIT_FAILED
    ):
        how = (
            "ran out of time"
            if ran.timed_out
            else f"ended with signal {ran.signal} or exit code {code}"
        )
        raise SandboxUnavailable(f"the patch could not be taken: git {how} ({said})")
    if code == _HISTORY_GONE:
        return b"", "the repository's history is gone"
    if code:
        return b"", f"git failed: {said}"
    if len(ran.stdout) >= _LIMITS.output_kb * 1024:
        return b"", f"the patch is larger than {_LIMITS.output_kb // 1024} MiB"
    return ran.stdout, "git diff --binary" if attributes else "git diff"
