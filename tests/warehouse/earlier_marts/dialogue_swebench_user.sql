-- One row per run x level (turn, dialogue): Table 4, shares of simulated replies and of dialogues that meet each criterion.
with
changed as (
    select
        runs.run_id,
        runs.benchmark,
        runs.model,
        runs.setting,
        runs.dataset_version,
        runs.spec_json ->> '$.simulator.name' as simulator,
        runs.isolated
    from runs
    inner join changed_runs
        on runs.run_id = changed_runs.run_id
    where runs.benchmark = 'dialogue_swebench'
),
judged as (
    select
        changed.run_id,
        judge_verdicts.episode_id,
        judge_verdicts.problem_id,
        judge_verdicts.turn,
        max(judge_verdicts.value) filter (where judge_verdicts.dimension = 'faithful') as faithful,
        max(judge_verdicts.value) filter (where judge_verdicts.dimension = 'on_goal') as on_goal,
        max(judge_verdicts.value) filter (where judge_verdicts.dimension = 'in_environment') as in_environment
    from changed
    inner join judge_verdicts
        on changed.run_id = judge_verdicts.run_id
    where judge_verdicts.rubric = 'user_turn'
    group by changed.run_id, judge_verdicts.episode_id, judge_verdicts.problem_id, judge_verdicts.turn
),
levels as (
    select
        run_id,
        'turn' as level,
        faithful,
        on_goal,
        in_environment
    from judged
    union all
    select
        run_id,
        'dialogue' as level,
        if(count(*) = count(faithful), min(faithful), null) as faithful,
        if(count(*) = count(on_goal), min(on_goal), null) as on_goal,
        if(count(*) = count(in_environment), min(in_environment), null) as in_environment
    from judged
    group by run_id, episode_id
),
grouped as (
    select
        run_id,
        level,
        count(*) as n_replies,
        count(faithful + on_goal + in_environment) as n,
        avg(faithful) as faithful,
        avg(on_goal) as on_goal,
        avg(in_environment) as in_environment,
        avg(faithful * on_goal * in_environment) as all_three
    from levels
    group by run_id, level
),
revised as (
    select
        changed.run_id,
        avg(scores.value) as revised,
        count(scores.value) as n_revised
    from changed
    inner join scores
        on changed.run_id = scores.run_id
    where scores.metric = 'user_revised'
    group by changed.run_id
)
select
    changed.run_id,
    changed.benchmark,
    changed.model,
    changed.setting,
    changed.dataset_version,
    changed.simulator,
    wanted.level,
    grouped.faithful,
    grouped.on_goal,
    grouped.in_environment,
    grouped.all_three,
    coalesce(grouped.n, 0) as n,
    coalesce(grouped.n_replies - grouped.n, 0) as n_unscored,
    revised.revised as revised_share,
    revised.n_revised,
    changed.isolated
from changed
cross join (values ('turn'), ('dialogue')) as wanted(level)
left join grouped
    on changed.run_id = grouped.run_id
    and wanted.level = grouped.level
left join revised
    on changed.run_id = revised.run_id
