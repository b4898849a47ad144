"""Datasets, one module each, and dialogues of any dataset normalised by UniDial-EvalKit."""

from collections.abc import Sequence
from typing import Any

from tasks.benchmarks.unidial.datasets import (
    locomo,
    longmemeval,
    mathchat,
    memorycode,
    mt_bench_101,
    mt_eval,
    multi_challenge,
    multi_if,
    personamem,
    safedialbench,
)
from tasks.benchmarks.unidial.datasets.source import Dataset, MetricConfig

DATASETS = {
    module.DATASET.name: module.DATASET
    for module in (
        mt_eval,
        mt_bench_101,
        multi_challenge,
        longmemeval,
        locomo,
        safedialbench,
        mathchat,
        memorycode,
        multi_if,
        personamem,
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
