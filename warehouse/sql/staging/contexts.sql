-- One row per benchmark x dataset version x context.
select
    benchmark,
    dataset_version,
    context_id,
    turns
from incoming
