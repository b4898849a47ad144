-- One row per judged run x count in its record that differs from its rows.
with
records as (
    select r.run_id, r.n_episodes, r.n_infra, r.n_unscored
    from runs as r
    semi join judged_runs as judged on r.run_id = judged.run_id
),
members as (
    select run_id, count(*) as n from run_episodes where run_id in (select run_id from records) group by run_id
),
missing as (
    select run_id, count(*) as n from score_rows
    where is_fault(unscored_reason) and run_id in (select run_id from records)
    group by run_id
),
counted as (
    select
        r.run_id,
        r.n_episodes,
        r.n_infra,
        r.n_unscored,
        coalesce(m.n, 0) as n_members,
        coalesce(u.n, 0) as n_missing
    from records as r
    left join members as m on r.run_id = m.run_id
    left join missing as u on r.run_id = u.run_id
),
faults as (
    select
        run_id,
        'record_counts: ' || n_episodes || ' episodes are recorded (' || n_infra || ' infra), ' || n_members
        || ' are contained' as fault
    from counted
    where n_members > n_episodes or n_members + n_infra < n_episodes
    union all
    select
        run_id,
        'record_counts: ' || n_unscored || ' unscored are recorded, ' || n_missing || ' scores are missing through a fault'
        as fault
    from counted
    where n_unscored <> n_missing
)
select run_id, fault from faults
order by run_id, fault
