"""The declarations of the benchmarks' folders hold true: names, versions, settings, and facts about
files that are at hand.
"""

import gzip
import hashlib
from pathlib import Path

import pytest

from schemas.errors import ConfigError, UnknownName
from tasks.benchmarks.registry import BENCHMARKS
from tasks.datasets.catalogue import all_datasets, find_datasets
from tasks.datasets.git import is_pattern
from tasks.datasets.public_data import PublicDataset, content_digest, read_datasets, received

AT_HAND = {
    "codeif/codeif_bench": "codeif_bench",
    "convcode/humaneval": "humaneval",
    "convcode/mbpp": "mbpp",
    "convcode/mint": "mint",
    "dialogue_swebench/swebench_verified_mini": "swebench_verified_mini",
    "talk2code/multilingual_humaneval": "humaneval/multilingual_humaneval",
    "unidial/mt_eval_normalised": "mt_eval",
    "unidial/mt_bench_101": "mt_bench_101",
    "unidial/multi_challenge": "multi_challenge",
    "unidial/locomo": "locomo",
    "unidial/mathchat": "mathchat",
}
"""Dataset -> folder of the public data beside the checkout that holds it whole."""
BY_NAME = {dataset.full_name: dataset for dataset in all_datasets()}


@pytest.mark.parametrize("dataset", BY_NAME.values(), ids=BY_NAME)
def test_a_declaration_fits_its_benchmark(dataset: PublicDataset) -> None:
    benchmark = BENCHMARKS.load(dataset.benchmark)
    assert dataset.version in benchmark.data.versions
    assert set(dataset.settings) <= benchmark.settings.keys()
    if dataset.is_run and dataset.settings:
        setting = dataset.settings[0]
        flags = dataset.command(Path("FOLDER")).split()
        assert ("--judge" in flags) == bool(benchmark.rubrics(setting))
        assert ("--simulator" in flags) == benchmark.settings[setting].needs_simulator
    for source in dataset.sources:
        exact = {place for path, place in source.files.items() if not is_pattern(path)}
        assert not dataset.files or exact <= dataset.files.keys(), (
            "each file of a source is among the files that are verified"
        )


def test_every_benchmark_declares_its_data_and_no_name_means_two_things() -> None:
    assert {dataset.benchmark for dataset in BY_NAME.values()} == set(BENCHMARKS.built_in)
    assert len(BY_NAME) == len(all_datasets())


@pytest.mark.shared
@pytest.mark.parametrize(("name", "folder"), AT_HAND.items(), ids=AT_HAND)
def test_facts_are_those_of_the_public_files(
    shared_data: Path, tmp_path: Path, name: str, folder: str
) -> None:
    wrong: list[str] = []
    for place, facts in BY_NAME[name].files.items():
        packed, plain = shared_data / folder / f"{place}.gz", shared_data / folder / place
        content = plain.read_bytes() if plain.exists() else gzip.decompress(packed.read_bytes())
        (tmp_path / "file").write_bytes(content)
        found = received(tmp_path / "file")
        wrong += [place] if (found.bytes, found.sha256) != (facts.bytes, facts.sha256) else []
        if ".json" in place and facts.rows is not None:
            text = gzip.decompress(content) if place.endswith(".gz") else content
            wrong += (
                [f"{place}: rows"]
                if facts.rows != sum(1 for line in text.split(b"\n") if line.strip())
                else []
            )
    assert wrong == []


def test_a_name_means_all_datasets_of_that_name_and_a_benchmark_all_of_its_own() -> None:
    assert [one.full_name for one in find_datasets("humaneval")] == ["convcode/humaneval"]
    assert [one.full_name for one in find_datasets("unidial/mathchat")] == ["unidial/mathchat"]
    assert {one.benchmark for one in find_datasets("unidial")} == {"unidial"}


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("humanevl", "humaneval"), ("MathChat-", "mathchat"), ("unidial/locmo", "locomo")],
)
def test_a_wrong_name_is_answered_with_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(
        UnknownName, match=f"unknown dataset '{name}'; known: .*Do you mean {nearest}\\?"
    ):
        find_datasets(name)


def test_the_digest_of_several_files_is_that_of_the_lines_that_sha256sum_prints() -> None:
    assert content_digest({"a": "0" * 64}) == "0" * 64
    lines = "".join(f"{digit * 64}  {name}\n" for name, digit in (("a", "1"), ("b", "2")))
    assert (
        content_digest({"b": "2" * 64, "a": "1" * 64}) == hashlib.sha256(lines.encode()).hexdigest()
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: [1]", "dictionary"),
        ("a: {title: A, licence: MIT, version: v}", "needs a note"),
        (
            "a: {title: A, licence: MIT, version: v, sources: [{hub: a/b, files: {x: ../x}}]}",
            "is outside",
        ),
        (
            "a: {title: A, licence: MIT, version: v, note: n, rows: -1}",
            "greater than or equal to 0",
        ),
    ],
)
def test_a_declaration_that_is_none_is_refused(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "data.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=fault):
        read_datasets(tmp_path / "data.yaml", "alphabet")
