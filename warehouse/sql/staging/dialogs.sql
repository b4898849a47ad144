-- One row per dialog x row_digest: editions of a dataset share their unedited rows.
select
    benchmark,
    dataset_version,
    dialog_id,
    problem_id,
    turns,
    labels,
    row_digest,
    problem_digest,
    context_id,
    context_turns
from incoming
qualify row_number() over (partition by benchmark, dataset_version, dialog_id, row_digest order by problem_id, part) = 1
