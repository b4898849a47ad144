"""Who sits where: the data's own user, and the model under test, which sees golden answers or its own, as each dialogue says."""

from dataclasses import replace

from schemas.dialog import HistoryPolicy, Role
from tasks.benchmarks.play import CastRequest
from tasks.benchmarks.unidial.convert import REFERENCE_HISTORY, labels_of
from tasks.benchmarks.unidial.datasets import DATASETS
from tasks.dialogue.scripted_user import ScriptedUser
from tasks.dialogue.seats import Cast

MOST_TOKENS = 1024
"""Of one answer, where the setting's dataset says nothing else (section 3.2)."""


def cast(request: CastRequest) -> Cast:
    """The seats of one dialogue. Fewer tokens may be asked for, never more than the paper allows."""
    dataset = DATASETS.get(request.setting)
    most = dataset.max_tokens if dataset else MOST_TOKENS
    sampling = request.sampling.model_copy(update={"max_tokens": min(most, request.sampling.max_tokens or most)})
    shows_golden = labels_of(request.dialog)[REFERENCE_HISTORY]
    history = HistoryPolicy.REFERENCE if shows_golden else HistoryPolicy.ON_POLICY
    texts = tuple(turn.content or "" for turn in request.dialog.turns if turn.role is Role.USER)
    return Cast(
        subject=replace(request, sampling=sampling).subject_seat(history),
        counterpart=ScriptedUser(texts),
        # One more than there are texts, so that the user ends the dialogue and not the limit.
        max_turns=len(texts) + 1,
    )
