-- One value: the value of a label of a turn or dialog; NULL without such a label.
create macro label_of(labels, label_key) as list_filter(labels, lambda label: label."key" = label_key)[1]."value"
