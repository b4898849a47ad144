-- One row per score x group: the task's difficulty, or Table 4's criteria by reply and dialogue.
with
replies as (
    select
        judged.run_id,
        judged.episode_id,
        judged.problem_id,
        max(judged."value") filter (where judged.dimension = 'faithful') as faithful,
        max(judged."value") filter (where judged.dimension = 'on_goal') as on_goal,
        max(judged."value") filter (where judged.dimension = 'in_environment') as in_environment
    from judge_verdicts as judged
    where judged.rubric = 'user_turn'
        and judged.run_id in (select run_id from changed_scores)
    group by judged.run_id, judged.episode_id, judged.problem_id, judged.turn
),
places as (
    select run_id, episode_id, problem_id, 'user_turn' as axis, faithful, on_goal, in_environment from replies
    union all
    select
        run_id,
        episode_id,
        problem_id,
        'user_dialogue' as axis,
        if(count(*) = count(faithful), min(faithful), null) as faithful,
        if(count(*) = count(on_goal), min(on_goal), null) as on_goal,
        if(count(*) = count(in_environment), min(in_environment), null) as in_environment
    from replies
    group by run_id, episode_id, problem_id
)
select scores.run_id, null as "level", 'difficulty' as axis, label_of(dialogs.labels, 'difficulty') as position, scores.score
from changed_scores as scores
inner join changed_dialogs as dialogs
    on scores.run_id = dialogs.run_id
    and scores.episode_id = dialogs.episode_id
where scores.turn = 0
union all
select places.run_id, null as "level", places.axis, null as position, {
    'metric': criteria.metric,
    'metric_version': null,
    'episode_id': places.episode_id,
    'problem_id': places.problem_id,
    'value': criteria."value",
    'unscored_reason': if(criteria."value" is null, 'judge_unparsable', null)
} as score
from places
cross join lateral (
    values
        ('user_faithful', places.faithful),
        ('user_on_goal', places.on_goal),
        ('user_in_environment', places.in_environment),
        ('user_without_fault', places.faithful * places.on_goal * places.in_environment)
) as criteria(metric, "value")
