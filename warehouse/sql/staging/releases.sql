-- One row per run.
select
    run_id,
    benchmark,
    model,
    because,
    withheld_reason,
    released_at,
    results_digest
from incoming
