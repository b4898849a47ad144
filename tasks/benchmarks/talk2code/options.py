"""What a user may choose: replies that the model has, and readings of the paper's formulas."""

from typing import Literal, cast

from tasks.benchmarks.setting import Option, Options
from tasks.metrics.intent_alignment import Counting, Probability

MOST_TURNS = 10
TURNS, LEVEL_SAMPLE, ENTITY_SOURCE = "turns", "level_sample", "entities"
REFERENCE_TEXT, REPLIES, CHANGES, PROBABILITY, SATISFACTION = (
    "reference_text",
    "replies",
    "changes",
    "probability",
    "satisfaction",
)

PLAYED = (
    Option(
        name=TURNS,
        values=tuple(str(n) for n in range(1, MOST_TURNS + 1)),
        default=str(MOST_TURNS),
        affects="episode",
        help="replies that the model has to deliver its program in",
    ),
)


def _reading(name: str, first: str, other: str, help: str) -> Option:
    """A choice between two ways to score; the first is the default."""
    return Option(name=name, values=(first, other), default=first, affects="scoring", help=help)


SAMPLED = (
    _reading(
        LEVEL_SAMPLE,
        "fourth",
        "all",
        "dialogues whose user's words a judge reads for their level: each fourth, or all",
    ),
)
ENTITY_READINGS = (
    _reading(
        REFERENCE_TEXT,
        "answer",
        "statement_and_answer",
        "what replies are compared with: the reference program, or the statement with it",
    ),
    _reading(
        REPLIES,
        "before_last",
        "all",
        "replies that the formulas' n - 1 means: all but the one that delivers, or all",
    ),
    _reading(
        CHANGES,
        "as_printed",
        "consistent",
        "equation 6 as printed, or mean and share of rises over the same changes",
    ),
)
SEMANTIC_READINGS = (
    _reading(
        PROBABILITY,
        "half_cosine",
        "clipped_cosine",
        "P_k from a cosine: (1 + cosine) / 2, or the cosine, both from 0.001 on",
    ),
    _reading(SATISFACTION, "log", "probability", "series of SS: the logarithm of P_k, or P_k"),
)
NOTED = (
    _reading(
        ENTITY_SOURCE,
        "notes",
        "judge",
        "whose entities: those that a person noted, a judge's where there are none; or a judge's",
    ),
)


def turns_of(options: Options) -> int:
    """Replies that the model has in an interactive setting."""
    return int(options[TURNS])


def counting_of(options: Options) -> Counting:
    """The readings of the formulas' indices."""
    return Counting(
        cast("Literal['before_last', 'all']", options[REPLIES]),
        cast("Literal['as_printed', 'consistent']", options[CHANGES]),
    )


def probability_of(options: Options) -> Probability:
    """The reading of P_k."""
    return cast("Probability", options[PROBABILITY])
