"""Strata of problems: groups that are likely to differ in the score difference of two models.

A problem that the baseline solved can only be lost, and one that it failed can only be won. So the
baseline's score tells more about the difference than level or dataset do.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from schemas.dialog import Dialog

_SCORE_STEPS = 4
"""The baseline's scores are rounded to multiples of 1 / this number."""
_MOST_VALUES = 12
"""A label with more values, such as a name, defines no strata."""
_SMALLEST = 0.02
"""Smallest share of the problems in a stratum. Smaller ones are joined within their score."""


def number_strata(scores: Sequence[float], dialogs: Sequence[Dialog]) -> np.ndarray:
    """Number the stratum of each problem by the baseline's score and by labels such as `level`.

    Args:
        scores: the baseline's mean score of each problem, 0 to 1.
        dialogs: one dialog of each problem, for its labels. Labels that begin with `_` are ignored.

    Returns:
        Numbers from 0, in the order of the problems.
    """
    labels = [
        {name: value for name, value in dialog.labels if not name.startswith("_")}
        for dialog in dialogs
    ]
    chosen = [
        name
        for name in sorted({name for of_dialog in labels for name in of_dialog})
        if len({of_dialog.get(name) for of_dialog in labels}) <= _MOST_VALUES
    ]
    keys = [
        (round(score * _SCORE_STEPS), *(of_dialog.get(name, "") for name in chosen))
        for score, of_dialog in zip(scores, labels, strict=True)
    ]
    counts = Counter(keys)
    keys = [key if counts[key] >= _SMALLEST * len(keys) else key[:1] for key in keys]
    numbers = {key: number for number, key in enumerate(sorted(set(keys)))}
    return np.array([numbers[key] for key in keys], dtype=int)
