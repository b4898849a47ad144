-- One row per night x judge x rubric: how its answers to bundled cases differ from those of the first such night.
create view judge_drift as
with
answers as (
    select night_id, judge, revision, rubric, rubric_version, case_number, dimension, "value", label, unscored_reason
    from judge_drift_answers
),
first_told as (
    select
        judge,
        rubric,
        rubric_version,
        case_number,
        dimension,
        arg_min({'value': "value", 'label': label, 'reason': unscored_reason}, night_id) as told
    from answers
    group by judge, rubric, rubric_version, case_number, dimension
),
compared as (
    select
        answers.night_id,
        answers.judge,
        answers.revision,
        answers.rubric,
        answers.rubric_version,
        answers.case_number,
        answers."value" - first_told.told."value" as shift,
        (answers."value" is distinct from first_told.told."value")
        or (answers.label is distinct from first_told.told.label)
        or (answers.unscored_reason is distinct from first_told.told.reason) as is_changed
    from answers
    inner join first_told
        on answers.judge = first_told.judge
        and answers.rubric = first_told.rubric
        and answers.rubric_version = first_told.rubric_version
        and answers.case_number = first_told.case_number
        and answers.dimension = first_told.dimension
)
select
    night_id,
    judge,
    revision,
    rubric,
    rubric_version,
    count(distinct case_number) as n,
    count(distinct case_number) filter (where is_changed) as n_changed,
    avg(shift) as mean_shift
from compared
group by night_id, judge, revision, rubric, rubric_version
