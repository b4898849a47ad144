-- One row per run.
select
    run_id,
    benchmark,
    model,
    family,
    baseline,
    threshold,
    thresholds
from incoming
