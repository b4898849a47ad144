"""Result tables: groups of the table `results`, cost of feedback, and a wide table over both."""

from importlib.resources import files

from tasks.metrics.iterative_generation import (
    contains_refined_code,
    mentions_reference,
    mrr,
    mrr_upstream,
    pass_at_1,
    pass_at_1_upstream,
    recall,
)
from warehouse.wide_tables import (
    NOT_APPLICABLE,
    UNSCORED,
    Column,
    WideTable,
    counts,
    interval,
    mean,
    result_columns,
)

_OF_RUN = ", ".join(
    f"'{metric.name}'"
    for metric in (mrr, mrr_upstream, recall, mentions_reference, contains_refined_code)
)
_BOTH = (UNSCORED, NOT_APPLICABLE)
_FOLDER = files("tasks.benchmarks.convcode") / "marts"

SETTINGS_TABLE = WideTable(
    name="convcode_settings",
    grain="One row per run x turn in the paper's count (0: the first answer). Values of the"
    " whole run are repeated in each row.",
    key=("run_id", "turn"),
    columns=result_columns("run_id benchmark model setting")
    | {
        "part": Column(
            r"regexp_extract(setting, '^[^.]*\.(\w+)\[', 1)",
            "Part of the benchmark: live or static.",
        ),
        "feedback": Column(
            r"regexp_extract(setting, '\[(.*)\]$', 1)", "Kinds of feedback that the setting gives."
        ),
    }
    | result_columns("dataset_version")
    | {"options": Column("episode_options", "Options of the dialogues, as JSON.")}
    | result_columns("reference_model")
    | {
        "turns": Column("turns", "Last turn of the run, in the paper's count."),
        "turn": Column("turn", "Turn in the paper's count: 0 is the first answer."),
    }
    | interval("pass_at_1", pass_at_1.name)
    | counts("n", pass_at_1.name, *_BOTH)
    | mean("pass_at_1_upstream", pass_at_1_upstream.name)
    | interval("mrr", mrr.name)
    | counts("n_mrr", mrr.name, *_BOTH)
    | mean("mrr_upstream", mrr_upstream.name)
    | interval("recall", recall.name)
    | counts("n_recall", recall.name, *_BOTH)
    | result_columns(
        "n_feedback n_verbal_feedback feedback_calls feedback_input_tokens feedback_output_tokens"
        " feedback_usd"
    )
    | result_columns(
        "n_feedback_in_all n_verbal_feedback_in_all feedback_calls_in_all"
        " feedback_input_tokens_in_all"
    )
    | result_columns("feedback_output_tokens_in_all feedback_usd_in_all")
    | mean("mentions_reference", mentions_reference.name)
    | counts("n_mentions_reference", mentions_reference.name)
    | mean("contains_refined_code", contains_refined_code.name)
    | counts("n_contains_refined_code", contains_refined_code.name, UNSCORED)
    | result_columns("sandbox isolated task_share"),
    source=f"""from (
    select
        results.*, feedback.* exclude (run_id),
        max(feedback.turn) over (partition by feedback.run_id) as turns
    from convcode_feedback as feedback
    inner join results on feedback.run_id = results.run_id
        and (
            (
                results.axis = 'turn' and results.position = feedback.turn::varchar
                and results.metric not in ({_OF_RUN})
            )
            or (results.axis = 'all' and results.metric in ({_OF_RUN}))
        )
)""",
    base=_FOLDER / "convcode_feedback.sql",
)
MARTS = (_FOLDER / "convcode_groups.sql", _FOLDER / "convcode_feedback.sql", SETTINGS_TABLE)
