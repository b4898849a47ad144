"""Result tables of CodeIF-Bench: groups of the table `results`, and wide tables over them."""

from importlib.resources import files

from tasks.metrics.instruction_following import (
    conversation_accuracy_fraction,
    conversation_accuracy_strict,
    instruction_accuracy,
    instruction_following_efficiency,
    instruction_forgetting_ratio,
)
from warehouse.wide_tables import (
    NOT_APPLICABLE,
    UNSCORED,
    Column,
    Columns,
    WideTable,
    counts,
    interval,
    result_columns,
)

_OTHER_INTERVALS: Columns = (
    interval("ca_strict", conversation_accuracy_strict.name)
    | interval("ca_fraction", conversation_accuracy_fraction.name)
    | interval("ifr", instruction_forgetting_ratio.name)
)
_N = counts("n", instruction_accuracy.name, UNSCORED, NOT_APPLICABLE)
_OTHER_N: Columns = counts(
    "n_ca", conversation_accuracy_strict.name, UNSCORED, NOT_APPLICABLE
) | counts("n_ifr", instruction_forgetting_ratio.name, UNSCORED, NOT_APPLICABLE)
_RUN = result_columns("run_id benchmark model setting dataset_version level")
_LAST = result_columns("sandbox isolated task_share")

TURNS = WideTable(
    name="codeif_turns",
    grain="One row per run x level x axis (turn, strategy_slot, round_pair) x position on the axis."
    " Level 'all' exists only in runs of several levels.",
    key=("run_id", "level", "axis", "turn"),
    columns=_RUN
    | result_columns("axis")
    | {"turn": Column("position::bigint", "1-based position on the axis.")}
    | interval("ia", instruction_accuracy.name)
    | _OTHER_INTERVALS
    | interval("ife", instruction_following_efficiency.name)
    | _N
    | _OTHER_N
    | counts("n_ife", instruction_following_efficiency.name, UNSCORED, NOT_APPLICABLE)
    | _LAST,
    source=(
        "from results where benchmark = 'codeif' and axis in ('turn', 'strategy_slot', "
        "'round_pair')"
    ),
)
STRATEGIES = WideTable(
    name="codeif_strategies",
    grain="One row per run x level x strategy of a turn's instruction (`base` is the first "
    "request)."
    " Level 'all' exists only in runs of several levels.",
    key=("run_id", "level", "instruction_id"),
    columns=_RUN
    | {
        "instruction_id": Column(
            "position", "Strategy of the instruction; `base` is the first request."
        )
    }
    | interval("ia", instruction_accuracy.name)
    | _N
    | _OTHER_INTERVALS
    | _OTHER_N
    | _LAST,
    source="from results where benchmark = 'codeif' and axis = 'strategy'",
)
MARTS = (files("tasks.benchmarks.codeif") / "marts" / "codeif_groups.sql", TURNS, STRATEGIES)
