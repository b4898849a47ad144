-- One row per score of a dialogue (turn 0) x group: the user's level, the archetype within the level, or the code's language.
with
users as (
    select
        run_id,
        episode_id,
        label_of(labels, 'level') as "level",
        label_of(labels, 'archetype') as archetype,
        label_of(labels, 'language') as "language"
    from changed_dialogs
)
select scores.run_id, places."level", places.axis, places.position, scores.score
from changed_scores as scores
inner join users
    on scores.run_id = users.run_id
    and scores.episode_id = users.episode_id
cross join lateral (
    values
        (users."level", 'level', users."level"),
        (users."level", 'archetype', users.archetype),
        (null, 'language', users."language")
) as places("level", axis, position)
where scores.turn = 0
