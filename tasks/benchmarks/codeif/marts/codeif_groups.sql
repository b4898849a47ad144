-- One row per score x group: level x turn, slot, pair of turns or strategy. Level 'all' exists only in runs of several levels.
with
slots(instruction_id, slot, slot_with_contexts) as (
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
placed as (
    select
        scores.run_id,
        coalesce(dialogs."level", 'unknown') as "level",
        -- In a two-round run every instruction except the base is in round 2.
        if(scores.setting = 'codeif.two_round', least(scores.turn, 2), scores.turn) as turn,
        -- Turns 1 and 2 are pair 1, turns 3 and 4 are pair 2: an instruction's round and its round of feedback.
        if(scores.setting = 'codeif.dynamic', (scores.turn + 1) // 2, null) as pair,
        if(dialogs."level" in ('L2', 'L3'), slots.slot_with_contexts, slots.slot) as slot,
        slots.slot_with_contexts,
        scores.instruction_id,
        scores.score
    from changed_scores as scores
    left join changed_dialogs as dialogs
        on scores.run_id = dialogs.run_id
        and scores.episode_id = dialogs.episode_id
    left join slots
        on scores.instruction_id = slots.instruction_id
    where scores.turn > 0
),
levels as (
    select run_id, "level", turn, pair, slot, instruction_id, score from placed
    union all
    -- Slot 8 is Functionality Extension in L1 and a context strategy in L2 and L3, so level 'all' uses the slots of L2 and L3.
    select run_id, 'all' as "level", turn, pair, slot_with_contexts, instruction_id, score from placed
    where run_id in (select run_id from placed group by run_id having count(distinct "level") > 1)
)
select levels.run_id, levels."level", places.axis, places.position, levels.score
from levels
cross join lateral (
    values
        ('turn', levels.turn::varchar),
        ('strategy_slot', levels.slot::varchar),
        ('round_pair', levels.pair::varchar),
        ('strategy', levels.instruction_id)
) as places(axis, position)
where places.position is not null
