-- One row per score x group: the task's difficulty, or Table 4's criteria by reply and dialogue.
with
replies as (
    select
        run_id,
        episode_id,
        problem_id,
        turn,
        max("value") filter (where dimension = 'faithful') as user_faithful,
        max("value") filter (where dimension = 'on_goal') as user_on_goal,
        max("value") filter (where dimension = 'in_environment') as user_in_environment,
        user_faithful * user_on_goal * user_in_environment as user_without_fault
    from judge_verdicts
    where rubric = 'user_turn' and run_id in (select run_id from changed_scores)
    group by run_id, episode_id, problem_id, turn
),
criteria as (
    from replies
    unpivot include nulls (
        "value" for metric in (user_faithful, user_on_goal, user_in_environment, user_without_fault)
    )
)
select scores.run_id, null as "level", 'difficulty' as axis, label_of(dialogs.labels, 'difficulty') as position, scores.score
from changed_scores as scores
inner join changed_dialogs as dialogs using (run_id, episode_id)
where scores.turn = 0
union all
select run_id, null as "level", if(grouping(turn) = 1, 'user_dialogue', 'user_turn') as axis, null as position, {
    'metric': metric,
    'metric_version': null,
    'episode_id': episode_id,
    'problem_id': problem_id,
    -- A dialogue meets a criterion if all its replies do. It has no value if a reply has none.
    'value': if(count(*) = count("value"), min("value"), null),
    'unscored_reason': if(count(*) = count("value"), null, 'judge_unparsable')
} as score
from criteria
group by grouping sets ((run_id, episode_id, problem_id, metric, turn), (run_id, episode_id, problem_id, metric))
