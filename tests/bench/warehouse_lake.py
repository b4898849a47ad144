"""A lake of many nights, written in bulk: the tables' own schemas and folders, numbers and words
from a seeded generator.

A run's rows lie in one part a table, as the parts of a finished run do.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from schemas.content_id import canonical_json, content_id
from schemas.dialog import Dialog, Role, Turn
from schemas.episode import StepKind
from schemas.lake.records import ModelRecord, NightRecord, RunRecord
from schemas.lake.tables import TABLES
from schemas.problem import Instruction, Problem, TestSuite
from schemas.run import ModelIdentity, RunSpec
from tasks.storage.parquet_store import Lake

BENCHMARK = "codeif"
DATASET = "bench"
RUNS_A_NIGHT = 4
TURNS = 6
METRICS = (
    "instruction_accuracy",
    "conversation_accuracy_strict",
    "conversation_accuracy_fraction",
    "instruction_forgetting_ratio",
)
INSTRUCTIONS = (
    "base",
    "Input-Output Conditions",
    "Exception Handling",
    "Edge Case Handling",
    "Annotation Coverage",
    "Code Complexity",
)
_WORDS, _PIECES, _PIECE_WORDS = 4096, 20_000, 22
_ROW_SIZE = 2 * TURNS
if_else = pc.if_else  # pyright: ignore[reportAttributeAccessIssue]  (pyarrow makes it when imported)
joined = pc.binary_join_element_wise  # pyright: ignore[reportAttributeAccessIssue]  (as above)


@dataclass(frozen=True)
class BenchLake:
    """Nights of `RUNS_A_NIGHT` runs, each of `dialogs` dialogues of six turns.

    Args:
        home: its `lake/` is written.
        dialogs: of one run; a night has `dialogs * RUNS_A_NIGHT * 12` rows of `turns`.
    """

    home: Path
    dialogs: int

    @property
    def turn_rows_a_night(self) -> int:
        """Messages: a question and an answer a turn."""
        return self.dialogs * RUNS_A_NIGHT * _ROW_SIZE

    @property
    def lake(self) -> Lake:
        return Lake(self.home / "lake")

    @cached_property
    def problem_ids(self) -> list[str]:
        return [f"function/{number}" for number in range(self.dialogs)]

    @cached_property
    def digests(self) -> list[str]:
        return [content_id(problem) for problem in self.problem_ids]

    @cached_property
    def pieces(self) -> pa.Array:
        """Texts of some 130 characters, of words that come as often as words do."""
        draw = np.random.default_rng(1)
        letters = np.array(list("etaoinsrhldcumfpgwybvkxjqz_()=.:"))
        words = ["".join(draw.choice(letters, size)) for size in draw.integers(2, 10, _WORDS)]
        chosen = np.minimum(draw.zipf(1.3, (_PIECES, _PIECE_WORDS)), _WORDS) - 1
        return pa.array([" ".join(words[at] for at in line) for line in chosen])

    def write_dataset(self) -> None:
        """Dialogs and problems of the one dataset version."""
        keys = {"benchmark": BENCHMARK, "dataset_version": DATASET}
        dialogs = [
            Dialog(
                benchmark=BENCHMARK,
                dataset_version=DATASET,
                dialog_id=problem,
                problem_id=problem,
                turns=tuple(
                    Turn(turn=turn, role=Role.USER, content=f"step {turn}")
                    for turn in range(1, TURNS + 1)
                ),
                row_digest=digest,
            )
            for problem, digest in zip(self.problem_ids, self.digests, strict=True)
        ]
        problems = [
            Problem(
                benchmark=BENCHMARK,
                dataset_version=DATASET,
                problem_id=problem,
                level=f"L{1 + number % 2}",
                prompt=f"Solve {problem}.",
                instructions=(
                    Instruction(
                        instruction_id="base",
                        text=problem,
                        suite=TestSuite(tests=("assert f(1) == 1",)),
                    ),
                ),
                reference_code="",
                source_file="bench.jsonl",
                source_line=number,
                row_digest=digest,
            )
            for number, (problem, digest) in enumerate(
                zip(self.problem_ids, self.digests, strict=True), start=1
            )
        ]
        self.lake.write_part("dialogs", dialogs, "all", **keys)
        self.lake.write_part("problems", problems, "all", **keys)

    def write_night(self, night: int) -> tuple[str, ...]:
        """A night's runs; returns their ids."""
        night_id = f"2026-{night:04d}"
        run_ids = tuple(self._write_run(night, number) for number in range(RUNS_A_NIGHT))
        record = NightRecord(
            night_id=night_id,
            started_at=_clock(night, 0),
            finished_at=_clock(night, 9),
            run_ids=run_ids,
            n_published=RUNS_A_NIGHT,
            n_withheld=0,
        )
        self.lake.write_part("nights", [record], "0", night_id=night_id)
        return run_ids

    def _write_run(self, night: int, number: int) -> str:
        subject = ModelIdentity(
            provider="openai", name=f"model-{number}", revision=f"night-{night}"
        )
        spec = RunSpec(
            benchmark=BENCHMARK,
            benchmark_version="1",
            setting="static",
            dataset_version=DATASET,
            dataset_digest=content_id(DATASET),
            subject=subject,
        )
        draw = np.random.default_rng([night, number])
        ids = random_ids(draw, self.dialogs)
        columns = {"run_id": spec.run_id, "benchmark": BENCHMARK, "model": subject.label}
        keys = {"benchmark": BENCHMARK, "model": subject.label, "run_id": spec.run_id}
        for table, rows in (
            ("episodes", self._episodes(spec, night, ids, draw)),
            ("run_episodes", {"episode_id": ids, "problem_id": self.problem_ids, "sample": 0}),
            ("test_verdicts", self._verdicts(ids, draw)),
            ("scores", self._scores(ids, draw)),
        ):
            write_bulk(self.lake, table, columns | rows, **keys)
        self._write_records(spec, night)
        return spec.run_id

    def _episodes(
        self, spec: RunSpec, night: int, ids: pa.Array, draw: np.random.Generator
    ) -> dict[str, Any]:
        n = self.dialogs * _ROW_SIZE
        answers = np.arange(n) % 2 == 1
        steps = {
            "turn": np.tile(np.repeat(np.arange(1, TURNS + 1), 2), self.dialogs),
            "role": if_else(pa.array(answers), "assistant", "user"),
            "content": self._texts(answers, draw),
            "input_tokens": pa.array(draw.integers(50, 4000, n), mask=~answers),
            "output_tokens": pa.array(draw.integers(20, 900, n), mask=~answers),
            "latency_s": pa.array(draw.lognormal(0, 0.5, n).round(3), mask=~answers),
            "finish_reason": if_else(pa.array(answers), "stop", None),
            "served_model": if_else(pa.array(answers), spec.subject.name, None),
            "n_calls": answers.astype(np.int64),
            "kind": StepKind.MESSAGE.value,
            **dict.fromkeys(("calls", "programs", "labels"), ()),
        }
        kind = TABLES["episodes"].schema.field("steps").type
        struct = pa.StructArray.from_arrays(
            [_column(steps.get(field.name), n, field.type) for field in kind.value_type],
            fields=list(kind.value_type),
        )
        offsets = pa.array(np.arange(self.dialogs + 1, dtype=np.int32) * _ROW_SIZE)
        return {
            "episode_id": ids,
            "setting": "static",
            "dataset_version": DATASET,
            "problem_id": self.problem_ids,
            "dialog_id": self.problem_ids,
            "row_digest": self.digests,
            "sample": 0,
            "seed": 0,
            "attempt": 1,
            "stop_reason": "finished",
            "error": None,
            "started_at": _clock(night, 1),
            "finished_at": _clock(night, 8),
            "steps": pa.ListArray.from_arrays(offsets, struct, type=kind),
        }

    def _texts(self, answers: np.ndarray, draw: np.random.Generator) -> pa.Array:
        """A piece for a question, three for an answer."""
        n = len(answers)
        first, second, third = (
            self.pieces.take(pa.array(draw.integers(0, _PIECES, n))) for _ in range(3)
        )
        longer = joined(first, second, third, "\n")
        return if_else(pa.array(answers), longer, first)

    def _verdicts(self, ids: pa.Array, draw: np.random.Generator) -> dict[str, Any]:
        n = self.dialogs * TURNS
        passed = pa.array(draw.random(n) < 0.6)
        return self._of_turns(ids) | {
            "instruction_id": list(INSTRUCTIONS) * self.dialogs,
            "outcome": if_else(passed, "passed", "failed"),
            "detail": if_else(passed, "", "AssertionError: assert f(1) == 1"),
            "reason": None,
            "duration_s": draw.random(n).round(4),
            "verdict_id": random_ids(draw, n),
            "sandbox": "bubblewrap",
            "n_cases": None,
            "n_passed": None,
        }

    def _scores(self, ids: pa.Array, draw: np.random.Generator) -> dict[str, Any]:
        n, k = self.dialogs * TURNS, len(METRICS)
        of_turns = {name: _column(value, n, None) for name, value in self._of_turns(ids).items()}
        return {name: pa.concat_arrays([value] * k) for name, value in of_turns.items()} | {
            "instruction_id": list(INSTRUCTIONS) * self.dialogs * k,
            "metric": np.repeat(np.array(METRICS), n),
            "metric_version": 1,
            "value": (draw.random(n * k) < 0.6).astype(float),
            "unscored_reason": None,
        }

    def _of_turns(self, ids: pa.Array) -> dict[str, Any]:
        at = pa.array(np.repeat(np.arange(self.dialogs), TURNS))
        return {
            "episode_id": ids.take(at),
            "problem_id": pa.array(self.problem_ids).take(at),
            "sample": 0,
            "turn": np.tile(np.arange(1, TURNS + 1), self.dialogs),
        }

    def _write_records(self, spec: RunSpec, night: int) -> None:
        subject = spec.subject
        model = ModelRecord(
            model=subject.label,
            provider=subject.provider,
            name=subject.name,
            revision=subject.revision,
            weights_digest="",
            chat_template="",
            usd_per_million_input=1.0,
            usd_per_million_output=2.0,
        )
        self.lake.write_part("models", [model], content_id(subject), model=subject.label)
        record = RunRecord(
            run_id=spec.run_id,
            night_id=f"2026-{night:04d}",
            benchmark=BENCHMARK,
            model=subject.label,
            setting=spec.full_setting,
            dataset_version=DATASET,
            revision=subject.revision,
            spec_json=canonical_json(spec),
            sandbox=spec.sandbox,
            isolated=True,
            samples=1,
            seed=0,
            status="finished",
            started_at=_clock(night, 0),
            finished_at=_clock(night, 9),
            n_episodes=self.dialogs,
            n_owed=0,
            n_infra=0,
            n_unscored=0,
            n_truncated=0,
            model_calls=self.dialogs * TURNS,
            parley_version="bench",
        )
        self.lake.write_part(
            "runs", [record], "0", benchmark=BENCHMARK, model=subject.label, run_id=spec.run_id
        )


