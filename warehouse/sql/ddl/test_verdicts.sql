-- One row per published run x episode x turn x instruction whose tests were run on that turn's answer, with the run's isolation.
create view test_verdicts as
select
    tested.run_id,
    tested.benchmark,
    tested.model,
    tested.episode_id,
    tested.problem_id,
    tested.sample,
    tested.turn,
    tested.instruction_id,
    tested.outcome,
    tested.detail,
    tested.reason,
    tested.duration_s,
    tested.verdict_id,
    tested.sandbox,
    tested.n_cases,
    tested.n_passed,
    runs.isolated
from test_verdict_rows as tested
inner join runs
    on tested.run_id = runs.run_id
