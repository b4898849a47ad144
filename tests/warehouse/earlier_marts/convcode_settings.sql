-- One row per run x turn as the paper counts (0: the first answer); what holds of the whole run stands in each of its rows.
with
changed as (
    select
        runs.run_id,
        runs.benchmark,
        runs.model,
        runs.setting,
        runs.dataset_version,
        runs.spec_json,
        runs.sandbox,
        runs.isolated
    from runs
    inner join changed_runs
        on runs.run_id = changed_runs.run_id
    where runs.benchmark = 'convcode'
),
measured as (
    select scores.run_id, scores.turn, scores.problem_id, scores.metric, scores.value, scores.unscored_reason
    from scores
    inner join changed
        on scores.run_id = changed.run_id
),
by_turn as (
    select
        run_id,
        turn - 1 as turn,
        pooled(value, problem_id, unscored_reason, metric = 'pass_at_1') as pass_at_1,
        stable_mean(case when metric = 'pass_at_1_upstream' then value end) as pass_at_1_upstream
    from measured
    where turn > 0
    group by run_id, turn
),
by_run as (
    select
        run_id,
        pooled(value, problem_id, unscored_reason, metric = 'mrr') as mrr,
        stable_mean(case when metric = 'mrr_upstream' then value end) as mrr_upstream,
        pooled(value, problem_id, unscored_reason, metric = 'recall') as recall
    from measured
    where turn = 0
    group by run_id
),
lengths as (
    select run_id, max(turn) as turns from by_turn group by run_id
),
leakage as (
    select
        run_id,
        stable_mean(case when metric = 'mentions_reference' then value end) as mentions_reference,
        count(value) filter (where metric = 'mentions_reference') as n_mentions_reference,
        stable_mean(case when metric = 'contains_refined_code' then value end) as contains_refined_code,
        count(value) filter (where metric = 'contains_refined_code') as n_contains_refined_code,
        count(*) filter (where metric = 'contains_refined_code' and is_fault(unscored_reason)) as n_contains_refined_code_unscored
    from measured
    where metric in ('mentions_reference', 'contains_refined_code')
    group by run_id
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
        by_turn.run_id,
        by_turn.turn,
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
    from by_turn
    left join given
        on by_turn.run_id = given.run_id
        and by_turn.turn = given.turn
    left join prices
        on by_turn.run_id = prices.run_id
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
one_dialog as (
    select episodes.run_id, max(episodes.row_digest) as row_digest
    from changed_episodes as episodes
    inner join changed
        on episodes.run_id = changed.run_id
    group by episodes.run_id
),
replayed as (
    select
        one_dialog.run_id,
        max(list_filter(dialogs.labels, lambda label: label."key" = 'reference_model')[1]."value") as reference_model
    from one_dialog
    inner join changed
        on one_dialog.run_id = changed.run_id
    inner join dialogs
        on changed.benchmark = dialogs.benchmark
        and changed.dataset_version = dialogs.dataset_version
        and one_dialog.row_digest = dialogs.row_digest
    group by one_dialog.run_id
)
select
    changed.run_id,
    changed.benchmark,
    changed.model,
    changed.setting,
    regexp_extract(changed.setting, '^[^.]*\.(\w+)\[', 1) as part,
    regexp_extract(changed.setting, '\[(.*)\]$', 1) as feedback,
    changed.dataset_version,
    changed.spec_json ->> '$.episode_options' as options,
    replayed.reference_model,
    lengths.turns,
    by_turn.turn,
    by_turn.pass_at_1.mean as pass_at_1,
    by_turn.pass_at_1.low as pass_at_1_low,
    by_turn.pass_at_1.high as pass_at_1_high,
    by_turn.pass_at_1.n,
    by_turn.pass_at_1.n_unscored,
    by_turn.pass_at_1.n_not_applicable,
    by_turn.pass_at_1_upstream,
    by_run.mrr.mean as mrr,
    by_run.mrr.low as mrr_low,
    by_run.mrr.high as mrr_high,
    by_run.mrr.n as n_mrr,
    by_run.mrr.n_unscored as n_mrr_unscored,
    by_run.mrr.n_not_applicable as n_mrr_not_applicable,
    by_run.mrr_upstream,
    by_run.recall.mean as recall,
    by_run.recall.low as recall_low,
    by_run.recall.high as recall_high,
    by_run.recall.n as n_recall,
    by_run.recall.n_unscored as n_recall_unscored,
    by_run.recall.n_not_applicable as n_recall_not_applicable,
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
    feedback_in_all.usd as feedback_usd_in_all,
    leakage.mentions_reference,
    coalesce(leakage.n_mentions_reference, 0) as n_mentions_reference,
    leakage.contains_refined_code,
    coalesce(leakage.n_contains_refined_code, 0) as n_contains_refined_code,
    coalesce(leakage.n_contains_refined_code_unscored, 0) as n_contains_refined_code_unscored,
    changed.sandbox,
    changed.isolated
from changed
inner join by_turn
    on changed.run_id = by_turn.run_id
inner join lengths
    on changed.run_id = lengths.run_id
inner join feedback
    on by_turn.run_id = feedback.run_id
    and by_turn.turn = feedback.turn
inner join feedback_in_all
    on changed.run_id = feedback_in_all.run_id
left join by_run
    on changed.run_id = by_run.run_id
left join leakage
    on changed.run_id = leakage.run_id
left join replayed
    on changed.run_id = replayed.run_id
