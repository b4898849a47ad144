"""Participants of a dialogue: the model under test and a user (CodeIF-Bench section 3.1).

The user follows a script, or reviews each answer by the reports of the tests.
"""

from functools import partial

from schemas.dialog import Dialog, HistoryPolicy, Role
from schemas.problem import BASE_INSTRUCTION
from tasks.benchmarks.codeif.programs import reviews, wanted_programs
from tasks.benchmarks.codeif.repository import context_from, within_budget
from tasks.benchmarks.codeif.settings import (
    CONTEXT_TOKENS,
    DYNAMIC,
    HISTORY,
    PROMPTS,
    REVIEW_PROMPTS,
    SETTINGS,
    most_rounds,
    reviewed_instructions,
)
from tasks.benchmarks.setting import CastRequest, Options, scripted_cast
from tasks.dialogue.engine import Cast
from tasks.dialogue.reviewed_subject import InstructionReviewer, ReviewedSubject
from tasks.language.prompt import fill


def cast(request: CastRequest) -> Cast:
    """Return the participants of a setting.

    A scripted user has access to the dialog's texts, but not to tests or reference code. A reviewer
    also reads the reports of the tests.
    """
    if request.setting == DYNAMIC:
        return _dynamic(request)
    history = history_of(request.dialog, request.options) or SETTINGS[request.setting].history
    return scripted_cast(
        request.subject_participant(history), planned_texts(request.dialog, request.options)
    )


def history_of(dialog: Dialog, options: Options) -> HistoryPolicy | None:
    """Return the history that an option selects; None if the setting has no such option."""
    return HistoryPolicy(options[HISTORY]) if HISTORY in options else None


def _dynamic(request: CastRequest) -> Cast:
    ids = request.dialog.instruction_ids
    texts = dict(zip(ids, planned_texts(request.dialog, request.options), strict=True))
    instructions = reviewed_instructions(ids)
    subject = ReviewedSubject(
        chat=request.subject_participant(),
        programs=request.programs,
        programs_of=lambda _, answer: wanted_programs(
            request.problem, request.dialog, instructions, answer, request.options
        ),
    )
    reviewer = InstructionReviewer(
        instructions=instructions,
        read=partial(reviews, request.problem, request.dialog, instructions),
        ask=texts.__getitem__,
        complain=partial(_feedback, texts),
    )
    return Cast(subject=subject, counterpart=reviewer, max_turns=most_rounds(ids))


def _feedback(texts: dict[str, str], instruction_id: str, output: str) -> str:
    return fill(
        REVIEW_PROMPTS["feedback"], requirement=texts[instruction_id], output=output or "no output"
    )


def planned_texts(dialog: Dialog, options: Options) -> tuple[str, ...]:
    """Return the user's messages in order, with contexts cut to the option `context_tokens`."""
    limit = options.get(CONTEXT_TOKENS, "all")
    return user_texts(dialog, None if limit == "all" else int(limit))


def user_texts(dialog: Dialog, context_tokens: int | None = None) -> tuple[str, ...]:
    """Return the user's messages in order.

    Args:
        dialog: the staged dialog.
        context_tokens: maximum tokens of the golden contexts in the first message; None for no
            limit.
    """
    return tuple(
        fill(
            PROMPTS["base"],
            task=within_budget(turn.content or "", context_from(dialog), context_tokens),
        )
        if turn.instruction_id == BASE_INSTRUCTION
        else fill(PROMPTS["follow_up"], requirement=turn.content or "")
        for turn in dialog.turns
        if turn.role is Role.USER
    )
