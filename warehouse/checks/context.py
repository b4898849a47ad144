"""Facts that a suite compares a table with. Its caller knows them; the table alone does not tell them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa


@dataclass(frozen=True)
class Implication:
    """Where `metric` has `value`, a row of `implied` on the same episode and turn must be scored `implied_value`."""

    metric: str
    value: float
    implied: str
    implied_value: float


class RowFacts(Mapping[str, Mapping[str, object]]):
    """Facts of many rows, by a column of theirs. They stay a table until the first is read, so in whoever sends them on."""

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
    """The run whose table is checked, and the facts to check it against.

    None means that a fact is not known. Rules that need it are left out, not counted as passed.
    """

    run_id: str
    """The run, or for `dialogs` and `problems` any name of the staging (a dataset digest)."""
    benchmark: str
    model: str
    """The model's label; empty for a dataset's tables."""
    checked_at: str
    """UTC, ISO 8601."""
    docs_dir: Path | None = None
    """Folder that gets a folder of Data Docs per run; None writes none."""

    n_input: int | None = None
    """Raw rows read by staging: problems + quarantined."""
    n_quarantined: int = 0
    problem_digests: Mapping[str, str] | None = None
    """problem_id -> row digest, for the dialogs' suite."""
    context_turns: Mapping[str, int] | None = None
    """Context -> how many turns it has, for the dialogs' suite."""

    wanted_episodes: frozenset[str] | None = None
    """Every episode id of the run."""
    episode_facts: Mapping[str, Mapping[str, object]] | None = None
    """Episode id -> column -> value that the id was made of. A row with another value is not that episode."""
    contained_episodes: Mapping[str, tuple[str, int]] | None = None
    """Episode id -> problem and sample, as `run_episodes` lists what the run contains."""
    check_served_model: bool | None = None
    """True where the endpoint must report one model name all through the run; None where an alias was allowed."""
    dialog_rounds: Mapping[str, int] | None = None
    """Row digest -> answers of the model in its dialog. Leave None where a counterpart decides how long a dialogue is."""

    episode_rounds: Mapping[str, int] | None = None
    """Final episode -> rounds to give a verdict and a score on, for the suites of `test_verdicts` and `scores`."""
    judges: Mapping[str, str] | None = None
    """Rubric -> label of the model that judges by it."""
    judgement_ranges: Mapping[tuple[str, str], tuple[float, float]] | None = None
    """(rubric, dimension) -> lowest and highest value."""
    expected_judgements: frozenset[tuple[str, int, str, str]] | None = None
    """(episode_id, turn, rubric, dimension) of every judgement there must be."""
    expected_verdicts: frozenset[tuple[str, int, str]] | None = None
    """(episode_id, turn, instruction_id) of every verdict there must be."""
    expected_audits: Mapping[tuple[str, int, str], str] | None = None
    """(episode_id, turn, instruction_id) of every pass to audit -> its verdict id."""
    wall_limit_s: float | None = None
    wall_slack_s: float = 30.0
    """Time that starting and ending a sandbox may add to a program's duration."""
    fault_limit: float = 0.01
    """Share of infra verdicts, or of scores missing through a fault, above which the suite warns."""

    metric_ranges: Mapping[str, tuple[float, float]] | None = None
    """Every metric that may appear -> lowest and highest value."""
    due_scores: Mapping[str, frozenset[tuple[int, str]]] | None = None
    """Final episode -> (turn, metric) of every score it must have, also at turns that were never played."""
    implications: tuple[Implication, ...] = ()


def problem_digests(problems: pa.Table) -> dict[str, str]:
    """problem_id -> row digest."""
    return dict(
        zip(problems["problem_id"].to_pylist(), problems["row_digest"].to_pylist(), strict=True)
    )
