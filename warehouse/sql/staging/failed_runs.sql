-- One row per failed run of a night.
select
    night_id,
    run_id,
    title,
    setting,
    model,
    reason
from incoming
