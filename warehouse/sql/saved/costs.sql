-- One row per run x role: calls, tokens, cost of tokens (`usd`) and of served hours (`usd_hourly`); NULL: unknown.
select
    model,
    role,
    role_model,
    calls,
    n_reused,
    input_tokens,
    output_tokens,
    reasoning_tokens,
    n_unknown_tokens,
    usd,
    gpu_hours,
    usd_hourly,
    run_id
from costs
order by model, role
