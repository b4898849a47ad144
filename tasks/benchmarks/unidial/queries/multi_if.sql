-- One row per run, turn and language of the runs of Multi-IF in $run_ids.
with
chosen as (
    select run_id, model, dataset_version, coalesce(task_share, 1.0) as task_share from runs
    where setting = 'unidial.multi_if' and list_contains($run_ids::varchar[], run_id)
),
languages as (
    select
        episodes.run_id,
        episodes.episode_id,
        list_filter(dialogs.labels, lambda label : label."key" = 'language')[1]."value" as language
    from episodes
    inner join chosen
        on episodes.run_id = chosen.run_id
    inner join dialogs
        on episodes.benchmark = dialogs.benchmark
        and chosen.dataset_version = dialogs.dataset_version
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
    inner join chosen
        on scores.run_id = chosen.run_id
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
    chosen.model,
    chosen.dataset_version,
    chosen.task_share,
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
inner join chosen
    on figures.run_id = chosen.run_id
order by chosen.model, figures.run_id, figures.language <> 'all', figures.language, figures.turn
