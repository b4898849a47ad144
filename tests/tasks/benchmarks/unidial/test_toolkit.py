"""A run that the toolkit's authors published, through Parley and back: their own reader and pooling
find what they published.

`PARLEY_UDE` names a clone of UniDial-EvalKit (public); nothing of it is kept here.
"""

import gzip
import json
import re
import sys
from importlib import import_module
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tasks.benchmarks.unidial import BENCHMARK
from tasks.benchmarks.unidial.datasets import DATASETS
from tasks.benchmarks.unidial.datasets.source import read_json
from tasks.benchmarks.unidial.output import published_answers
from tests.fixtures.clone import UNIDIAL, load_module
from tests.flows.parley_command import parley
from tests.tasks.benchmarks.unidial.test_turn_ids import staged_again, unanswered, write_run
from warehouse.connect import query

EACH = 25
"""Of LoCoMo's dialogues, which have 616 turns each, one in so many goes in and out."""
PUBLISHED = "output/mt_eval/deepseek-v3.2"
pytestmark = [pytest.mark.slow, UNIDIAL.needed]


def files(folder: Path) -> dict[str, Any]:
    return {
        path.name: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(folder.glob("*.json"))
    }


def figures(held: Any, place: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Every value of nested tables by its place; figures approximately, since sums of floats depend
    on their order.
    """
    if isinstance(held, dict):
        return {
            key: value
            for name, below in held.items()
            for key, value in figures(below, (*place, name)).items()
        }
    return {place: pytest.approx(held, abs=1e-12) if isinstance(held, float) else held}


@pytest.fixture
def toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The package with the toolkit's loaders."""
    package = ModuleType("toolkit_datasets")
    package.__path__ = [str(UNIDIAL.extract(tmp_path / "clone", "src/dataset") / "src" / "dataset")]
    monkeypatch.setitem(sys.modules, package.__name__, package)
    tokenizers = ModuleType("nltk")
    tokenizers.__dict__["sent_tokenize"] = tokenizers.__dict__["word_tokenize"] = (
        None  # for its prompts only
    )
    monkeypatch.setitem(sys.modules, "nltk", tokenizers)
    return package


def loaded(name: str, raw: Path, alternating: bool = False) -> list[dict[str, Any]]:
    """The dialogues that the toolkit makes of raw files."""
    base, module = import_module("toolkit_datasets.base"), import_module(f"toolkit_datasets.{name}")
    kinds = [
        one
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, base.BenchmarkDataset)
    ]
    (loader,) = (one for one in kinds if one is not base.BenchmarkDataset)
    made = loader()._normalize_raw_data(base.BenchmarkContext(raw, raw, name))
    made = map(loader._ensure_alternating_roles, made) if alternating else made
    return [json.loads(one.model_dump_json()) for one in made]


def raw_files(dataset: str, folder: Path) -> Path:
    """The sample's files under the names that the toolkit knows."""
    source = Path(str(BENCHMARK.data.sample)) / dataset
    folder.mkdir()
    for path in source.iterdir():
        name = "multiIF_20241018.csv" if dataset == "multi_if" else path.name
        (folder / name).write_bytes(path.read_bytes())
    if dataset == "locomo":
        write_locomo(folder, [folder / "1.json"])
    if dataset == "safedialbench":
        (folder / "datasets_zh.jsonl").touch()
    return folder


def write_locomo(folder: Path, talks: list[Path]) -> None:
    """Write the talks, each a file, as the one file that was published."""
    samples: list[dict[str, Any]] = []
    for path in talks:
        held = read_json(path)
        talk = {
            name: text
            for name, text in held.items()
            if re.fullmatch(r"session_\d+(_date_time)?|speaker_[ab]", name)
        }
        samples.append(
            {"sample_id": path.name.partition(".")[0], "conversation": talk, "qa": held["qa"]}
        )
    (folder / "locomo10.json").write_text(json.dumps(samples), encoding="utf-8")


def assert_round_trip(dialogs: list[dict[str, Any]], dataset: str, folder: Path) -> None:
    named = {str(dialog["dialog_id"]): dialog for dialog in dialogs}
    answers = write_run(folder, named, dataset)
    assert sorted(one.content for one in published_answers(folder, "m")) == sorted(answers.values())
    assert staged_again(folder) == {name: unanswered(dialog) for name, dialog in named.items()}


