-- One row per run in $run_ids, or else per published run: its figures, newest run first.
select
    settings.part,
    settings.model,
    settings.dataset_version,
    settings.feedback,
    settings.turns,
    settings.options,
    settings.reference_model,
    settings.mrr,
    settings.mrr_upstream,
    settings.recall,
    settings.n_mrr,
    settings.n_mrr_unscored,
    settings.n_recall,
    settings.n_recall_unscored,
    settings.isolated,
    runs.spec_json,
    runs.task_share,
    runs.subsample_seed
from convcode_settings as settings
inner join runs
    on settings.run_id = runs.run_id
where
    settings.turn = 0
    and (len($run_ids::varchar[]) = 0 or list_contains($run_ids::varchar[], settings.run_id))
order by runs.finished_at desc, settings.run_id
