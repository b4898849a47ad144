"""Code that is refined turn by turn until it passes (ConvCodeWorld section 4.1).

All are pure functions of one task's verdicts: `passed[t]` says whether the code held after turn `t` passes the full test suite.
Turns are the paper's: turn 0 is the first answer, before any feedback. A task that is solved is carried forward, so that its
later turns hold the code that solved it. Values are in [0, 1]; their means over tasks are the paper's figures.
"""

from collections.abc import Sequence

from tasks.metrics.registry import metric


def _checked(passed: Sequence[bool], turn: int) -> int:
    if not 0 <= turn < len(passed):
        raise ValueError(
            f"turn {turn} is outside 0..{len(passed) - 1}: turns are counted from 0, the answer before any feedback"
        )
    return turn


@metric("pass_at_1", version=1, title="pass@1")
def pass_at_1(passed: Sequence[bool], turn: int) -> float:
    """Whether the code held after turn `turn` passes the full test suite.

    Args:
        passed: one per turn from 0, in order.
        turn: 0-based turn.

    Returns:
        1.0 or 0.0.

    Raises:
        ValueError: `turn` is outside 0..len(passed) - 1.

    Source: ConvCodeWorld section 4.1 (Pass@1 at each turn).
    """
    return float(passed[_checked(passed, turn)])


@metric("pass_at_1_upstream", version=1, title="pass@1 upstream")
def pass_at_1_upstream(passed: Sequence[bool], turn: int) -> float:
    """Whether the code of turn `turn`, or that of turn 0, passes the full test suite: as the published scripts count.

    It differs from `pass_at_1` only where a task that turn 0 had solved is asked again and then lost, as in static replays.

    Args:
        passed: one per turn from 0, in order.
        turn: 0-based turn.

    Returns:
        1.0 or 0.0; from turn to turn it can fall.

    Raises:
        ValueError: `turn` is outside 0..len(passed) - 1.

    Source: ConvCodeWorld's published evaluation scripts; the paper defines Pass@1 without the second half.
    """
    return float(passed[_checked(passed, turn)] or passed[0])


@metric("mrr", version=1, title="MRR")
def mrr(passed: Sequence[bool]) -> float:
    """Reciprocal rank of the first turn whose code passes: 1 / (i + 1) for turn i, 0 where none does.

    Args:
        passed: one per turn from 0 to the last, in order.

    Returns:
        Ratio in [0, 1]; its mean over tasks is the paper's MRR.

    Raises:
        ValueError: there is no turn.

    Source: ConvCodeWorld section 4.1 (Mean Reciprocal Rank).
    """
    _checked(passed, 0)
    return next((1 / rank for rank, solved in enumerate(passed, 1) if solved), 0.0)


@metric("mrr_upstream", version=1, title="MRR upstream")
def mrr_upstream(passed: Sequence[bool], credited_from: int | None) -> float:
    """Reciprocal rank as the published scripts count it: credit through the reference has the rank of the turn before it.

    In a static replay a turn is credited, not asked, once the reference model's code of the turn before had passed. The published
    scripts give that credit the rank of the reference's own turn; `mrr` that of the turn at which the credit is given. Without
    credited turns both are equal.

    Args:
        passed: one per turn from 0 to the last, in order; credited turns pass.
        credited_from: the first credited turn, 1 and up; None where there is none.

    Returns:
        Ratio in [0, 1]; its mean over tasks is what the paper's tables 5, 11 and 12 show.

    Raises:
        ValueError: there is no turn, or a credited turn does not pass.

    Source: ConvCodeWorld's published evaluation scripts.
    """
    if credited_from is not None and (credited_from < 1 or not all(passed[credited_from:])):
        raise ValueError(
            f"turn {credited_from} and those after it are credited, so they pass; credit begins at turn 1"
        )
    own = mrr(passed)
    return (
        1 / credited_from if credited_from is not None and own == 1 / (credited_from + 1) else own
    )


@metric("recall", version=1, title="Recall")
def recall(passed: Sequence[bool]) -> float:
    """Whether the code of any turn passes.

    Args:
        passed: one per turn from 0 to the last, in order.

    Returns:
        1.0 or 0.0.

    Raises:
        ValueError: there is no turn.

    Source: ConvCodeWorld section 4.1 (Recall).
    """
    _checked(passed, 0)
    return float(any(passed))
