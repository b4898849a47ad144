-- One row per turn x instruction of the episode $episode_id as the run $run_id tested it.
select
    turn,
    instruction_id,
    outcome,
    detail,
    duration_s,
    verdict_id,
    sandbox
from test_verdicts
where episode_id = $episode_id and run_id = $run_id
order by turn, instruction_id
