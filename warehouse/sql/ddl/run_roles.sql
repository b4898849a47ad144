-- One row per run x role (subject, simulator, judge) x model in that role.
create view run_roles as
with
specs as (
    select run_id, spec_json from runs
),
roles as (
    select s.run_id, r.role, json_extract(s.spec_json, '$.' || r.role) as identity
    from specs as s
    cross join (values ('subject'), ('simulator'), ('judge')) as r(role)
    union
    select s.run_id, 'judge' as role, json_extract(j.rubric, '$.judge') as identity
    from specs as s
    cross join unnest(json_extract(s.spec_json, '$.judges[*]')) as j(rubric)
)
select
    run_id,
    role,
    (identity ->> '$.provider') || ':' || (identity ->> '$.name') as model,
    identity ->> '$.revision' as revision,
    identity ->> '$.weights_digest' as weights_digest,
    identity ->> '$.chat_template' as chat_template
from roles
where json_type(identity) = 'OBJECT'
