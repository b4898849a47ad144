-- One row per run x episode x turn x instruction. Of rows that a kill left twice, the one with the audit's costs counts.
select
    run_id,
    benchmark,
    model,
    episode_id,
    problem_id,
    sample,
    turn,
    instruction_id,
    verdict_id,
    decoy,
    outcome,
    is_sound,
    detail,
    n_decoys,
    n_runs,
    duration_s
from incoming
qualify row_number() over (
    partition by run_id, episode_id, turn, instruction_id
    order by n_runs desc, outcome, verdict_id
) = 1
