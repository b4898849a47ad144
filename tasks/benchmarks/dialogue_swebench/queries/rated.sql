-- One row per dialogue x rubric x rater: a complete rating, or both parts of one.
with given as (
    select
        ratings.episode_id,
        ratings.rubric,
        ratings.rater,
        max(ratings.value) filter (where ratings.dimension = '') as whole,
        max(ratings.value) filter (where ratings.dimension = 'local') as is_local,
        max(ratings.value) filter (where ratings.dimension = 'global') as is_global
    from ratings
    where ratings.benchmark = 'dialogue_swebench'
        and ratings.rubric in ('naturalness', 'coherence')
        and ratings.turn = 0
    group by all
)
select
    given.episode_id,
    given.rubric,
    given.rater,
    coalesce(given.whole, 1 + given.is_local + given.is_global) as rating
from given
where coalesce(given.whole, given.is_local + given.is_global) is not null
order by all
