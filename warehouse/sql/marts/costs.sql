-- One row per run x role (subject, simulator, judge) x model. `usd`: cost of tokens; `usd_hourly`: of the server; NULL: unknown.
-- The cost covers answers and judgements, including retries. Judges' drift cases and vectors are costs of the night.
with
changed as (
    select run_id from changed_runs
),
roles as (
    select
        run_roles.run_id,
        run_roles.role,
        run_roles.model,
        run_roles.revision,
        run_roles.weights_digest,
        run_roles.chat_template
    from run_roles
    inner join changed
        on run_roles.run_id = changed.run_id
),
messages as (
    select
        attempts.run_id,
        case messages.role when 'assistant' then 'subject' else 'simulator' end as role,
        null as judge,
        messages.n_calls as calls,
        messages.input_tokens,
        messages.output_tokens,
        messages.reasoning_tokens,
        messages.kind = 'message' as is_turn,
        attempts.paid_by_run_id <> attempts.run_id as reused
    from changed_attempts as attempts
    inner join turn_rows as messages
        on attempts.episode_id = messages.episode_id
        and attempts.paid_by_run_id = messages.run_id
        and attempts.part = messages.part
        and attempts.attempt = messages.attempt
    where messages.n_calls > 0
        or (
            messages.role = 'assistant' and messages.kind = 'message'
            and not list_contains(messages.labels, {'key': 'said_by', 'value': 'script'})
        )
),
judgements as (
    select
        judge_verdicts.run_id,
        'judge' as role,
        judge_verdicts.judge,
        max(judge_verdicts.n_calls) as calls,
        max(judge_verdicts.input_tokens) as input_tokens,
        max(judge_verdicts.output_tokens) as output_tokens,
        max(judge_verdicts.reasoning_tokens) as reasoning_tokens,
        true as is_turn,
        bool_and(judge_verdicts.is_reused) as reused
    from judge_verdicts
    inner join changed
        on judge_verdicts.run_id = changed.run_id
    group by judge_verdicts.run_id, judge_verdicts.judge, judge_verdicts.judgement_id
),
said as (
    select run_id, role, judge, calls, input_tokens, output_tokens, reasoning_tokens, is_turn, reused from messages
    union all
    select run_id, role, judge, calls, input_tokens, output_tokens, reasoning_tokens, is_turn, reused from judgements
),
counted as (
    select
        run_id,
        role,
        judge,
        sum(calls)::bigint as calls,
        count(*) filter (where is_turn) as n_turns,
        count(*) filter (where is_turn and reused) as n_reused,
        sum(input_tokens)::bigint as input_tokens,
        sum(output_tokens)::bigint as output_tokens,
        sum(reasoning_tokens)::bigint as reasoning_tokens,
        -- An agent's own message is no request, so it has no token counts, unless the turn has no request at all.
        case when sum(calls) > 0
            then count(*) filter (where calls > 0 and (input_tokens is null or output_tokens is null))
            else count(*) filter (where input_tokens is null or output_tokens is null)
        end as n_unknown_tokens
    from said
    group by run_id, role, judge
),
served as (
    select
        served_hours.run_id,
        served_hours.role,
        served_hours.role_model,
        case when count(*) = count(served_hours.hours) then sum(served_hours.hours) end as server_hours,
        case when count(*) = count(served_hours.hours * served_hours.gpus)
            then sum(served_hours.hours * served_hours.gpus) end as gpu_hours
    from served_hours
    inner join changed
        on served_hours.run_id = changed.run_id
    group by served_hours.run_id, served_hours.role, served_hours.role_model
)
select
    counted.run_id,
    runs.benchmark,
    runs.model,
    counted.role,
    coalesce(counted.judge, roles.model) as role_model,
    counted.calls,
    counted.n_turns,
    counted.n_reused,
    counted.input_tokens,
    counted.output_tokens,
    counted.reasoning_tokens,
    counted.n_unknown_tokens,
    case when counted.n_unknown_tokens = 0 then tokens_usd(
        counted.input_tokens, counted.output_tokens, models.usd_per_million_input, models.usd_per_million_output
    ) * case
        when list_contains(runs.batched, trim(counted.role || ' ' || coalesce(counted.judge, ''))) then 0.5
        else 1
    end end as usd,
    served.server_hours,
    served.gpu_hours,
    served.server_hours * models.usd_per_hour as usd_hourly,
    runs.sandbox,
    runs.isolated
from counted
inner join runs
    on counted.run_id = runs.run_id
left join roles
    on counted.run_id = roles.run_id
    and counted.role = roles.role
    and coalesce(counted.judge, roles.model) = roles.model
left join served
    on counted.run_id = served.run_id
    and counted.role = served.role
    and roles.model = served.role_model
left join models
    on roles.model = models.model
    and roles.revision = models.revision
    and roles.weights_digest = models.weights_digest
    and roles.chat_template = models.chat_template
