-- One row per rater x episode x turn x rubric x dimension (turn 0: the whole episode).
create table ratings (
    rater varchar not null,
    benchmark varchar not null,
    episode_id varchar not null,
    turn bigint not null,
    rubric varchar not null,
    dimension varchar not null,
    "value" double,
    label varchar
)
