-- One row per problem x row_digest: editions of a dataset share their unedited rows.
select
    benchmark,
    dataset_version,
    problem_id,
    level,
    prompt,
    instructions,
    reference_code,
    packages,
    source_file,
    source_line,
    row_digest,
    repo
from incoming
qualify row_number() over (
    partition by benchmark, dataset_version, problem_id, row_digest
    order by source_file, source_line, part
) = 1
