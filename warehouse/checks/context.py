"""Facts that a suite compares a table with. The caller supplies them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa


@dataclass(frozen=True)
class Implication:
    """If `metric` has `value`, `implied` must be `implied_value`.

    Both scores are of the same episode and turn.
    """

    metric: str
    value: float
    implied: str
    implied_value: float


class RowFacts(Mapping[str, Mapping[str, object]]):
    """Facts about many rows, keyed by one of their columns.

    The facts stay an Arrow table until the first one is read, also in a process that receives them.
    """

    def __init__(self, rows: pa.Table, key: str) -> None:
        self._rows, self._key = rows, key

    @cached_property
    def _by_key(self) -> dict[str, dict[str, object]]:
        return dict(
            zip(
                self._rows[self._key].to_pylist(),
                self._rows.drop_columns(self._key).to_pylist(),
                strict=True,
            )
        )

    def __getitem__(self, key: str) -> Mapping[str, object]:
        return self._by_key[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return self._rows.num_rows

    def __reduce__(self) -> tuple[type["RowFacts"], tuple[pa.Table, str]]:
        return RowFacts, (self._rows, self._key)


@dataclass(frozen=True)
class CheckContext:
    """Run whose table is checked, and the facts to check it against.

    A fact that is None is unknown. Rules that need it are skipped; they do not count as passed.
    """

    run_id: str
    """Id of the run. For `dialogs` and `problems`: any name of the staging, such as a dataset
    digest."""
    benchmark: str
    model: str
    """Label of the model. Empty for the tables of a dataset."""
    checked_at: str
    """UTC, ISO 8601."""
    docs_dir: Path | None = None
    """Folder that receives a folder of Data Docs per run. None: no docs are written."""

    n_input: int | None = None
    """Number of raw rows that staging read: problems + quarantined."""
    n_quarantined: int = 0
    problem_digests: Mapping[str, str] | None = None
    """problem_id -> row digest, for the suite of `dialogs`."""
    context_turns: Mapping[str, int] | None = None
    """context_id -> number of its turns, for the suite of `dialogs`."""

    wanted_episodes: frozenset[str] | None = None
    """All episode ids of the run."""
    episode_facts: Mapping[str, Mapping[str, object]] | None = None
    """episode_id -> column -> value that the id is a digest of. A row with another value is not
    that episode."""
    contained_episodes: Mapping[str, tuple[str, int]] | None = None
    """episode_id -> (problem, sample), as listed in `run_episodes`."""
    check_served_model: bool | None = None
    """True if the endpoint must report one model name throughout the run. None if an alias is
    allowed."""
    dialog_rounds: Mapping[str, int] | None = None
    """Row digest -> number of model answers in its dialog. None if a simulated user decides the
    length."""

    episode_rounds: Mapping[str, int] | None = None
    """Final episode -> rounds that need a verdict and a score. Read by the suites of
    `test_verdicts` and `scores`."""
    judges: Mapping[str, str] | None = None
    """Rubric -> label of the judge model."""
    judgement_ranges: Mapping[tuple[str, str], tuple[float, float]] | None = None
    """(rubric, dimension) -> lowest and highest value."""
    expected_judgements: frozenset[tuple[str, int, str, str]] | None = None
    """(episode_id, turn, rubric, dimension) of every judgement that must exist."""
    expected_verdicts: frozenset[tuple[str, int, str]] | None = None
    """(episode_id, turn, instruction_id) of every verdict that must exist."""
    expected_audits: Mapping[tuple[str, int, str], str] | None = None
    """(episode_id, turn, instruction_id) of every pass to audit -> its verdict id."""
    wall_limit_s: float | None = None
    wall_slack_s: float = 30.0
    """Seconds that starting and stopping a sandbox may add to the duration of a program."""
    fault_limit: float = 0.01
    """The suite warns if the share of infra verdicts, or of scores that a fault left missing, is
    above this."""

    metric_ranges: Mapping[str, tuple[float, float]] | None = None
    """Metric -> (lowest, highest) value. No other metric may appear."""
    due_scores: Mapping[str, frozenset[tuple[int, str]]] | None = None
    """Final episode -> (turn, metric) of every score that must exist, including turns that were
    never played."""
    implications: tuple[Implication, ...] = ()


def problem_digests(problems: pa.Table) -> dict[str, str]:
    """Return problem_id -> row digest."""
    return dict(
        zip(problems["problem_id"].to_pylist(), problems["row_digest"].to_pylist(), strict=True)
    )
