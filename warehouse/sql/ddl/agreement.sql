-- One row per rubric x dimension (or `all dimensions`) x pair: two raters, a rater and a judge, or all raters and a judge.
create table agreement (
    rubric varchar not null,
    dimension varchar not null,
    pair varchar not null,
    "first" varchar not null,
    "second" varchar not null,
    n bigint not null,
    n_missing bigint not null,
    n_episodes bigint not null,
    share_equal double,
    kappa double,
    kappa_low double,
    kappa_high double,
    kappa_undefined_because varchar,
    weighted_kappa double,
    weighted_kappa_low double,
    weighted_kappa_high double,
    weighted_undefined_because varchar
)
