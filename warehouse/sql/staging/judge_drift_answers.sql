-- One row per night x judge x rubric x case x dimension.
select
    night_id,
    asked_at,
    judge,
    revision,
    rubric,
    rubric_version,
    case_number,
    dimension,
    "value",
    label,
    unscored_reason
from incoming
qualify row_number() over (
    partition by night_id, judge, rubric, rubric_version, case_number, dimension
    order by asked_at
) = 1
