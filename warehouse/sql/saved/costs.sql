-- One row per run x role: calls, tokens and money; NULL where an endpoint counted no tokens or has no price.
select
    model,
    role,
    role_model,
    calls,
    n_reused,
    input_tokens,
    output_tokens,
    n_unknown_tokens,
    usd,
    gpu_hours,
    run_id
from costs
order by model, role
