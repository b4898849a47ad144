"""Code that is refined turn by turn until it passes (ConvCodeWorld section 4.1).

Each metric is a pure function of one task's verdicts: `passed[t]` is True if the current code after
turn `t` passes the full test suite. Turns are counted as in the paper: turn 0 is the first answer,
before any feedback. A solved task is carried forward: its code stays the same in later turns.
Values are in [0, 1]; their means over tasks are the paper's figures.
"""

from collections.abc import Sequence

from tasks.metrics.registry import metric


def _check_turn(passed: Sequence[bool], turn: int) -> int:
    if not 0 <= turn < len(passed):
        raise ValueError(
            f"turn {turn} is outside 0..{len(passed) - 1}: turns are counted from 0, the answer"
            " before any feedback"
        )
    return turn


@metric("pass_at_1", version=1, title="pass@1")
def pass_at_1(passed: Sequence[bool], turn: int) -> float:
    """Return 1 if the current code after turn `turn` passes the full test suite, else 0.

    Args:
        passed: one per turn from 0, in order.
        turn: 0-based turn.

    Returns:
        1.0 or 0.0.

    Raises:
        ValueError: `turn` is outside 0..len(passed) - 1.

    Source: ConvCodeWorld section 4.1 (Pass@1 at each turn).
    """
    return float(passed[_check_turn(passed, turn)])


@metric("pass_at_1_upstream", version=1, title="pass@1 upstream")
def pass_at_1_upstream(passed: Sequence[bool], turn: int) -> float:
    """Return 1 if the code of turn `turn` or of turn 0 passes the full test suite, else 0.

    The published scripts count in this way. The value differs from `pass_at_1` only if turn 0
    solved the task and a later answer fails, which can happen in static replays.

    Args:
        passed: one per turn from 0, in order.
        turn: 0-based turn.

    Returns:
        1.0 or 0.0; the value can fall from one turn to the next.

    Raises:
        ValueError: `turn` is outside 0..len(passed) - 1.

    Source: ConvCodeWorld's published evaluation scripts; the paper's definition of Pass@1 has no
    credit for turn 0.
    """
    return float(passed[_check_turn(passed, turn)] or passed[0])


@metric("mrr", version=1, title="MRR")
def mrr(passed: Sequence[bool]) -> float:
    """Return the reciprocal rank of the first passing turn: 1 / (i + 1) for turn i, else 0.

    Args:
        passed: one per turn from 0 to the last, in order.

    Returns:
        Ratio in [0, 1]; the mean over tasks is the paper's MRR.

    Raises:
        ValueError: `passed` is empty.

    Source: ConvCodeWorld section 4.1 (Mean Reciprocal Rank).
    """
    _check_turn(passed, 0)
    return next((1 / rank for rank, solved in enumerate(passed, 1) if solved), 0.0)


@metric("mrr_upstream", version=1, title="MRR upstream")
def mrr_upstream(passed: Sequence[bool], credited_from: int | None) -> float:
    """Return the reciprocal rank by the rule of the published scripts.

    In a static replay, once the reference model's code of a turn has passed, the following turns
    are credited as passed without a request to the model. For such a credit the published scripts
    use the rank of the turn in which the reference passed, and `mrr` uses the rank of the first
    credited turn. Without credited turns both values are equal.

    Args:
        passed: one per turn from 0 to the last, in order; credited turns pass.
        credited_from: first credited turn, 1 and up; None if there is none.

    Returns:
        Ratio in [0, 1]; the mean over tasks is the value in the paper's tables 5, 11 and 12.

    Raises:
        ValueError: `passed` is empty, or a credited turn does not pass.

    Source: ConvCodeWorld's published evaluation scripts.
    """
    if credited_from is not None and (credited_from < 1 or not all(passed[credited_from:])):
        raise ValueError(
            f"credited_from is {credited_from}: credit begins at turn 1 or later, and all credited"
            " turns must pass"
        )
    reciprocal = mrr(passed)
    return (
        1 / credited_from
        if credited_from is not None and reciprocal == 1 / (credited_from + 1)
        else reciprocal
    )


@metric("recall", version=1, title="Recall")
def recall(passed: Sequence[bool]) -> float:
    """Return 1 if the code of any turn passes, else 0.

    Args:
        passed: one per turn from 0 to the last, in order.

    Returns:
        1.0 or 0.0.

    Raises:
        ValueError: `passed` is empty.

    Source: ConvCodeWorld section 4.1 (Recall).
    """
    _check_turn(passed, 0)
    return float(any(passed))
