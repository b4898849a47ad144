-- One row per decision of $run_ids.
select
    decisions.run_id,
    decisions.baseline_run_id,
    runs.setting,
    decisions.model,
    decisions.baseline_model,
    decisions.metric,
    decisions.decision,
    decisions.n_asked,
    decisions.n_total,
    decisions.n_left_out,
    decisions.mean_difference,
    decisions.low,
    decisions.high,
    decisions.alpha,
    decisions.margin,
    decisions.saved_calls,
    decisions.sequence,
    decisions.is_night_wide
from decisions
inner join runs
    on decisions.run_id = runs.run_id
where list_contains($run_ids::varchar[], decisions.run_id)
order by runs.setting, decisions.model, decisions.metric
