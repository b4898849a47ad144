-- One row per run x episode x turn x instruction x metric: the newest version of the metric.
select
    run_id,
    benchmark,
    model,
    episode_id,
    problem_id,
    sample,
    turn,
    instruction_id,
    metric,
    metric_version,
    "value",
    unscored_reason
from incoming
qualify row_number() over (
    partition by run_id, episode_id, turn, instruction_id, metric
    order by metric_version desc, "value" is null, "value", unscored_reason
) = 1
