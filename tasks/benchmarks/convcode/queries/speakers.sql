-- One row per live run in $run_ids.
with
simulators as (
    select run_id, max(model) as simulator from run_roles where role = 'simulator' group by run_id
),
figures as (
    select
        run_id,
        max(case when turn = 0 then pass_at_1 end) as turn_0,
        max(case when turn = 1 then pass_at_1 end) as turn_1,
        max(case when turn = 0 then n end) as n,
        max(case when turn = 0 then n_unscored end) as n_unscored,
        max(case when turn = 1 then n end) as n_turn_1,
        max(case when turn = 1 then n_unscored end) as n_turn_1_unscored
    from convcode_settings
    where part = 'live'
    group by run_id
)
select
    settings.run_id,
    settings.model,
    simulators.simulator,
    settings.feedback,
    settings.dataset_version,
    settings.options,
    settings.turns,
    figures.turn_0,
    figures.turn_1,
    figures.n,
    figures.n_unscored,
    figures.n_turn_1,
    figures.n_turn_1_unscored,
    settings.mentions_reference,
    settings.n_mentions_reference,
    settings.contains_refined_code,
    settings.n_contains_refined_code,
    settings.n_contains_refined_code_unscored,
    settings.isolated
from convcode_settings as settings
inner join figures
    on settings.run_id = figures.run_id
left join simulators
    on settings.run_id = simulators.run_id
where
    settings.turn = 0
    and list_contains($run_ids::varchar[], settings.run_id)
order by settings.dataset_version, settings.feedback, simulators.simulator, settings.model, settings.options, settings.run_id
