-- One row per published run x level x turn, newest first. Empty $run_ids selects all runs.
select
    runs.run_id,
    runs.finished_at,
    runs.model,
    runs.setting,
    runs.dataset_version,
    users.level,
    scores.turn,
    avg(scores.value) filter (where scores.metric = 'entity_match_density') as rho,
    count(scores.value) filter (where scores.metric = 'entity_match_density') as n_rho,
    count(*) filter (where scores.metric = 'entity_match_density' and scores.value is null) as n_rho_unscored,
    avg(scores.value) filter (where scores.metric = 'semantic_probability') as p,
    count(scores.value) filter (where scores.metric = 'semantic_probability') as n_p,
    count(*) filter (where scores.metric = 'semantic_probability' and scores.value is null) as n_p_unscored,
    runs.isolated,
    runs.spec_json,
    runs.task_share,
    runs.subsample_seed
from scores
inner join runs
    on scores.run_id = runs.run_id
inner join (
    select
        episode_id,
        any_value(row_digest) as row_digest
    from episodes
    where benchmark = 'talk2code'
    group by episode_id
) as episode_rows
    on scores.episode_id = episode_rows.episode_id
inner join (
    select
        dataset_version,
        row_digest,
        max(list_filter(labels, lambda label: label."key" = 'level')[1]."value") as level
    from dialogs
    where benchmark = 'talk2code'
    group by dataset_version, row_digest
) as users
    on
        runs.dataset_version = users.dataset_version
        and episode_rows.row_digest = users.row_digest
where
    runs.benchmark = 'talk2code'
    and scores.metric in ('entity_match_density', 'semantic_probability')
    and scores.turn > 0
    and (len($run_ids::varchar[]) = 0 or list_contains($run_ids::varchar[], runs.run_id))
group by all
order by runs.finished_at desc, runs.run_id, users.level, scores.turn
