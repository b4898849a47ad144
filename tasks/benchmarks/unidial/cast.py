"""Participants: the data's user, and the model under test.

Each dialogue determines if the model sees golden answers or its own.
"""

from schemas.dialog import Dialog, HistoryPolicy
from tasks.benchmarks.setting import MOST_STEPS, CastRequest, Options, own_texts, scripted_cast
from tasks.benchmarks.unidial.convert import REFERENCE_HISTORY, label_of
from tasks.dialogue.engine import Cast

STEPS_A_MESSAGE = 2
"""Increase of an agent's step limit per message of a long context."""


def cast(request: CastRequest) -> Cast:
    """Return the participants of one dialogue."""
    return scripted_cast(
        request.subject_participant(history_of(request.dialog, request.options)),
        own_texts(request.dialog, request.options),
        MOST_STEPS + STEPS_A_MESSAGE * request.dialog.context_turns,
    )


def history_of(dialog: Dialog, options: Options) -> HistoryPolicy:
    """Return the history that the data name for a dialogue."""
    shows_golden = label_of(dialog, REFERENCE_HISTORY)
    return HistoryPolicy.REFERENCE if shows_golden else HistoryPolicy.ON_POLICY
