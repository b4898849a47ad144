-- One row per run x role x model of the runs in $run_ids, in their order.
select
    run_id,
    model,
    role,
    role_model,
    calls,
    n_turns,
    n_reused,
    input_tokens,
    output_tokens,
    n_unknown_tokens,
    usd
from costs
where list_contains($run_ids::varchar[], run_id)
order by list_position($run_ids::varchar[], run_id), role, role_model
