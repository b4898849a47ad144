-- One value: mean, 95% interval over problems, and counts of a group's scores where `counted` is true.
-- `is_share` is true for a metric in [0, 1]. The mean is computed as in `stable_mean`, from the list that the interval uses.
create macro pooled(value, problem_id, unscored_reason, counted, is_share := true) as {
    'mean': list_avg(list_sort(list(value order by problem_id) filter (where counted and value is not null))),
    'low': interval_low(
        list(value order by problem_id) filter (where counted and value is not null),
        list(problem_id order by problem_id) filter (where counted and value is not null),
        is_share
    ),
    'high': interval_high(
        list(value order by problem_id) filter (where counted and value is not null),
        list(problem_id order by problem_id) filter (where counted and value is not null),
        is_share
    ),
    'n': count(value) filter (where counted),
    'n_unscored': count(*) filter (where counted and is_fault(unscored_reason)),
    'n_not_applicable': count(*) filter (where counted and value is null and not is_fault(unscored_reason))
}
