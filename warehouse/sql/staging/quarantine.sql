-- One row per quarantined input row: editions of a dataset share them.
select distinct
    benchmark,
    dataset_version,
    source_file,
    source_line,
    reason,
    detail,
    excerpt
from incoming