@pytest.mark.usefixtures("toolkit")
@pytest.mark.parametrize("dataset", DATASETS)
def test_a_run_of_each_dataset_comes_in_and_goes_out_without_loss(
    dataset: str, tmp_path: Path
) -> None:
    dialogs = loaded(dataset, raw_files(dataset, tmp_path / "raw"))
    assert dialogs
    assert_round_trip(dialogs, dataset, tmp_path / "run")


@pytest.mark.long
@pytest.mark.shared
@pytest.mark.usefixtures("toolkit")
def test_questions_of_locomo_come_in_and_go_out(shared_data: Path, tmp_path: Path) -> None:
    write_locomo(tmp_path, sorted((shared_data / "locomo").glob("[0-9]*.json.gz")))
    dialogs = loaded("locomo", tmp_path)
    off = [
        one
        for one in dialogs
        if any(turn["turn_id"] != n for n, turn in enumerate(one["dialog_turns"]))
    ]
    assert (len(dialogs), len(off)) == (1986, 499)
    assert_round_trip([*off[::EACH], *dialogs[::EACH]], "locomo", tmp_path / "run")


PUBLIC = {
    "mathchat": ("mathchat/*.jsonl.gz", 25),
    "memorycode": ("memorycode/dataset/dialogue_*.json", 3),
    "mt_bench_101": ("mt_bench_101/mtbench101.jsonl.gz", 5),
    "multi_challenge": ("multi_challenge/*.jsonl*", 1),
    "safedialbench": ("safedialbench/data/by_task/chinese/*.jsonl*", 1),
}
"""Dataset -> its public files, and of how many dialogues one goes in and out."""


def write_public(data: Path, dataset: str, folder: Path) -> None:
    """Write the public files as the toolkit reads them."""
    for path in sorted(data.glob(PUBLIC[dataset][0])):
        name = "datasets_zh.jsonl" if dataset == "safedialbench" else path.name.removesuffix(".gz")
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        with (folder / name).open("ab") as file:
            file.write(content.rstrip(b"\n") + b"\n")
    if dataset == "safedialbench":
        (folder / "datasets_en.jsonl").touch()


@pytest.mark.long
@pytest.mark.shared
@pytest.mark.usefixtures("toolkit")
@pytest.mark.parametrize("alternating", [False, True])
@pytest.mark.parametrize("dataset", PUBLIC)
def test_public_dialogues_come_in_and_go_out(
    dataset: str, alternating: bool, shared_data: Path, tmp_path: Path
) -> None:
    """`alternating`: with the toolkit's empty turns, which it puts in where a template wants roles
    to alternate.
    """
    raw = tmp_path / "raw"
    raw.mkdir()
    write_public(shared_data, dataset, raw)
    dialogs = [one for one in loaded(dataset, raw, alternating) if is_playable(one)][
        :: PUBLIC[dataset][1]
    ]
    assert dialogs
    assert_round_trip(dialogs, dataset, tmp_path / "run")


def is_playable(dialog: dict[str, Any]) -> bool:
    """Whether something is asked: not so where the toolkit takes MultiChallenge's template of
    answers for dialogues.
    """
    return (
        dialog["dialog_turns"][0]["role"] != "assistant"
        and dialog["dialog_turns"][0]["content"] != ""
    )


def test_their_own_reader_and_pooling_find_what_they_published(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema, aggregator = "src/dataset/schema.py", "src/metric/aggregator.py"
    published = UNIDIAL.extract(tmp_path, PUBLISHED, schema, aggregator) / PUBLISHED
    dialog = load_module(tmp_path / schema, monkeypatch).Dialog
    pooled = load_module(tmp_path / aggregator, monkeypatch).aggregate_results
    recording, out = tmp_path / "answers.jsonl", tmp_path / "out"
    parley(home, "import", "unidial", published, "--model", "deepseek-v3.2", "--out", recording)
    judge = f"recorded:{recording}.judgements.jsonl"
    parley(
        home,
        "run",
        "unidial.mt_eval",
        "--data",
        published,
        "--model",
        f"recorded:{recording}",
        "--judge",
        judge,
    )
    ((run_id,),) = query(home, "SELECT run_id FROM runs")[1]
    parley(home, "export", "unidial-output", "--run", run_id, "--out", out)

    for name, theirs in files(published / "generated").items():
        ours = (out / "generated" / name).read_text(encoding="utf-8")
        assert dialog.model_validate_json(ours) == dialog.model_validate(theirs)
    rows = list(chain.from_iterable(files(out / "eval_details").values()))
    expected = figures(files(published)["summary.json"]["summary"])
    assert figures(pooled(rows)) == expected
    assert figures(files(out)["summary.json"]["summary"]) == expected
