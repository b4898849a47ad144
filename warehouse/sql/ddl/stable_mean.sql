-- One value: the mean of a group's non-NULL values, bit for bit the same in any order of the rows.
create macro stable_mean(x) as list_avg(list_sort(list(x)))
