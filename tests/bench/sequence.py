"""How much of a data set is asked until a comparison is decided.

Run it with `python -m tests.bench.sequence`.

The first table draws data sets of wins, losses and ties with a known mean difference. The second
one replays the 36 pairs of the nine models whose CodeIF-Bench verdicts are published.
`tests/fixtures/codeif/passed.csv` counts them by problem: how many of the verdicts of all turns
passed, of how many.
"""

import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path

import numpy as np

from tasks.planning.dataset import problem_order
from warehouse.comparison.problem_differences import ScorePair, paired_differences
from warehouse.comparison.sequential import Decision, confidence_interval, decide, intervals

ALPHA, MARGIN = 0.05, 0.03
CODEIF = Path(__file__).parents[1] / "fixtures" / "codeif" / "passed.csv"


@dataclass(frozen=True)
class LabCase:
    """A data set of `n` problems and the shares that the issue's lab measured for it.

    None: never decided before the end.
    """

    n: int
    difference: float
    discordant: float
    lab_sign: float | None
    lab_not_worse: float


CASES = (
    LabCase(1_140, 0.05, 0.15, 0.36, 0.19),
    LabCase(1_140, 0.10, 0.20, 0.15, 0.10),
    LabCase(1_140, 0.00, 0.10, None, 0.49),
    LabCase(500, 0.10, 0.20, 0.25, 0.18),
    LabCase(5_276, 0.05, 0.15, 0.12, 0.05),
    LabCase(5_276, 0.00, 0.10, None, 0.20),
)


@dataclass(frozen=True)
class LabShares:
    """Mean shares of the problems asked until decided; 1 where only the last problem decides."""

    sign: float
    not_worse: float
    equivalent: float


BASELINE_PASSED = (None, 0.6, 0.85)
"""Share of problems that the baseline solved, where its scores are the strata. None: no strata."""


def lab_shares(
    case: LabCase, n_orders: int, baseline_passed: float | None = None, seed: int = 0
) -> LabShares:
    """Ask a case's problems in `n_orders` random orders."""
    rng = np.random.default_rng(seed)
    differences = wins_and_losses(case.n, case.difference, case.discordant)
    strata = np.zeros(case.n, int)
    if baseline_passed is not None:
        strata[differences < 0] = 1
        ties = np.flatnonzero(differences == 0)
        n_passed = round(baseline_passed * case.n) - int(strata.sum())
        strata[ties[:n_passed]] = 1
    orders = [rng.permutation(case.n) for _ in range(n_orders)]
    found = [intervals(differences[order], case.n, ALPHA, strata[order]) for order in orders]
    return LabShares(
        *(
            float(np.mean([_first(mask(ends[:, 0], ends[:, 1])) / case.n for ends in found]))
            for mask in (
                lambda low, high: (low > 0) | (high < 0),
                lambda low, _high: low > -MARGIN,
                lambda low, high: (low > -MARGIN) & (high < MARGIN),
            )
        )
    )


def wins_and_losses(n: int, difference: float, discordant: float) -> np.ndarray:
    """`n` differences of 1, -1 and 0 with this mean (rounded to whole problems), of which a share
    is not 0.
    """
    wins, losses = (
        round(n * (discordant + difference) / 2),
        round(n * (discordant - difference) / 2),
    )
    return np.repeat([1.0, -1.0, 0.0], [wins, losses, n - wins - losses])


def _first(mask: np.ndarray) -> int:
    return int(np.argmax(mask)) + 1 if mask.any() else mask.size


@dataclass(frozen=True)
class PublishedPair:
    """Two models of the published CodeIF-Bench verdicts, asked in the fixed order until decided."""

    model: str
    baseline: str
    difference: float
    """Of all problems."""
    decision: Decision
    n_asked: int
    n_total: int


def published_pairs(seed: int = 0, batch: int = 1) -> Iterator[PublishedPair]:
    """Decide each pair of models; the one with the better mean of all problems comes first."""
    shares = passed_shares()
    order = problem_order(next(iter(shares.values())), "codeif", seed)
    means = {model: sum(of_model.values()) for model, of_model in shares.items()}
    for model, baseline in combinations(sorted(shares, key=lambda name: (-means[name], name)), 2):
        rows = [
            ScorePair(problem, "all turns", shares[model][problem], shares[baseline][problem])
            for problem in order
        ]
        differences = np.array(list(paired_differences(rows).differences.values()))
        strata = np.array([round(4 * shares[baseline][problem]) for problem in order])
        decision, n_asked = _decided(differences, batch, strata)
        yield PublishedPair(
            model, baseline, float(differences.mean()), decision, n_asked, differences.size
        )


def passed_shares() -> Mapping[str, Mapping[str, float]]:
    """Model -> problem -> share of the published verdicts of all turns that passed."""
    with CODEIF.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    models = [name for name in rows[0] if name != "problem_id"]
    return {model: {row["problem_id"]: _share(row[model]) for row in rows} for model in models}


def _share(text: str) -> float:
    passed, n = text.split("/")
    return int(passed) / int(n)


def _decided(differences: np.ndarray, batch: int, strata: np.ndarray) -> tuple[Decision, int]:
    n_total = differences.size
    for n in [*range(batch, n_total, batch), n_total]:
        decision = decide(
            confidence_interval(differences[:n], n_total, ALPHA, strata), MARGIN, n == n_total
        )
        if decision is not None:
            return decision, n
    raise AssertionError("the last problem decides")


def _print_table(heads: Sequence[str], rows: Iterator[Sequence[object]]) -> None:
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |", flush=True)
    print()


def _lab_rows(n_orders: int) -> Iterator[Sequence[object]]:
    for case, baseline_passed in product(CASES, BASELINE_PASSED):
        found = lab_shares(case, n_orders, baseline_passed)
        yield (
            f"{case.n:,}",
            f"{100 * case.difference:+.0f} ({case.discordant:.0%} discordant)"
            if case.difference
            else f"0 ({case.discordant:.0%})",
            "-" if baseline_passed is None else f"{baseline_passed:.0%}",
            f"{found.sign:.2f}",
            f"{found.not_worse:.2f}",
            f"{found.equivalent:.2f}",
            f"{case.lab_sign or '-'} / {case.lab_not_worse}",
        )


def main() -> None:
    """Print both tables; an argument is the number of orders of each case (20)."""
    n_orders = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    _print_table(
        (
            "N",
            "difference",
            "baseline passed",
            "sign",
            "not worse than -3",
            "equivalent within 3",
            "lab (sign / not worse)",
        ),
        _lab_rows(n_orders),
    )
    _print_table(
        ("model", "baseline", "difference", "decision", "asked of 50"),
        (
            (p.model, p.baseline, f"{100 * p.difference:+.1f}", p.decision, p.n_asked)
            for p in published_pairs()
        ),
    )


if __name__ == "__main__":
    main()
