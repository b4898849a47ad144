-- One row per run x role (subject, simulator, judge) x rubric: its sampling parameters, including limits of the setting.
create view run_samplings as
select
    run_id,
    s.sampling.role as role,
    s.sampling.rubric as rubric,
    s.sampling.model as model,
    s.sampling.temperature as temperature,
    s.sampling.top_p as top_p,
    s.sampling.max_tokens as max_tokens,
    s.sampling.stop as stop,
    s.sampling.request as request,
    s.sampling.system_prompt as system_prompt
from runs
cross join unnest(samplings) as s(sampling)
