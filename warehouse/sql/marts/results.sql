-- One row per score x group: the whole run; in benchmarks without a groups file, also the turn and the level of the task.
with
others as (
    select run_id, episode_id, turn, score from changed_scores
    where benchmark not in (select benchmark from own_groups)
)
select run_id, null as "level", 'all' as axis, null as position, score from changed_scores
union all
select run_id, null as "level", 'turn' as axis, turn::varchar as position, score from others
where turn > 0
union all
select others.run_id, dialogs."level", 'level' as axis, dialogs."level" as position, others.score
from others
inner join changed_dialogs as dialogs
    on others.run_id = dialogs.run_id
    and others.episode_id = dialogs.episode_id
where dialogs."level" is not null
