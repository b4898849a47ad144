-- One row per episode: the attempt that counts. A final one goes before one that infra ended, then the highest.
create view chosen_attempts as
select
    episode_id,
    run_id as paid_by_run_id,
    part,
    attempt
from episode_rows
qualify row_number() over (
    partition by episode_id
    order by stop_reason = 'infra', attempt desc, finished_at desc, run_id, part
) = 1
