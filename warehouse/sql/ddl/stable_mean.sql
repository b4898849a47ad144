-- One value: the mean of a group's values that are not NULL, the same to the last bit in whatever order they are read.
create macro stable_mean(x) as list_avg(list_sort(list(x)))
