-- One row per rubric x dimension (or `all dimensions`) x pair: two raters, or a rater (or all raters) and a judge.
select
    rubric,
    dimension,
    pair,
    "first",
    "second",
    n,
    n_missing,
    n_episodes,
    share_equal,
    kappa,
    kappa_low,
    kappa_high,
    kappa_undefined_because,
    weighted_kappa,
    weighted_kappa_low,
    weighted_kappa_high,
    weighted_undefined_because
from agreement
order by rubric, dimension, pair, "first", "second"
