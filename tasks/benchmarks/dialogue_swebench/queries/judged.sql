-- One row per published dialogue x rubric x judge with all dimensions rated, newest run first.
with given as (
    select
        judge_verdicts.run_id,
        judge_verdicts.episode_id,
        judge_verdicts.problem_id || '#' || judge_verdicts.sample as task,
        judge_verdicts.rubric,
        judge_verdicts.judge,
        max(judge_verdicts.value) filter (where judge_verdicts.dimension = '') as whole,
        max(judge_verdicts.value) filter (where judge_verdicts.dimension = 'local') as is_local,
        max(judge_verdicts.value) filter (where judge_verdicts.dimension = 'global') as is_global
    from judge_verdicts
    where judge_verdicts.benchmark = 'dialogue_swebench'
        and judge_verdicts.turn = 0
        and judge_verdicts.rubric in ('naturalness', 'coherence')
    group by all
)
select
    given.run_id,
    runs.model || ' ' || runs.setting || ' ' || runs.dataset_version as system,
    given.task,
    given.rubric,
    given.judge,
    given.episode_id,
    coalesce(given.whole, 1 + given.is_local + given.is_global) as rating,
    runs.spec_json,
    runs.task_share,
    runs.subsample_seed
from given
inner join runs
    on given.run_id = runs.run_id
where (len($run_ids) = 0 or list_contains($run_ids, given.run_id))
    and coalesce(given.whole, given.is_local + given.is_global) is not null
order by runs.finished_at desc, given.run_id, given.rubric, given.judge, given.episode_id
