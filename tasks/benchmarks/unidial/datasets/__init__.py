"""Datasets, and dialogues of any dataset normalised by UniDial-EvalKit."""

from collections.abc import Sequence
from typing import Any

from tasks.benchmarks.unidial.datasets import (
    locomo,
    longmemeval,
    mathchat,
    memorycode,
    mt_eval,
    one_line,
    personamem,
)
from tasks.benchmarks.unidial.datasets.source import Dataset, MetricConfig

DATASETS = {
    dataset.name: dataset
    for dataset in (
        mt_eval.DATASET,
        one_line.MT_BENCH_101,
        one_line.MULTI_CHALLENGE,
        longmemeval.DATASET,
        locomo.DATASET,
        one_line.SAFEDIALBENCH,
        mathchat.DATASET,
        memorycode.DATASET,
        one_line.MULTI_IF,
        personamem.DATASET,
    )
}


def metrics_of(dataset: Dataset | None, source: dict[str, Any]) -> Sequence[MetricConfig]:
    """Return the metrics of a turn that lists none, derived from its `dynamic_config_source`.

    Without a dataset, use the first dataset that derives metrics from this source.
    """
    if dataset is not None:
        return dataset.metrics_of(source)
    return next(
        (
            metrics
            for candidate in DATASETS.values()
            if source and candidate.says_source and (metrics := candidate.metrics_of(source))
        ),
        (),
    )
