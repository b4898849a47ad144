-- One value: whether a score is missing because of a fault; false if it has no value by definition.
create macro is_fault(reason) as reason is not null and reason not in (
    'nothing_to_forget', 'undefined', 'source_missing', 'environment_missing', 'context_length',
    'toolchain_missing', 'network_missing', 'refused'
)
