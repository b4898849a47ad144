-- One row per night: the latest record.
select
    night_id,
    started_at,
    finished_at,
    run_ids,
    n_published,
    n_withheld,
    work,
    budget
from incoming
qualify row_number() over (partition by night_id order by finished_at desc, n_published desc) = 1
