-- One row per run x turn of the runs in $run_ids, or else of the newest run of each model and kind.
with
asked as (
    select run_id, finished_at from runs
    where benchmark = 'convcode' and (len($run_ids::varchar[]) = 0 or list_contains($run_ids::varchar[], run_id))
),
chosen as (
    select settings.run_id
    from convcode_settings as settings
    inner join asked
        on settings.run_id = asked.run_id
    where settings.turn = 0
    qualify len($run_ids::varchar[]) > 0 or row_number() over (
        partition by
            settings.model,
            settings.setting,
            settings.dataset_version,
            settings.options,
            settings.reference_model,
            settings.turns
        order by asked.finished_at desc, settings.run_id
    ) = 1
)
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
inner join chosen
    on settings.run_id = chosen.run_id
order by
    settings.dataset_version,
    settings.part,
    settings.feedback,
    settings.model,
    settings.options,
    settings.run_id,
    settings.turn
