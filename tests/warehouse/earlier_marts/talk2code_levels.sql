-- One row per run x axis (level, archetype, language, all) x value of that axis: the paper's Table 1, with n beside each mean.
with
changed as (
    select
        runs.run_id,
        runs.benchmark,
        runs.model,
        runs.setting,
        runs.dataset_version,
        runs.spec_json,
        runs.sandbox,
        runs.isolated
    from runs
    inner join changed_runs
        on runs.run_id = changed_runs.run_id
    where runs.benchmark = 'talk2code'
),
users as (
    select
        dialogs.dataset_version,
        dialogs.row_digest,
        max(list_filter(dialogs.labels, lambda label: label."key" = 'level')[1]."value") as level,
        max(list_filter(dialogs.labels, lambda label: label."key" = 'archetype')[1]."value") as archetype,
        max(list_filter(dialogs.labels, lambda label: label."key" = 'language')[1]."value") as language
    from dialogs
    where dialogs.benchmark = 'talk2code'
    group by dialogs.dataset_version, dialogs.row_digest
),
played as (
    select
        changed.run_id,
        episodes.episode_id,
        users.level,
        users.archetype,
        users.language
    from changed
    inner join changed_episodes as episodes
        on changed.run_id = episodes.run_id
    inner join users
        on changed.dataset_version = users.dataset_version
        and episodes.row_digest = users.row_digest
),
measured as (
    select
        played.run_id,
        played.level,
        played.archetype,
        played.language,
        played.episode_id,
        scores.problem_id,
        scores.metric,
        scores.value,
        scores.unscored_reason
    from played
    inner join scores
        on played.run_id = scores.run_id
        and played.episode_id = scores.episode_id
    where scores.turn = 0
),
grouped as (
    select
        run_id,
        level,
        archetype,
        language,
        case
            when grouping(archetype) = 0 then 'archetype'
            when grouping(level) = 0 then 'level'
            when grouping(language) = 0 then 'language'
            else 'all'
        end as axis,
        count(distinct episode_id) as n_dialogues,
        pooled(value, problem_id, unscored_reason, metric = 'test_case_pass_rate') as tp,
        pooled(value, problem_id, unscored_reason, metric = 'success_rate') as sr,
        pooled(value, problem_id, unscored_reason, metric = 'question_design', is_share := false) as qd,
        pooled(value, problem_id, unscored_reason, metric = 'cognitive_load', is_share := false) as cl,
        pooled(value, problem_id, unscored_reason, metric = 'interaction_fluency', is_share := false) as if_,
        pooled(value, problem_id, unscored_reason, metric = 'user_adaptability', is_share := false) as ua,
        pooled(value, problem_id, unscored_reason, metric = 'communication_efficiency', is_share := false) as ce,
        pooled(value, problem_id, unscored_reason, metric = 'learning_support', is_share := false) as ls,
        pooled(value, problem_id, unscored_reason, metric = 'interaction_experience', is_share := false) as experience,
        pooled(value, problem_id, unscored_reason, metric = 'entity_consistency') as ec,
        pooled(value, problem_id, unscored_reason, metric = 'entity_satisfaction', is_share := false) as es,
        pooled(value, problem_id, unscored_reason, metric = 'semantic_consistency') as sc,
        pooled(value, problem_id, unscored_reason, metric = 'semantic_satisfaction', is_share := false) as ss,
        pooled(value, problem_id, unscored_reason, metric = 'delivery_rate') as delivered,
        pooled(value, problem_id, unscored_reason, metric = 'user_leakage') as user_leakage,
        pooled(value, problem_id, unscored_reason, metric = 'level_kept') as level_kept,
        pooled(value, problem_id, unscored_reason, metric = 'reference_disclosure') as disclosed
    from measured
    group by grouping sets ((run_id), (run_id, level), (run_id, level, archetype), (run_id, language))
)
select
    changed.run_id,
    changed.benchmark,
    changed.model,
    changed.setting,
    regexp_extract(changed.setting, '^[^.]*\.([a-z]+)', 1) as track,
    changed.dataset_version,
    changed.spec_json ->> '$.episode_options' as episode_options,
    changed.spec_json ->> '$.scoring_options' as scoring_options,
    grouped.axis,
    grouped.level,
    grouped.archetype,
    grouped.language,
    grouped.n_dialogues,
    grouped.tp.mean as tp,
    grouped.tp.low as tp_low,
    grouped.tp.high as tp_high,
    grouped.tp.n as n_tp,
    grouped.tp.n_unscored as n_tp_unscored,
    grouped.tp.n_not_applicable as n_tp_not_applicable,
    grouped.sr.mean as sr,
    grouped.sr.low as sr_low,
    grouped.sr.high as sr_high,
    grouped.sr.n as n_sr,
    grouped.sr.n_unscored as n_sr_unscored,
    grouped.sr.n_not_applicable as n_sr_not_applicable,
    grouped.qd.mean as qd,
    grouped.qd.low as qd_low,
    grouped.qd.high as qd_high,
    grouped.qd.n as n_qd,
    grouped.qd.n_unscored as n_qd_unscored,
    grouped.qd.n_not_applicable as n_qd_not_applicable,
    grouped.cl.mean as cl,
    grouped.cl.low as cl_low,
    grouped.cl.high as cl_high,
    grouped.cl.n as n_cl,
    grouped.cl.n_unscored as n_cl_unscored,
    grouped.cl.n_not_applicable as n_cl_not_applicable,
    grouped.if_.mean as if_,
    grouped.if_.low as if_low,
    grouped.if_.high as if_high,
    grouped.if_.n as n_if,
    grouped.if_.n_unscored as n_if_unscored,
    grouped.if_.n_not_applicable as n_if_not_applicable,
    grouped.ua.mean as ua,
    grouped.ua.low as ua_low,
    grouped.ua.high as ua_high,
    grouped.ua.n as n_ua,
    grouped.ua.n_unscored as n_ua_unscored,
    grouped.ua.n_not_applicable as n_ua_not_applicable,
    grouped.ce.mean as ce,
    grouped.ce.low as ce_low,
    grouped.ce.high as ce_high,
    grouped.ce.n as n_ce,
    grouped.ce.n_unscored as n_ce_unscored,
    grouped.ce.n_not_applicable as n_ce_not_applicable,
    grouped.ls.mean as ls,
    grouped.ls.low as ls_low,
    grouped.ls.high as ls_high,
    grouped.ls.n as n_ls,
    grouped.ls.n_unscored as n_ls_unscored,
    grouped.ls.n_not_applicable as n_ls_not_applicable,
    grouped.experience.mean as experience,
    grouped.experience.low as experience_low,
    grouped.experience.high as experience_high,
    grouped.experience.n as n_experience,
    grouped.experience.n_unscored as n_experience_unscored,
    grouped.experience.n_not_applicable as n_experience_not_applicable,
    grouped.ec.mean as ec,
    grouped.ec.low as ec_low,
    grouped.ec.high as ec_high,
    grouped.ec.n as n_ec,
    grouped.ec.n_unscored as n_ec_unscored,
    grouped.ec.n_not_applicable as n_ec_not_applicable,
    grouped.es.mean as es,
    grouped.es.low as es_low,
    grouped.es.high as es_high,
    grouped.es.n as n_es,
    grouped.es.n_unscored as n_es_unscored,
    grouped.es.n_not_applicable as n_es_not_applicable,
    grouped.sc.mean as sc,
    grouped.sc.low as sc_low,
    grouped.sc.high as sc_high,
    grouped.sc.n as n_sc,
    grouped.sc.n_unscored as n_sc_unscored,
    grouped.sc.n_not_applicable as n_sc_not_applicable,
    grouped.ss.mean as ss,
    grouped.ss.low as ss_low,
    grouped.ss.high as ss_high,
    grouped.ss.n as n_ss,
    grouped.ss.n_unscored as n_ss_unscored,
    grouped.ss.n_not_applicable as n_ss_not_applicable,
    grouped.delivered.mean as delivered,
    grouped.delivered.low as delivered_low,
    grouped.delivered.high as delivered_high,
    grouped.delivered.n as n_delivered,
    grouped.delivered.n_unscored as n_delivered_unscored,
    grouped.delivered.n_not_applicable as n_delivered_not_applicable,
    grouped.user_leakage.mean as user_leakage,
    grouped.user_leakage.low as user_leakage_low,
    grouped.user_leakage.high as user_leakage_high,
    grouped.user_leakage.n as n_user_leakage,
    grouped.user_leakage.n_unscored as n_user_leakage_unscored,
    grouped.user_leakage.n_not_applicable as n_user_leakage_not_applicable,
    grouped.level_kept.mean as level_kept,
    grouped.level_kept.low as level_kept_low,
    grouped.level_kept.high as level_kept_high,
    grouped.level_kept.n as n_level_kept,
    grouped.level_kept.n_unscored as n_level_kept_unscored,
    grouped.level_kept.n_not_applicable as n_level_kept_not_applicable,
    grouped.disclosed.mean as disclosed,
    grouped.disclosed.low as disclosed_low,
    grouped.disclosed.high as disclosed_high,
    grouped.disclosed.n as n_disclosed,
    grouped.disclosed.n_unscored as n_disclosed_unscored,
    grouped.disclosed.n_not_applicable as n_disclosed_not_applicable,
    changed.sandbox,
    changed.isolated
from changed
inner join grouped
    on changed.run_id = grouped.run_id
