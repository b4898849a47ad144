"""Shell whose working directory and exported variables last from one command to the next.

A file beside the tree stores them. The shell writes it at its end, also after `exit` or an error. A
shell that is killed, runs out of time or becomes another program leaves the file unchanged. Shell
variables that are not exported, functions and options do not last.
"""

from sandbox.workspace.interface import SHELL_PLACE

_PRELUDE = r"""
__parley_save() {
  { builtin set +exuC; } 2>/dev/null
  builtin export -n SHLVL PARLEY_REPORT_FD OLDPWD
  { builtin export -p; builtin printf 'builtin cd -- %q 2>/dev/null\n' "$PWD"; } >|{shell}/.fresh &&
    builtin command -p mv -f {shell}/.fresh {shell}/state
}
builtin trap __parley_save EXIT
[ -r {shell}/state ] && . {shell}/state
""".replace("{shell}", SHELL_PLACE)
_SCRIPT = (
    'builtin cd -- "$1"; builtin eval "$2"; __parley_command=$3; builtin set --; '
    'builtin eval "$__parley_command"; '
    '__parley_status=$?; __parley_save; builtin exit "$__parley_status"'
)
"""Script of one line, so that the shell's messages count the command's own lines from 1."""


def shell_argv(command: str, place: str) -> tuple[str, ...]:
    """Return the command that runs `command` in a shell, in the state that the last shell left.

    Args:
        command: text of the command.
        place: folder in which the first command starts, and each later one whose folder is gone.
    """
    return ("/bin/bash", "-c", _SCRIPT, "bash", place, _PRELUDE, command)
