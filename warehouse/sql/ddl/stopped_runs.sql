-- One row per run that stopped early x metric that decided. Ordinary intervals and tests of such a run are invalid.
create view stopped_runs as
select
    run_id,
    metric
from decisions
where decision <> 'all_asked' and n_asked < n_total
