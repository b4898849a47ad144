-- One row per run x turn of the runs in $run_ids.
select
    settings.model,
    settings.setting,
    settings.part,
    settings.feedback,
    settings.dataset_version,
    settings.options,
    settings.reference_model,
    settings.turn,
    settings.pass_at_1,
    settings.pass_at_1_low,
    settings.pass_at_1_high,
    settings.n,
    settings.n_unscored,
    settings.pass_at_1_upstream,
    settings.sandbox,
    settings.isolated,
    settings.run_id
from convcode_settings as settings
where list_contains($run_ids::varchar[], settings.run_id)
order by
    settings.dataset_version,
    settings.part,
    settings.feedback,
    settings.model,
    settings.options,
    settings.run_id,
    settings.turn
