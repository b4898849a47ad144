"""Options of the settings: number of replies, and interpretations of the paper's formulas."""

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

TURN_OPTIONS = (
    Option(
        name=TURNS,
        values=tuple(str(n) for n in range(1, MOST_TURNS + 1)),
        default=str(MOST_TURNS),
        affects="episode",
        help="maximum number of replies within which the model must deliver its program",
    ),
)


def _reading(name: str, first: str, other: str, help: str) -> Option:
    """Return a scoring option with two values; the first is the default."""
    return Option(name=name, values=(first, other), default=first, affects="scoring", help=help)


LEVEL_OPTIONS = (
    _reading(
        LEVEL_SAMPLE,
        "fourth",
        "all",
        "dialogues for which a judge guesses the user's level: a fourth, or all",
    ),
)
ENTITY_READINGS = (
    _reading(
        REFERENCE_TEXT,
        "answer",
        "statement_and_answer",
        "text to compare replies with: the reference program, or statement and program",
    ),
    _reading(
        REPLIES,
        "before_last",
        "all",
        "replies that count (the formulas end at n - 1): all but the last, or all",
    ),
    _reading(
        CHANGES,
        "as_printed",
        "consistent",
        "satisfaction (equation 6): as printed, or mean and share of rises over the same changes",
    ),
)
SEMANTIC_READINGS = (
    _reading(
        PROBABILITY,
        "half_cosine",
        "clipped_cosine",
        "semantic probability P_k: (1 + cosine) / 2, or the cosine; both at least 0.001",
    ),
    _reading(
        SATISFACTION,
        "log",
        "probability",
        "values in semantic satisfaction (SS): logarithms of P_k, or P_k",
    ),
)
ENTITY_SOURCE_OPTIONS = (
    _reading(
        ENTITY_SOURCE,
        "notes",
        "judge",
        "source of entities: a person's notes (a judge if there are none), or always a judge",
    ),
)


def turns_of(options: Options) -> int:
    """Return the model's maximum number of replies in an interactive setting."""
    return int(options[TURNS])


def counting_of(options: Options) -> Counting:
    """Return the chosen interpretation of the indices in the paper's formulas."""
    return Counting(
        cast("Literal['before_last', 'all']", options[REPLIES]),
        cast("Literal['as_printed', 'consistent']", options[CHANGES]),
    )


def probability_of(options: Options) -> Probability:
    """Return the chosen formula of the semantic probability P_k."""
    return cast("Probability", options[PROBABILITY])
