"""Who sits where: a scripted user and the run's subject (CodeIF-Bench section 3.1, static conversation)."""

from schemas.dialog import Dialog, HistoryPolicy, Role
from schemas.errors import UnknownName
from schemas.problem import BASE_INSTRUCTION
from tasks.benchmarks.play import CastRequest
from tasks.dialogue.scripted_user import ScriptedUser
from tasks.dialogue.seats import Cast
from tasks.language.prompt import PromptTexts, fill

STATIC = "static"
HISTORY = "history"
PROMPT_NAMES = ("base", "follow_up")
PROMPTS = PromptTexts("tasks.benchmarks.codeif", PROMPT_NAMES)


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
        subject=request.subject_seat(HistoryPolicy(request.options[HISTORY])),
        counterpart=ScriptedUser(texts),
        # One more than there are texts, so that the user ends the dialogue and not the limit.
        max_turns=len(texts) + 1,
    )


def user_texts(dialog: Dialog) -> tuple[str, ...]:
    """What the user says, round by round."""
    return tuple(
        fill(PROMPTS["base"], task=turn.content or "")
        if turn.instruction_id == BASE_INSTRUCTION
        else fill(PROMPTS["follow_up"], requirement=turn.content or "")
        for turn in dialog.turns
        if turn.role is Role.USER
    )