def random_ids(draw: np.random.Generator, n: int) -> pa.Array:
    """Hex ids of 32 characters, as content ids look."""
    digits = np.frombuffer(draw.bytes(16 * n).hex().encode(), dtype="S32")
    return pa.array(digits.astype(str))


def write_bulk(
    lake: Lake, table: str, columns: dict[str, Any], name: str = "bulk", **keys: str
) -> Path:
    """One part of exactly the table's schema.

    A column is an array, a list, or one value for all rows.
    """
    schema = TABLES[table].schema
    n = next(len(value) for value in columns.values() if _is_many(value))
    arrays = [_column(columns[field.name], n, field.type) for field in schema]
    folder = lake.folder(table, **keys)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"part-{name}.parquet"
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), path, compression="zstd")
    return path


def _is_many(value: object) -> bool:
    return isinstance(value, (pa.Array, np.ndarray, list))


def _column(value: Any, n: int, kind: pa.DataType | None) -> pa.Array:
    if value is None and kind is not None and pa.types.is_struct(kind):
        return pa.array([None] * n, kind)  # `repeat` would make nulls of fields that may hold none
    if not _is_many(value):
        return pa.repeat(pa.scalar(value, kind), n)
    found = value if isinstance(value, pa.Array) else pa.array(value, kind)
    return found if kind is None or found.type == kind else found.cast(kind)


def _clock(night: int, hour: int) -> str:
    return f"{2026 + night // 336:04d}-{1 + night // 28 % 12:02d}-{1 + night % 28:02d}T{hour:02d}:00:00.000+00:00"


def bytes_under(paths: Sequence[Path], wanted: Callable[[Path], bool] = lambda _: True) -> int:
    """Size of all files below some folders."""
    return sum(
        file.stat().st_size
        for path in paths
        for file in path.rglob("*")
        if file.is_file() and wanted(file)
    )
