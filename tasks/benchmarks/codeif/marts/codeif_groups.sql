-- One row per score x group: level x turn, slot, pair of turns or strategy. Level 'all' exists only in runs of several levels.
with
placed as (
    select
        scores.run_id,
        unnest([coalesce(dialogs."level", 'unknown'), 'all']) as "level",
        scores.setting,
        scores.turn,
        scores.instruction_id,
        list_position([
            'base', 'Input-Output Conditions', 'Exception Handling', 'Edge Case Handling',
            'Annotation Coverage', 'Code Complexity', 'Code Standard', 'Context Usage Verification',
            'Context Usage Correctness Verification', 'Functionality Extension'
        ], scores.instruction_id) as slot,
        scores.score
    from changed_scores as scores
    left join changed_dialogs as dialogs using (run_id, episode_id)
    where scores.turn > 0
)
select placed.run_id, placed."level", places.axis, places.position, placed.score
from placed
cross join lateral (
    values
        -- In a two-round run every instruction except the base is in round 2.
        ('turn', if(placed.setting = 'codeif.two_round', least(placed.turn, 2), placed.turn)::varchar),
        -- Slot 8 is Functionality Extension in L1, which has no context strategies (slots 8 and 9 of L2 and L3).
        ('strategy_slot', case
            when placed."level" in ('L2', 'L3', 'all') or placed.slot <= 7 then placed.slot::varchar
            when placed.instruction_id = 'Functionality Extension' then '8'
        end),
        -- Turns 1 and 2 are pair 1: an instruction's round and its round of feedback.
        ('round_pair', if(placed.setting = 'codeif.dynamic', (placed.turn + 1) // 2, null)::varchar),
        ('strategy', placed.instruction_id)
) as places(axis, position)
where places.position is not null
    and (
        placed."level" <> 'all'
        or placed.run_id in (select run_id from placed group by run_id having count(distinct "level") > 2)
    )
