-- One row per episode: the attempt that counts. A final one before one that infra ended, the highest, the first finished.
create view chosen_attempts as
select
    episode_id,
    run_id as paid_by_run_id,
    part,
    attempt
from episode_rows
qualify row_number() over (
    partition by episode_id
    order by stop_reason = 'infra', attempt desc, finished_at, run_id, part
) = 1
