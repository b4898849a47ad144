"""Shell whose working directory and exported variables persist from one command to the next.

A file outside the tree stores them. The shell writes the file when it ends, also after `exit` or an
error. A shell that is killed, exceeds a limit or replaces itself by another program (`exec`) leaves
the file unchanged. Functions, options, and variables that are not exported do not persist.
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
"""Script in one line, so that line numbers in the shell's messages are those of the command."""


def shell_argv(command: str, place: str) -> tuple[str, ...]:
    """Return the command that runs `command` in a shell, in the state that the last shell left.

    Args:
        command: text of the command.
        place: folder in which the first command starts, and later commands if their folder no
            longer exists.
    """
    return ("/bin/bash", "-c", _SCRIPT, "bash", place, _PRELUDE, command)
