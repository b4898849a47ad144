-- One row per run, turn and language of Multi-IF: newest run per condition in $run_ids, or in all but controls.
with
asked as (
    select
        run_id,
        model,
        dataset_version,
        coalesce(task_share, 1.0) as task_share,
        row_number() over (
            partition by model, dataset_version, task_share, subsample_seed, spec_json
            order by finished_at desc, run_id
        ) as age
    from runs
    where
        setting = 'unidial.multi_if'
        and case
            when len($run_ids::varchar[]) = 0 then not starts_with(model, 'control:')
            else list_contains($run_ids::varchar[], run_id)
        end
),
newest as (
    select run_id, model, dataset_version, task_share from asked where age = 1
),
languages as (
    select
        episodes.run_id,
        episodes.episode_id,
        list_filter(dialogs.labels, lambda label : label."key" = 'language')[1]."value" as language
    from episodes
    inner join newest
        on episodes.run_id = newest.run_id
    inner join dialogs
        on episodes.benchmark = dialogs.benchmark
        and newest.dataset_version = dialogs.dataset_version
        and episodes.dialog_id = dialogs.dialog_id
        and episodes.row_digest = dialogs.row_digest
),
readings as (
    select
        scores.run_id,
        scores.episode_id,
        scores.turn,
        scores.metric = 'instruction_following_loose' as is_loose,
        case when min(scores.value) = 0 then 0 when count(scores.value) = count(*) then 1 end as prompt,
        sum(scores.value) as followed,
        count(scores.value) as instructions,
        count(*) - count(scores.value) as unscored
    from scores
    inner join newest
        on scores.run_id = newest.run_id
    where scores.metric in ('instruction_following', 'instruction_following_loose')
    group by scores.run_id, scores.episode_id, scores.turn, scores.metric
),
figures as (
    select
        readings.run_id,
        readings.turn,
        coalesce(languages.language, 'all') as language,
        count(readings.prompt) filter (where not readings.is_loose) as n_prompts,
        sum(readings.unscored) filter (where not readings.is_loose) as n_unscored,
        avg(readings.prompt) filter (where not readings.is_loose) as prompt_strict,
        sum(readings.followed) filter (where not readings.is_loose)
        / nullif(sum(readings.instructions) filter (where not readings.is_loose), 0) as instruction_strict,
        avg(readings.prompt) filter (where readings.is_loose) as prompt_loose,
        sum(readings.followed) filter (where readings.is_loose)
        / nullif(sum(readings.instructions) filter (where readings.is_loose), 0) as instruction_loose
    from readings
    inner join languages
        on readings.run_id = languages.run_id
        and readings.episode_id = languages.episode_id
    group by grouping sets ((readings.run_id, readings.turn, languages.language), (readings.run_id, readings.turn))
)
select
    figures.run_id,
    newest.model,
    newest.dataset_version,
    newest.task_share,
    figures.turn,
    figures.language,
    figures.n_prompts,
    figures.n_unscored,
    figures.prompt_strict,
    figures.instruction_strict,
    figures.prompt_loose,
    figures.instruction_loose,
    (figures.prompt_strict + figures.instruction_strict + figures.prompt_loose + figures.instruction_loose) / 4 as overall
from figures
inner join newest
    on figures.run_id = newest.run_id
order by newest.model, figures.run_id, figures.language <> 'all', figures.language, figures.turn
