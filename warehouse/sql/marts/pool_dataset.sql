-- One row per run x metric x dialog_pool (how turns make a dialog's value: mean, min, max), pooled over dialogs.
with
dialogs_pooled as (
    select
        pool_dialog.run_id,
        pool_dialog.benchmark,
        pool_dialog.model,
        pool_dialog.metric,
        pool_dialog.mean,
        pool_dialog.min,
        pool_dialog.max,
        pool_dialog.sandbox,
        pool_dialog.isolated
    from pool_dialog
    inner join changed_runs
        on pool_dialog.run_id = changed_runs.run_id
),
dialog_values as (
    select run_id, benchmark, model, metric, 'mean' as dialog_pool, mean as dialog_value, sandbox, isolated from dialogs_pooled
    union all
    select run_id, benchmark, model, metric, 'min' as dialog_pool, min as dialog_value, sandbox, isolated from dialogs_pooled
    union all
    select run_id, benchmark, model, metric, 'max' as dialog_pool, max as dialog_value, sandbox, isolated from dialogs_pooled
)
select
    run_id,
    benchmark,
    model,
    metric,
    dialog_pool,
    stable_mean(dialog_value) as mean,
    min(dialog_value) as min,
    max(dialog_value) as max,
    count(dialog_value) as n_dialogs,
    count(*) - count(dialog_value) as n_dialogs_without_value,
    sandbox,
    isolated
from dialog_values
group by run_id, benchmark, model, metric, dialog_pool, sandbox, isolated
