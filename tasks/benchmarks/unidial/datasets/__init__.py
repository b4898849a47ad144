"""Datasets, one module each, and dialogues of any dataset normalised by UniDial-EvalKit."""

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
