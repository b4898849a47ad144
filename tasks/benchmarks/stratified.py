"""A sample of the problems that has each stratum's share of them, the same whenever the seed is."""

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
    help="ask N problems only, of each stratum its share, drawn by SEED (0 unless told)",
    pattern=_FORM.pattern,
    pattern_shown="stratified:N[:SEED]",
)
"""A run's own choice, in its id and not in its dialogues': they are those of a run that has all."""


def drawn(sample: str, strata: Mapping[str, str]) -> frozenset[str]:
    """The problems of a sample, in proportion to their strata by largest remainders; all where there are no more than asked for.

    Args:
        sample: a value of `SAMPLE`.
        strata: problem -> its stratum.
    """
    asked = _FORM.fullmatch(sample)
    if asked is None or int(asked["n"]) >= len(strata):
        return frozenset(strata)
    n, seed = int(asked["n"]), int(asked["seed"] or 0)
    of: dict[str, list[str]] = {}
    for name in _in_order(strata, seed):
        of.setdefault(strata[name], []).append(name)
    whole = {stratum: n * len(names) // len(strata) for stratum, names in of.items()}
    remainders = sorted(of, key=lambda stratum: (-(n * len(of[stratum]) % len(strata)), stratum))
    for stratum in remainders[: n - sum(whole.values())]:
        whole[stratum] += 1
    return frozenset(name for stratum, names in of.items() for name in names[: whole[stratum]])


def _in_order(names: Iterable[str], seed: int) -> list[str]:
    return sorted(names, key=lambda name: content_id(["stratified", seed, name]))
