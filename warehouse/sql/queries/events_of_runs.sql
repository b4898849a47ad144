-- One row per event of $run_ids with a kind in $events, from comparisons and histories.
select
    event,
    setting,
    model,
    metric,
    other_mean as value_before,
    mean as value_after
from comparisons
where list_contains($run_ids::varchar[], run_id) and list_contains($events::varchar[], event)
union
select
    event,
    setting,
    model,
    metric,
    event_before as value_before,
    event_after as value_after
from history
where list_contains($run_ids::varchar[], run_id) and list_contains($events::varchar[], event)
order by all
