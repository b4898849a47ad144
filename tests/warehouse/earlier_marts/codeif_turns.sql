-- One row per run x level x axis (turn, strategy_slot, round_pair) x position on it; level 'all' only in runs of several levels.
with
changed as (
    select runs.run_id, runs.benchmark, runs.model, runs.setting, runs.dataset_version, runs.sandbox, runs.isolated
    from runs
    inner join changed_runs
        on runs.run_id = changed_runs.run_id
    where runs.benchmark = 'codeif'
),
slots(instruction_id, strategy_slot, slot_with_contexts) as (
    values
        ('base', 1, 1),
        ('Input-Output Conditions', 2, 2),
        ('Exception Handling', 3, 3),
        ('Edge Case Handling', 4, 4),
        ('Annotation Coverage', 5, 5),
        ('Code Complexity', 6, 6),
        ('Code Standard', 7, 7),
        ('Context Usage Verification', null, 8),
        ('Context Usage Correctness Verification', null, 9),
        ('Functionality Extension', 8, 10)
),
episode_levels as (
    select episodes.run_id, episodes.episode_id, problems.level
    from changed_episodes as episodes
    inner join changed
        on episodes.run_id = changed.run_id
    inner join problems
        on episodes.benchmark = problems.benchmark
        and episodes.dataset_version = problems.dataset_version
        and episodes.problem_id = problems.problem_id
        and episodes.row_digest = problems.row_digest
),
values_of_levels as (
    select
        scores.run_id,
        scores.problem_id,
        changed.setting,
        -- Of two rounds, all instructions are given in the second one.
        case when changed.setting = 'codeif.two_round' then least(scores.turn, 2) else scores.turn end as turn,
        if(episode_levels.level in ('L2', 'L3'), slots.slot_with_contexts, slots.strategy_slot) as strategy_slot,
        slots.slot_with_contexts,
        scores.metric,
        scores.value,
        scores.unscored_reason,
        coalesce(episode_levels.level, 'unknown') as level
    from scores
    inner join changed
        on scores.run_id = changed.run_id
    left join episode_levels
        on scores.run_id = episode_levels.run_id
        and scores.episode_id = episode_levels.episode_id
    left join slots
        on scores.instruction_id = slots.instruction_id
    where scores.turn > 0
),
runs_of_several_levels as (
    select run_id from values_of_levels
    group by run_id
    having count(distinct level) > 1
),
values_and_all as (
    select run_id, problem_id, setting, turn, strategy_slot, metric, value, unscored_reason, level from values_of_levels
    union all
    -- L1 has its Functionality Extension where the others have a context's strategy: all levels share the others' slots.
    select run_id, problem_id, setting, turn, slot_with_contexts, metric, value, unscored_reason, 'all' as level
    from values_of_levels
    semi join runs_of_several_levels using (run_id)
),
placed as (
    select run_id, level, 'turn' as axis, turn as position, problem_id, metric, value, unscored_reason
    from values_and_all
    union all
    select run_id, level, 'strategy_slot' as axis, strategy_slot as position, problem_id, metric, value, unscored_reason
    from values_and_all
    where strategy_slot is not null
    union all
    -- Turn 1-2 is pair 1, turn 3-4 is pair 2: an instruction's round and the feedback that it may need.
    select run_id, level, 'round_pair' as axis, (turn + 1) // 2 as position, problem_id, metric, value, unscored_reason
    from values_and_all
    where setting = 'codeif.dynamic'
),
positions as (
    select
        run_id,
        level,
        axis,
        position,
        pooled(value, problem_id, unscored_reason, metric = 'instruction_accuracy') as ia,
        pooled(value, problem_id, unscored_reason, metric = 'conversation_accuracy_strict') as ca_strict,
        pooled(value, problem_id, unscored_reason, metric = 'conversation_accuracy_fraction') as ca_fraction,
        pooled(value, problem_id, unscored_reason, metric = 'instruction_forgetting_ratio') as ifr,
        pooled(value, problem_id, unscored_reason, metric = 'instruction_following_efficiency') as ife
    from placed
    group by run_id, level, axis, position
)
select
    positions.run_id,
    changed.benchmark,
    changed.model,
    changed.setting,
    changed.dataset_version,
    positions.level,
    positions.axis,
    positions.position::bigint as turn,
    positions.ia.mean as ia,
    positions.ia.low as ia_low,
    positions.ia.high as ia_high,
    positions.ca_strict.mean as ca_strict,
    positions.ca_strict.low as ca_strict_low,
    positions.ca_strict.high as ca_strict_high,
    positions.ca_fraction.mean as ca_fraction,
    positions.ca_fraction.low as ca_fraction_low,
    positions.ca_fraction.high as ca_fraction_high,
    positions.ifr.mean as ifr,
    positions.ifr.low as ifr_low,
    positions.ifr.high as ifr_high,
    positions.ife.mean as ife,
    positions.ife.low as ife_low,
    positions.ife.high as ife_high,
    positions.ia.n,
    positions.ia.n_unscored,
    positions.ia.n_not_applicable,
    positions.ca_strict.n as n_ca,
    positions.ca_strict.n_unscored as n_ca_unscored,
    positions.ca_strict.n_not_applicable as n_ca_not_applicable,
    positions.ifr.n as n_ifr,
    positions.ifr.n_unscored as n_ifr_unscored,
    positions.ifr.n_not_applicable as n_ifr_not_applicable,
    positions.ife.n as n_ife,
    positions.ife.n_unscored as n_ife_unscored,
    positions.ife.n_not_applicable as n_ife_not_applicable,
    changed.sandbox,
    changed.isolated
from positions
inner join changed
    on positions.run_id = changed.run_id
