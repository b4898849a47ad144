-- One row per level x published run in $run_ids, or every published run: those with the most tasks first, the newest of them first.
select
    levels.run_id,
    levels.model,
    levels.dataset_version,
    levels.track,
    levels.level,
    levels.tp,
    levels.n_tp,
    levels.n_tp_unscored,
    levels.sr,
    levels.n_sr,
    levels.n_sr_unscored,
    levels.qd,
    levels.n_qd,
    levels.n_qd_unscored,
    levels.cl,
    levels.n_cl,
    levels.n_cl_unscored,
    levels.if_,
    levels.n_if,
    levels.n_if_unscored,
    levels.ua,
    levels.n_ua,
    levels.n_ua_unscored,
    levels.ce,
    levels.n_ce,
    levels.n_ce_unscored,
    levels.ls,
    levels.n_ls,
    levels.n_ls_unscored,
    levels.experience,
    levels.n_experience,
    levels.n_experience_unscored,
    levels.ec,
    levels.n_ec,
    levels.n_ec_unscored,
    levels.es,
    levels.n_es,
    levels.n_es_unscored,
    levels.sc,
    levels.n_sc,
    levels.n_sc_unscored,
    levels.ss,
    levels.n_ss,
    levels.n_ss_unscored,
    levels.isolated
from talk2code_levels as levels
inner join runs
    on levels.run_id = runs.run_id
where
    levels.axis = 'level'
    and (len($run_ids::varchar[]) = 0 or list_contains($run_ids::varchar[], levels.run_id))
order by coalesce(runs.task_share, 1.0) desc, runs.finished_at desc, levels.run_id, levels.level
