-- One row per night x run: its reused and paid work, with the reason. `usd`, `usd_hourly`: NULL if unknown.
create view night_work as
with
works as (
    select night_id, unnest(work) as work from nights
)
select
    night_id,
    work.run_id,
    work.setting,
    work.model,
    work.status,
    work.n_episodes,
    work.n_reused,
    work.reused_from,
    work.n_resumed,
    work.n_turns_kept,
    work.n_new,
    work.model_calls,
    work.requests.asked as requests_asked,
    work.requests.repeated as requests_repeated,
    work.requests.refused as requests_refused,
    work.requests.paid as requests_paid,
    work.input_tokens,
    work.output_tokens,
    work.n_unknown_tokens,
    work.usd,
    work.usd_hourly,
    work.programs_run,
    work.programs_reused,
    work.judgements_asked,
    work.judgements_reused,
    work.compared_with,
    work.why
from works
