-- One row per checkpoint: the one that was found first.
select
    digest,
    family,
    step,
    model,
    kind,
    source,
    path,
    changed_at,
    found_at
from incoming
qualify row_number() over (partition by digest order by found_at, path) = 1
