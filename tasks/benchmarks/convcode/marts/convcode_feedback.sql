-- One row per run x turn as the paper counts (0: the first answer): the user's messages, and their requests, tokens and cost.

-- A table of its own, not a view over `results`: it holds totals of messages, requests, tokens and USD. `results` holds
-- means of scores, and a mean times a count is not the exact total.
with
changed as (
    select runs.run_id, runs.benchmark, runs.dataset_version
    from runs
    inner join changed_runs
        on runs.run_id = changed_runs.run_id
    where runs.benchmark = 'convcode'
),
turns as (
    select results.run_id, results.position::bigint as turn
    from results
    inner join changed
        on results.run_id = changed.run_id
    where results.axis = 'turn'
    group by results.run_id, results.position
),
given as (
    select
        changed.run_id,
        messages.turn - 1 as turn,
        count(*) as n_feedback,
        count(messages.verbal_feedback) as n_verbal_feedback,
        count(*) filter (where messages.n_calls > 0) as n_paid,
        sum(messages.n_calls)::bigint as calls,
        sum(messages.input_tokens) filter (where messages.n_calls > 0) as input_tokens,
        sum(messages.output_tokens) filter (where messages.n_calls > 0) as output_tokens,
        count(*) filter (
            where messages.n_calls > 0 and (messages.input_tokens is null or messages.output_tokens is null)
        ) as n_unknown
    from changed
    inner join changed_attempts as attempts
        on changed.run_id = attempts.run_id
    inner join turn_rows as messages
        on attempts.episode_id = messages.episode_id
        and attempts.paid_by_run_id = messages.run_id
        and attempts.part = messages.part
        and attempts.attempt = messages.attempt
    where messages.role = 'user' and messages.turn > 1
    group by changed.run_id, messages.turn
),
prices as (
    select run_roles.run_id, models.usd_per_million_input as usd_input, models.usd_per_million_output as usd_output
    from run_roles
    inner join changed
        on run_roles.run_id = changed.run_id
    inner join models
        on run_roles.model = models.model
        and run_roles.revision = models.revision
        and run_roles.weights_digest = models.weights_digest
        and run_roles.chat_template = models.chat_template
    where run_roles.role = 'simulator'
),
feedback as (
    select
        turns.run_id,
        turns.turn,
        coalesce(given.n_feedback, 0) as n_feedback,
        coalesce(given.n_verbal_feedback, 0) as n_verbal_feedback,
        coalesce(given.calls, 0) as calls,
        case when coalesce(given.n_unknown, 0) = 0 then coalesce(given.input_tokens, 0)::bigint end as input_tokens,
        case when coalesce(given.n_unknown, 0) = 0 then coalesce(given.output_tokens, 0)::bigint end as output_tokens,
        case
            when coalesce(given.n_paid, 0) = 0 then 0.0
            when given.n_unknown = 0
                then tokens_usd(given.input_tokens, given.output_tokens, prices.usd_input, prices.usd_output)
        end as usd
    from turns
    left join given
        on turns.run_id = given.run_id
        and turns.turn = given.turn
    left join prices
        on turns.run_id = prices.run_id
),
feedback_in_all as (
    select
        run_id,
        sum(n_feedback)::bigint as n_feedback,
        sum(n_verbal_feedback)::bigint as n_verbal_feedback,
        sum(calls)::bigint as calls,
        case when count(input_tokens) = count(*) then sum(input_tokens)::bigint end as input_tokens,
        case when count(output_tokens) = count(*) then sum(output_tokens)::bigint end as output_tokens,
        case when count(usd) = count(*) then list_sum(list_sort(list(usd))) end as usd
    from feedback
    group by run_id
),
replayed as (
    select run_id, max(label_of(labels, 'reference_model')) as reference_model
    from changed_dialogs
    group by run_id
)
select
    feedback.run_id,
    feedback.turn,
    replayed.reference_model,
    feedback.n_feedback,
    feedback.n_verbal_feedback,
    feedback.calls as feedback_calls,
    feedback.input_tokens as feedback_input_tokens,
    feedback.output_tokens as feedback_output_tokens,
    feedback.usd as feedback_usd,
    feedback_in_all.n_feedback as n_feedback_in_all,
    feedback_in_all.n_verbal_feedback as n_verbal_feedback_in_all,
    feedback_in_all.calls as feedback_calls_in_all,
    feedback_in_all.input_tokens as feedback_input_tokens_in_all,
    feedback_in_all.output_tokens as feedback_output_tokens_in_all,
    feedback_in_all.usd as feedback_usd_in_all
from feedback
inner join feedback_in_all
    on feedback.run_id = feedback_in_all.run_id
left join replayed
    on feedback.run_id = replayed.run_id
