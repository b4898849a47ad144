-- One row per run x kind of task. Average, aptitude (90th percentile) and unreliability (90th minus 10th) over the samples of a problem.
WITH by_problem AS (
    SELECT
        s.run_id,
        p.level AS task,
        s.problem_id,
        avg(s.value) AS average,
        quantile_cont(s.value, 0.9) AS aptitude,
        quantile_cont(s.value, 0.9) - quantile_cont(s.value, 0.1) AS unreliability,
        count(s.value) AS n_samples
    FROM scores AS s
    INNER JOIN runs AS r ON s.run_id = r.run_id
    INNER JOIN problems AS p
        ON s.benchmark = p.benchmark AND s.problem_id = p.problem_id AND r.dataset_version = p.dataset_version
    WHERE s.benchmark = 'lost_in_conversation' AND s.value IS NOT NULL
    GROUP BY ALL
)

SELECT
    b.run_id,
    r.setting,
    r.model,
    b.task,
    avg(b.average) AS average,
    avg(b.aptitude) AS aptitude,
    avg(b.unreliability) AS unreliability,
    count(*) AS n,
    min(b.n_samples) AS n_samples
FROM by_problem AS b
INNER JOIN runs AS r ON b.run_id = r.run_id
GROUP BY ALL
