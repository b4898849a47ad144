-- One row per night x judge x rubric x bundled case x dimension, asked anew each night.
create table judge_drift_answers (
    night_id varchar not null,
    asked_at varchar not null,
    judge varchar not null,
    revision varchar not null,
    rubric varchar not null,
    rubric_version varchar not null,
    case_number bigint not null,
    dimension varchar not null,
    "value" double,
    label varchar,
    unscored_reason varchar
)
