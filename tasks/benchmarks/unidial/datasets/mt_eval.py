"""MT-Eval (Kwan et al. 2024): recollection, expansion, refinement and follow-up.

Each task has a version with many turns and a version with one.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tasks.benchmarks.raw_rows import BadRow, matching
from tasks.benchmarks.unidial.datasets.source import (
    Dataset,
    DialogConfig,
    EvalConfig,
    MetricConfig,
    NormalDialog,
    NormalTurn,
    RawDialog,
    metric_config,
    read_each,
    read_objects,
    scripted_turn,
)

TASKS = ("expansion", "follow-up", "recollection", "refinement")
SUBTYPES = ("single", "multi")
DOCUMENTS = "*documents.jsonl"
RUBRICS = (
    "expansion_evaluation",
    "mt_bench_evaluation",
    "refinement_multi_evaluation",
    "refinement_single_evaluation",
)


def find(folder: Path) -> Sequence[Path]:
    """Return `TASK_single….jsonl`, `TASK_multi….jsonl` and the documents to which they refer.

    The files of MT-Eval's ablations (`TASK_ablation….jsonl`) are left out, because UniDial-EvalKit
    evaluates none of their answers.
    """
    patterns = (f"{task}_{subtype}*.jsonl" for task in TASKS for subtype in SUBTYPES)
    tasks = matching(folder, *patterns)
    return (
        (*matching(folder, DOCUMENTS), *sorted(tasks, key=lambda path: path.name)) if tasks else ()
    )


def read(files: Sequence[Path]) -> Iterator[RawDialog]:
    """Yield one dialogue per line of the tasks' files, and an invalid row per broken document."""
    documents: list[str] = []
    for path in files:
        if "documents" in path.name:
            for line, row, content in read_objects(path):
                document = row if isinstance(row, BadRow) else _document(row)
                if isinstance(document, BadRow):
                    yield RawDialog(path, line, document, content)
                documents.append("" if isinstance(document, BadRow) else document)
    tasks = [path for path in files if "documents" not in path.name]
    yield from read_each(
        tasks, lambda row, number, path, line: _dialog(row, number, path, line, documents)
    )


def _document(row: dict[str, Any]) -> str | BadRow:
    """Return the text below the document's title, or the reason why there is none."""
    if "gen_resp" not in row:
        return BadRow("missing_field", "gen_resp: Field required")
    return str(row["gen_resp"]).partition("\n\n")[2]


def _dialog(
    row: dict[str, Any], number: int, path: Path, line: int, documents: Sequence[str]
) -> NormalDialog:
    file = path.name.removesuffix(".gz")
    task, subtype, *_ = file.removesuffix(".jsonl").split("_")
    turns: list[NormalTurn] = []
    kind, constraints = "", list[str]()
    for item in row["conv"]:
        turns.append(scripted_turn("user", item["user"]))
        document, labels = None, dict[str, Any]()
        if task == "refinement":
            if kind != (kind := str(item["id"]).split("_")[1]):
                constraints = []
            constraints.append(item["inst"])
            document, labels = (
                _of(documents, str(row["id"] if subtype == "multi" else item["id"])),
                {"cur_task_type": kind},
            )
        elif task == "expansion":
            constraints = [item["inst"]]
            document = _of(
                documents,
                str(item["id"]).rpartition("#")[2] if subtype == "single" else str(item["id"]),
            )
        elif "global-inst" in file:
            labels = {"cur_task_type": row["inst_name"]}
        turns.append(_answer(item, _metric(file, row, list(constraints)), document, labels))
    return NormalDialog(
        dialog_id=number,
        dialog_raw_info={"raw_id": row.get("id"), "source_file": file, "line_index": line},
        dialog_labels={"task_type": task, "task_subtype": subtype},
        dialog_eval_config=DialogConfig(use_reference_history=False),
        dialog_turns=turns,
    )


def _of(documents: Sequence[str], name: str) -> str:
    """Return the document with number `n`, counted from 1, for a name that begins with `n_`."""
    number = int(name.split("_")[0])
    if not 1 <= number <= len(documents):
        raise BadRow(
            "source_missing",
            f"document {number} of {len(documents)}: {DOCUMENTS} must be beside the tasks",
        )
    return documents[number - 1]


def _answer(
    item: dict[str, Any], metric: MetricConfig, document: str | None, labels: dict[str, Any]
) -> NormalTurn:
    is_generated = bool(item.get("do_inference", False))
    return NormalTurn(
        turn_id=0,
        role="assistant",
        content=None if is_generated else item["sys"],
        reference=item["sys"],
        reference_document=document,
        eval_config=EvalConfig(do_eval=is_generated, metrics=[metric]),
        turn_labels=labels,
    )


def _metric(file: str, row: dict[str, Any], constraints: list[str]) -> MetricConfig:
    task, subtype, *_ = file.removesuffix(".jsonl").split("_")
    if task == "refinement":
        return metric_config(
            "llm_judge", template_name=f"refinement_{subtype}_evaluation", constraints=constraints
        )
    if task == "expansion":
        return metric_config(
            "llm_judge", template_name="expansion_evaluation", constraints=constraints
        )
    if task == "follow-up":
        return metric_config("llm_judge", template_name="mt_bench_evaluation")
    if "global-inst" in file:
        return metric_config(
            "instruction_following", inst_name=row["inst_name"], inst_args=row["inst_args"]
        )
    return metric_config("precision")


DATASET = Dataset(
    "mt_eval",
    "MT-Eval: recollection, expansion, refinement, follow-up; on-policy history",
    find,
    read,
    RUBRICS,
)
