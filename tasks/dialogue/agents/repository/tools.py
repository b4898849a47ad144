"""Tools of agents in a repository: a shell, an editor, messages to the user, the end of work."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.workspace.interface import TreeOverrun
from schemas.run import Limits
from tasks.dialogue.tools import DialogueWorkspace, ToolRefusal, ToolResult
from tasks.language.chat_model import ToolSpec

MESSAGE_USER, FINISH = "message_user", "finish"
SENT = "The message was sent; the user's reply follows."
_MOST_SHOWN = 16_000
_LONGEST_S, _USUAL_S = 600.0, 120.0
_SHELL_LIMITS = Limits(
    cpu_s=600,
    wall_s=_USUAL_S,
    memory_mb=2048,
    processes=128,
    file_mb=128,
    tmp_mb=256,
    open_files=1024,
    output_kb=64,
)


def shortened(text: str, most: int = _MOST_SHOWN) -> str:
    """Return the first and last characters of a long text, with a note between them."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


def text_of(arguments: Mapping[str, Any], name: str, tool: str) -> str:
    """Return an argument that must be a text. Raises ToolRefusal."""
    value = arguments.get(name)
    if not isinstance(value, str):
        raise ToolRefusal(
            f"{tool} needs {name}, a text;"
            f" got {'nothing' if value is None else type(value).__name__}"
        )
    return value


