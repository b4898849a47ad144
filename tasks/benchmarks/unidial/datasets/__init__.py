"""The datasets, each a file; and dialogues that UniDial-EvalKit has normalised, whatever dataset they are of."""

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
    one.DATASET.name: one.DATASET
    for one in (
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
