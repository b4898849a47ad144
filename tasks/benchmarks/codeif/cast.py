"""Who sits where: a scripted user and a chat subject (CodeIF-Bench section 3.1, static conversation)."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files

from schemas.dialog import Dialog, HistoryPolicy, Role
from schemas.errors import UnknownName
from schemas.problem import BASE_INSTRUCTION
from tasks.benchmarks.contract import Cast, CastRequest
from tasks.dialogue.chat_subject import ChatSubject
from tasks.dialogue.scripted_user import ScriptedUser

STATIC = "static"
HISTORY = "history"
_HEADER = re.compile(r"\A<!--.*?-->\s*", re.DOTALL)


class _PromptTexts(Mapping[str, str]):
    """The prompt files by name, read when first asked for."""

    _names = ("base", "follow_up")

    def __getitem__(self, name: str) -> str:
        if name not in self._names:
            raise KeyError(name)
        return _read(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


PROMPTS: Mapping[str, str] = _PromptTexts()


@cache
def _read(name: str) -> str:
    return files("tasks.benchmarks.codeif").joinpath("prompts", f"{name}.md").read_text(encoding="utf-8")


def _render(name: str, **values: str) -> str:
    """A prompt with its values, without the header and the file's last line break."""
    return _HEADER.sub("", PROMPTS[name]).removesuffix("\n").format(**values)


def cast(request: CastRequest) -> Cast:
    """The seats of a setting.

    The user knows the dialog's texts only: neither tests nor reference code.

    Raises:
        UnknownName: a setting this benchmark does not have.
    """
    if request.setting != STATIC:
        raise UnknownName("setting", f"codeif.{request.setting}", (f"codeif.{STATIC}",))
    texts = user_texts(request.dialog)
    return Cast(
        subject=ChatSubject(request.subject, request.sampling, HistoryPolicy(request.options[HISTORY])),
        counterpart=ScriptedUser(texts),
        # One more than there are texts, so that the user ends the dialogue and not the limit.
        max_turns=len(texts) + 1,
    )


def user_texts(dialog: Dialog) -> tuple[str, ...]:
    """What the user says, round by round."""
    return tuple(
        _render("base", task=turn.content or "")
        if turn.instruction_id == BASE_INSTRUCTION
        else _render("follow_up", requirement=turn.content or "")
        for turn in dialog.turns
        if turn.role is Role.USER
    )