def _schema(required: tuple[str, ...], **properties: Any) -> Mapping[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def _text(description: str) -> Mapping[str, str]:
    return {"type": "string", "description": description}


@dataclass(frozen=True)
class Bash:
    """Tool that runs a command line. Working directory and exported variables persist.

    See `tasks.dialogue.tools.Tool`.
    """

    workspace: DialogueWorkspace
    spec = ToolSpec(
        "bash",
        "Runs a command line in bash, in the repository. The working directory and exported"
        " variables last from one command to the next; processes do not. There is no network. Long"
        " output is cut in the middle.",
        _schema(
            ("command",),
            command=_text("the command line"),
            timeout_s={
                "type": "number",
                "description": f"seconds that it may take, {_USUAL_S:g} unless told,"
                f" at most {_LONGEST_S:g}",
            },
        ),
    )

    async def run(self, arguments: Mapping[str, Any]) -> ToolResult:
        command = text_of(arguments, "command", "bash")
        if not command.strip() or "\0" in command:
            raise ToolRefusal("bash needs a command line")
        wall_s = arguments.get("timeout_s", _USUAL_S)
        if (
            isinstance(wall_s, bool)
            or not isinstance(wall_s, (int, float))
            or not 0 < wall_s <= _LONGEST_S
        ):
            raise ToolRefusal(
                f"timeout_s is {wall_s!r}: give seconds, above 0 and at most {_LONGEST_S:g}"
            )
        result = await self.workspace.shell(
            command, _SHELL_LIMITS.model_copy(update={"wall_s": float(wall_s)})
        )
        completed = result.completed
        output = (completed.stdout + completed.stderr).decode(errors="replace").rstrip("\n")
        end = (
            f"[exit code {completed.exit_code}]"
            if completed.signal is None
            else f"[ended by signal {completed.signal}]"
        )
        if completed.timed_out:
            end = f"[ended after {wall_s:g} s]"
        return ToolResult("\n".join(filter(None, (shortened(output), end))), result.tree)


@dataclass(frozen=True)
class EditFile:
    """Tool that shows, creates and changes text files. See `tasks.dialogue.tools.Tool`."""

    workspace: DialogueWorkspace
    spec = ToolSpec(
        "edit_file",
        "Shows or changes a text file of the repository. view: lines with their numbers. create: a"
        " new file, or another text for a file. str_replace: old_str, which must stand there"
        " exactly once, becomes new_str. insert: new_str goes behind a line.",
        _schema(
            ("command", "path"),
            command={"type": "string", "enum": ["view", "create", "str_replace", "insert"]},
            path=_text("path of the file in the repository"),
            file_text=_text("of create: the whole text"),
            old_str=_text("of str_replace: the text to replace"),
            new_str=_text("of str_replace and insert: the new text"),
            insert_line={
                "type": "integer",
                "description": "of insert: number of the line before it, 0 for the top",
            },
            view_range={
                "type": "array",
                "items": {"type": "integer"},
                "description": "of view: first and last line, -1 for the end",
            },
        ),
    )

    async def run(self, arguments: Mapping[str, Any]) -> ToolResult:
        command = text_of(arguments, "command", "edit_file")
        path = text_of(arguments, "path", "edit_file")
        if command == "create":
            return await self._write(path, text_of(arguments, "file_text", "create"), "written")
        if command not in ("view", "str_replace", "insert"):
            raise ToolRefusal(
                f"edit_file has no command {command!r}: give view, create, str_replace or insert"
            )
        text = await self._read(path)
        if command == "view":
            return ToolResult(_view(text, arguments.get("view_range")))
        if command == "insert":
            return await self._write(path, _insert(text, arguments), "inserted")
        old = text_of(arguments, "old_str", "str_replace")
        new = text_of(arguments, "new_str", "str_replace")
        count = text.count(old) if old else 0
        if count != 1:
            raise ToolRefusal(
                f"old_str stands {count} times in {path}; it must stand there once:"
                " give more lines around it"
            )
        return await self._write(path, text.replace(old, new), "replaced")

    async def _read(self, path: str) -> str:
        try:
            return (await self.workspace.read(path)).decode("utf-8")
        except UnicodeDecodeError:
            raise ToolRefusal(f"{path} is no text in UTF-8") from None
        except (ValueError, OSError) as error:
            raise ToolRefusal(f"{path} cannot be read: {_reason(error)}") from None

    async def _write(self, path: str, text: str, verb: str) -> ToolResult:
        try:
            await self.workspace.write(path, text.encode("utf-8", "replace"))
            return ToolResult(f"{path}: {verb}", await self.workspace.snapshot())
        except TreeOverrun as overrun:
            raise ToolRefusal(
                f"{path} cannot be written: the workspace would hold {overrun}"
            ) from None
        except (ValueError, OSError) as error:
            raise ToolRefusal(f"{path} cannot be written: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    return (
        error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    ) or type(error).__name__


def _view(text: str, line_range: Any) -> str:
    lines = text.splitlines()
    first, last = 1, len(lines)
    if line_range is not None:
        if not (
            isinstance(line_range, list)
            and len(line_range) == 2
            and all(type(number) is int for number in line_range)
        ):
            raise ToolRefusal(f"view_range is {line_range!r}: give first and last line")
        first, last = line_range[0], len(lines) if line_range[1] == -1 else line_range[1]
        if not 1 <= first <= last:
            raise ToolRefusal(
                f"view_range is {line_range!r}: lines are numbered from 1,"
                f" and the file has {len(lines)}"
            )
    return shortened(
        "\n".join(
            f"{number:6}\t{line}" for number, line in enumerate(lines[first - 1 : last], first)
        )
        or "(empty)"
    )


def _insert(text: str, arguments: Mapping[str, Any]) -> str:
    new, after = text_of(arguments, "new_str", "insert"), arguments.get("insert_line")
    lines = text.splitlines(keepends=True)
    if type(after) is not int or not 0 <= after <= len(lines):
        raise ToolRefusal(f"insert_line is {after!r}: give a number from 0 to {len(lines)}")
    if after and not lines[after - 1].endswith("\n"):
        lines[after - 1] += "\n"
    return "".join([*lines[:after], new if new.endswith("\n") else f"{new}\n", *lines[after:]])


@dataclass(frozen=True)
class MessageUser:
    """Tool that sends a message to the user. See `tasks.dialogue.tools.Tool`.

    The loop sends the message after all calls have results.
    """

    spec = ToolSpec(
        MESSAGE_USER,
        "Sends a message to the user, who asked for the work, and gives the reply.",
        _schema(("message",), message=_text("what to say")),
    )

    async def run(self, arguments: Mapping[str, Any]) -> ToolResult:
        if not text_of(arguments, "message", MESSAGE_USER).strip():
            raise ToolRefusal("message_user needs a message that says something")
        return ToolResult(SENT)


@dataclass(frozen=True)
class Finish:
    """Tool that ends the work.

    The loop then extracts the patch. See `tasks.dialogue.tools.Tool`.
    """

    spec = ToolSpec(
        FINISH,
        "Ends the work: what stands in the repository now is handed in, and the user reads your"
        " last words.",
        _schema((), message=_text("your last words to the user")),
    )

    async def run(self, arguments: Mapping[str, Any]) -> ToolResult:
        if "message" in arguments:
            text_of(arguments, "message", FINISH)
        return ToolResult("The work is handed in.")
