-- One row per release.
select
    run_id,
    benchmark,
    model,
    because,
    withheld_reason,
    released_at,
    results_digest,
    released_by,
    number
from incoming
