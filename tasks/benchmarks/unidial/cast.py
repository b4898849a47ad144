"""Participants: the data's user, and the model under test.

Each dialogue determines if the model sees golden answers or its own.
"""

from schemas.dialog import Dialog, HistoryPolicy, Role
from tasks.benchmarks.setting import CastRequest, Options
from tasks.benchmarks.unidial.convert import REFERENCE_HISTORY, label_of
from tasks.dialogue.chat_subject import ScriptedUser
from tasks.dialogue.engine import Cast

MOST_STEPS, STEPS_A_MESSAGE = 100, 2
"""Step limit of an agent, and its increase per message of a long context."""


def cast(request: CastRequest) -> Cast:
    """Return the participants of one dialogue."""
    texts = tuple(turn.content or "" for turn in request.dialog.turns if turn.role is Role.USER)
    return Cast(
        subject=request.subject_participant(history_of(request.dialog, request.options)),
        counterpart=ScriptedUser(texts),
        # One more turn than texts, so that the user ends the dialogue and not the limit.
        max_turns=len(texts) + 1,
        max_steps=MOST_STEPS + STEPS_A_MESSAGE * request.dialog.context_turns,
    )


def history_of(dialog: Dialog, options: Options) -> HistoryPolicy:
    """Return the history that the data name for a dialogue."""
    shows_golden = label_of(dialog, REFERENCE_HISTORY)
    return HistoryPolicy.REFERENCE if shows_golden else HistoryPolicy.ON_POLICY
