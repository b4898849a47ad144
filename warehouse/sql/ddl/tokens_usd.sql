-- One value: cost of tokens in USD, or NULL if a count or a price is NULL. `schemas/night/cost.py` has the same definition.
create macro tokens_usd(input_tokens, output_tokens, usd_per_million_input, usd_per_million_output) as
    (input_tokens * usd_per_million_input + output_tokens * usd_per_million_output) / 1e6
