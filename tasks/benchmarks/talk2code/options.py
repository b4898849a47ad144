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
SAMPLED = (
    Option(
        name=LEVEL_SAMPLE,
        values=("fourth", "all"),
        default="fourth",
        affects="scoring",
        help="dialogues whose user's words a judge reads for their level: each fourth, or all",
    ),
)
ENTITY_READINGS = (
    Option(
        name=REFERENCE_TEXT,
        values=("answer", "statement_and_answer"),
        default="answer",
        affects="scoring",
        help="what replies are compared with: the reference program, or the statement with it",
    ),
    Option(
        name=REPLIES,
        values=("before_last", "all"),
        default="before_last",
        affects="scoring",
        help="replies that the formulas' n - 1 means: all but the one that delivers, or all",
    ),
    Option(
        name=CHANGES,
        values=("as_printed", "consistent"),
        default="as_printed",
        affects="scoring",
        help="equation 6 as printed, or mean and share of rises over the same changes",
    ),
)
SEMANTIC_READINGS = (
    Option(
        name=PROBABILITY,
        values=("half_cosine", "clipped_cosine"),
        default="half_cosine",
        affects="scoring",
        help="P_k from a cosine: (1 + cosine) / 2, or the cosine, both from 0.001 on",
    ),
    Option(
        name=SATISFACTION,
        values=("log", "probability"),
        default="log",
        affects="scoring",
        help="series of SS: the logarithm of P_k, or P_k",
    ),
)
NOTED = (
    Option(
        name=ENTITY_SOURCE,
        values=("notes", "judge"),
        default="notes",
        affects="scoring",
        help="whose entities: those that a person noted, a judge's where there are none; or a judge's",
    ),
)


def turns_of(options: Options) -> int:
    """Replies that the model has in an interactive setting."""
    return int(options[TURNS])


def counting_of(options: Options) -> Counting:
    """The readings of the formulas' indices."""
    return Counting(
        cast("Literal['before_last', 'all']", options[REPLIES]), cast("Literal['as_printed', 'consistent']", options[CHANGES])
    )


def probability_of(options: Options) -> Probability:
    """The reading of P_k."""
    return cast("Probability", options[PROBABILITY])
