"""Stratified samples of problems, reproducible by seed."""

import re
from collections.abc import Iterable, Mapping

from schemas.content_id import content_id
from tasks.benchmarks.setting import Option

ALL = "all"
_FORM = re.compile(r"stratified:(?P<n>[1-9]\d{0,6})(:(?P<seed>\d{1,9}))?")

SAMPLE = Option(
    name="sample",
    values=(ALL,),
    default=ALL,
    affects="scoring",
    help="only N problems, proportionally from each stratum, drawn with SEED (default 0)",
    pattern=_FORM.pattern,
    pattern_shown="stratified:N[:SEED]",
)
"""Option of a run. It is part of the run's id but not of episode ids, so samples share episodes."""


def draw_sample(sample: str, strata: Mapping[str, str]) -> frozenset[str]:
    """Return a sample of the problems in proportion to their strata, by largest remainders.

    If there are no more problems than the sample size, return all.

    Args:
        sample: Value of `SAMPLE`.
        strata: Stratum of each problem.
    """
    match = _FORM.fullmatch(sample)
    if match is None or int(match["n"]) >= len(strata):
        return frozenset(strata)
    n, seed = int(match["n"]), int(match["seed"] or 0)
    by_stratum: dict[str, list[str]] = {}
    for name in _in_order(strata, seed):
        by_stratum.setdefault(strata[name], []).append(name)
    quotas = {stratum: n * len(names) // len(strata) for stratum, names in by_stratum.items()}
    remainders = sorted(by_stratum, key=lambda s: (-(n * len(by_stratum[s]) % len(strata)), s))
    for stratum in remainders[: n - sum(quotas.values())]:
        quotas[stratum] += 1
    return frozenset(
        name for stratum, names in by_stratum.items() for name in names[: quotas[stratum]]
    )


def _in_order(names: Iterable[str], seed: int) -> list[str]:
    return sorted(names, key=lambda name: content_id(["stratified", seed, name]))
