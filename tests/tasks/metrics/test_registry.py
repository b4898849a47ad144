"""Metrics are found by name and carry their version."""

import pytest

from schemas.errors import UnknownName
from tasks.benchmarks.registry import BENCHMARKS
from tasks.metrics.registry import METRICS, metric


def test_every_metric_of_every_benchmark_is_known() -> None:
    for name in BENCHMARKS.names():
        assert set(BENCHMARKS.load(name).scores.metrics) <= set(METRICS.names())


def test_a_metric_has_name_version_and_a_line_that_says_what_it_is() -> None:
    metric = METRICS.load("instruction_forgetting_ratio")
    assert (metric.name, metric.version) == ("instruction_forgetting_ratio", 1)
    assert metric.summary.startswith("Return the share of earlier passed instructions")


def test_an_unknown_metric_names_those_that_are_known() -> None:
    with pytest.raises(UnknownName, match=r"'instruction_acuracy'; known: .*instruction_accuracy"):
        METRICS.load("instruction_acuracy")


def test_two_functions_of_different_modules_cannot_share_a_name() -> None:
    with pytest.raises(ValueError, match="rename one of them"):

        @metric("instruction_accuracy")
        def other() -> float:
            return 0.0
