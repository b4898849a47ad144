-- One row per model identity, with how many runs name its label as subject.
with
subjects as (
    select model, count(*) as n_runs, max(finished_at) as last_run_at from runs
    group by model
)
select
    models.model,
    models.provider,
    models.name,
    models.revision,
    models.weights_digest,
    models.usd_per_million_input,
    models.usd_per_million_output,
    coalesce(subjects.n_runs, 0) as n_runs,
    subjects.last_run_at
from models
left join subjects
    on models.model = subjects.model
order by models.model, models.revision, models.weights_digest, models.chat_template
