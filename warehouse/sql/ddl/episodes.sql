-- One row per published run x episode that it contains, also one that another run paid for.
create view episodes as
with
contained as (
    select run_id, episode_id from run_episodes
),
chosen as (
    select episode_id, paid_by_run_id, part, attempt from chosen_attempts
)
select
    contained.run_id,
    attempts.benchmark,
    attempts.model,
    attempts.episode_id,
    chosen.paid_by_run_id,
    attempts.setting,
    attempts.dataset_version,
    attempts.problem_id,
    attempts.dialog_id,
    attempts.row_digest,
    attempts.sample,
    attempts.seed,
    attempts.attempt,
    attempts.stop_reason,
    attempts.error,
    attempts.started_at,
    attempts.finished_at
from contained
inner join chosen
    on contained.episode_id = chosen.episode_id
inner join episode_rows as attempts
    on chosen.episode_id = attempts.episode_id
    and chosen.paid_by_run_id = attempts.run_id
    and chosen.part = attempts.part
    and chosen.attempt = attempts.attempt
