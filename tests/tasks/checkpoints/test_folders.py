"""Checkpoints on disk: when one is complete, what it is called, and what makes it the same
model.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from schemas.errors import UsageError
from tasks.checkpoints.folders import find_folders, find_recordings
from tasks.checkpoints.source import CheckpointSource, SourceCheckpoint, step_of
from tasks.storage.home_records import FileDigests
from tests.tasks.checkpoints.weight_folders import (
    LONG_AGO_S,
    MINUTE_S,
    changed,
    checkpoint,
    safetensors,
)

LATER_S = LONG_AGO_S + 60 * MINUTE_S


def found_in(
    root: Path, *, now_s: float = LATER_S, digests: FileDigests | None = None, **settings: object
) -> list[SourceCheckpoint]:
    source = CheckpointSource.model_validate({"directory": str(root), **settings})
    return find_folders(source, root, digests or FileDigests(), now_s)


def only_one(root: Path, **settings: object) -> SourceCheckpoint:
    [found] = found_in(root, **settings)
    return found


def test_a_whole_folder_is_a_checkpoint_of_the_family_above_it(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "runs" / "tuned" / "checkpoint-1000")
    found = only_one(tmp_path)
    assert (found.family, found.name, found.step) == ("tuned", "tuned/checkpoint-1000", 1000)
    assert (found.spec, found.path, found.lacks) == (f"vllm:{folder}", str(folder), "")
    assert len(found.digest) == 32


def test_a_folder_without_a_step_is_a_family_of_its_own_and_its_trainer_tells_the_step(
    tmp_path: Path,
) -> None:
    checkpoint(tmp_path / "Tiny-7B")
    assert (only_one(tmp_path).family, only_one(tmp_path).name, only_one(tmp_path).step) == (
        "Tiny-7B",
        "Tiny-7B",
        7,
    )
    assert only_one(tmp_path, family="mine").name == "mine/Tiny-7B"


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("checkpoint-1000", 1000),
        ("global_step300", 300),
        ("run-step_20", 20),
        ("iter=5", 5),
        ("Tiny-7B", None),
        ("v2", None),
    ],
)
def test_a_step_is_told_by_its_word(name: str, step: int | None) -> None:
    assert step_of(name) == step


def cut_off(folder: Path) -> None:
    shard = folder / "model-00002-of-00002.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1])


def without_shard(folder: Path) -> None:
    (folder / "model-00002-of-00002.safetensors").unlink()


def another_tensor(folder: Path) -> None:
    (folder / "model-00002-of-00002.safetensors").write_bytes(safetensors({"c": b"34"}))


def fewer_bytes(folder: Path) -> None:
    (folder / "model-00002-of-00002.safetensors").write_bytes(safetensors({"b": b"3"}))


def without_index(folder: Path) -> None:
    (folder / "model.safetensors.index.json").unlink()


def without_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def torn_index(folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {')


def index_of_lists(folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_text(
        '{"weight_map": {"a": ["model-00001-of-00002.safetensors"]}}'
    )


def index_of_nothing(folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {}}')


def nested_index(folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_text("[" * 100_000)


def without_weights(folder: Path) -> None:
    for shard in folder.glob("*.safetensors"):
        shard.unlink()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (cut_off, "its header states"),
        (
            without_shard,
            (
                "model-00002-of-00002.safetensors is listed in model.safetensors.index.json but "
                "does not exist"
            ),
        ),
        (another_tensor, "lacks the tensor b"),
        (
            fewer_bytes,
            "the files contain 3 bytes of tensors, but model.safetensors.index.json states 4",
        ),
        (without_index, "there are 2 weights files but no model.safetensors.index.json"),
        (without_config, "config.json does not exist yet"),
        (torn_index, "model.safetensors.index.json cannot be read"),
        (index_of_lists, "model.safetensors.index.json cannot be read"),
        (index_of_nothing, "model.safetensors.index.json cannot be read"),
        (nested_index, "model.safetensors.index.json cannot be read"),
        (without_weights, "no weights file exists yet"),
    ],
)
def test_what_is_not_whole_waits_and_says_for_what(
    tmp_path: Path, spoil: Callable[[Path], None], said: str
) -> None:
    folder = checkpoint(tmp_path / "step-1")
    spoil(folder)
    changed(folder, LONG_AGO_S)
    found = only_one(tmp_path)
    assert said in found.lacks
    assert found.digest == ""


def test_it_waits_until_nothing_changed_for_as_long_as_was_asked(tmp_path: Path) -> None:
    checkpoint(tmp_path / "step-1", changed_s=LATER_S - 5 * MINUTE_S)
    assert (
        "changed 5 minutes ago; it is evaluated after 10 minutes without a change"
        in only_one(tmp_path).lacks
    )
    assert only_one(tmp_path, quiet_minutes=5).lacks == ""


def test_a_marker_says_that_it_is_whole_in_place_of_the_index(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "step-1")
    without_index(folder)
    assert (
        "DONE does not exist yet"
        in only_one(changed(folder, LONG_AGO_S).parent, marker="DONE").lacks
    )
    (folder / "DONE").touch()
    changed(folder, LONG_AGO_S)
    assert only_one(tmp_path, marker="DONE").lacks == ""


@pytest.mark.parametrize(
    ("spoil", "said"), [(cut_off, "its header states"), (without_weights, "no weights file")]
)
def test_a_marker_vouches_for_no_file_that_is_cut_off_or_away(
    tmp_path: Path, spoil: Callable[[Path], None], said: str
) -> None:
    folder = checkpoint(tmp_path / "step-1")
    spoil(folder)
    (folder / "DONE").touch()
    found = only_one(changed(folder, LONG_AGO_S).parent, marker="DONE")
    assert said in found.lacks
    assert found.digest == ""


def test_a_link_takes_no_checkpoint_s_place_and_stands_for_what_nothing_else_leads_to(
    tmp_path: Path,
) -> None:
    root = tmp_path / "tuned"
    folder = checkpoint(root / "checkpoint-2")
    (root / "a-latest").symlink_to(folder.name)
    (root / "loop").symlink_to(".")
    (root / "itself").symlink_to("itself")
    elsewhere = checkpoint(tmp_path / "elsewhere", weights=b"4321")
    (root / "checkpoint-1").symlink_to(elsewhere)
    found = {one.name: one.path for one in found_in(root)}
    assert found == {"tuned/checkpoint-2": str(folder), "tuned/checkpoint-1": str(elsewhere)}


def test_weights_that_nothing_vouches_for_need_a_marker(tmp_path: Path) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "pytorch_model.bin").write_bytes(b"weights")
    changed(folder, LONG_AGO_S)
    assert "set `marker` to the name of a file" in only_one(tmp_path).lacks


def test_weights_tokenizer_and_template_are_the_model_and_its_place_and_notes_are_not(
    tmp_path: Path,
) -> None:
    first = checkpoint(tmp_path / "a" / "step-1")
    (first / "optimizer.pt").write_bytes(b"1")
    changed(first, LONG_AGO_S)
    checkpoint(tmp_path / "b" / "step-2")
    checkpoint(tmp_path / "c" / "step-3", weights=b"1235")
    checkpoint(tmp_path / "d" / "step-4", template="{{ other }}")
    digests = {found.name: found.digest for found in found_in(tmp_path)}
    assert digests["a/step-1"] == digests["b/step-2"]
    assert len(set(digests.values())) == 3


def test_weights_are_read_once_until_they_change(tmp_path: Path) -> None:
    folder, kept = checkpoint(tmp_path / "held" / "step-1"), tmp_path / "digests.jsonl"
    first, again = FileDigests(kept), FileDigests(kept)
    [before] = found_in(tmp_path / "held", digests=first)
    again = FileDigests(kept)
    assert found_in(tmp_path / "held", digests=again) == [before]
    assert (first.n_read, again.n_read) == (5, 0)
    shard = folder / "model-00001-of-00002.safetensors"
    shard.write_bytes(safetensors({"a": b"21"}))
    changed(folder, LONG_AGO_S)
    os.utime(shard, (LONG_AGO_S + 1, LONG_AGO_S + 1))
    third = FileDigests(kept)
    [after] = found_in(tmp_path / "held", digests=third)
    assert after.digest != before.digest
    assert third.n_read == 1


def test_a_torn_line_of_the_digests_costs_one_reading(tmp_path: Path) -> None:
    checkpoint(tmp_path / "held" / "step-1")
    kept = tmp_path / "digests.jsonl"
    found_in(tmp_path / "held", digests=FileDigests(kept))
    kept.write_bytes(kept.read_bytes()[:-20])
    again = FileDigests(kept)
    found_in(tmp_path / "held", digests=again)
    assert again.n_read == 1


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere: the folder does not exist"):
        found_in(tmp_path / "nowhere")


def test_recordings_are_checkpoints_of_the_folder_s_family(tmp_path: Path) -> None:
    root = tmp_path / "tuned"
    root.mkdir()
    (root / "step-3.jsonl").write_text('{"problem_id": "p", "turn": 1, "content": "x"}\n')
    (root / "step-4.jsonl").write_text("torn")
    changed(root, LONG_AGO_S)
    source = CheckpointSource(recordings=str(root))
    whole, torn = find_recordings(source, root, LATER_S)
    assert (whole.name, whole.family, whole.step, whole.lacks) == ("tuned/step-3", "tuned", 3, "")
    assert "is not JSON" in torn.lacks
