-- One row per published run x episode x turn x instruction x metric (turn 0: the whole episode), with the run's isolation.
create view scores as
select
    measured.run_id,
    measured.benchmark,
    measured.model,
    measured.episode_id,
    measured.problem_id,
    measured.sample,
    measured.turn,
    measured.instruction_id,
    measured.metric,
    measured.metric_version,
    measured.value,
    measured.unscored_reason,
    runs.sandbox,
    runs.isolated
from score_rows as measured
inner join runs
    on measured.run_id = runs.run_id
