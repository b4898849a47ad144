-- One row per run that stopped early x metric that decided so. No usual interval or test of such a run is valid.
create view stopped_runs as
select
    run_id,
    metric
from decisions
where decision <> 'all_asked' and n_asked < n_total
