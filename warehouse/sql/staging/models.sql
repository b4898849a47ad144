-- One row per model identity x prices.
select
    model,
    provider,
    name,
    revision,
    weights_digest,
    chat_template,
    usd_per_million_input,
    usd_per_million_output,
    usd_per_hour
from incoming
qualify row_number() over (
    partition by model, revision, weights_digest, chat_template
    order by usd_per_million_input nulls last, usd_per_million_output nulls last, usd_per_hour nulls last
) = 1
