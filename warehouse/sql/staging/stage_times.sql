-- One row per stage of a run, or of a night, each time it was gone through.
select
    night_id,
    run_id,
    title,
    stage,
    started_at,
    seconds
from incoming
