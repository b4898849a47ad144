"""Contexts in the lake: one file each, read once, and told by their content."""

from pathlib import Path

import pytest

from schemas.dialog import Dialog
from schemas.errors import CorruptRows
from tasks.storage.parquet_store import Lake
from tasks.storage.staged_rows import context_lengths, context_of, write_contexts
from tests.tasks.benchmarks.long_talk import stage


def test_dialogs_share_the_turns_of_one_file(tmp_path: Path) -> None:
    staged, lake = stage(tmp_path, "sample", n_dialogs=30), Lake(tmp_path / "lake")
    write_contexts(lake, staged.contexts)
    (part,) = lake.parts("contexts")
    written = part.stat().st_mtime_ns
    write_contexts(lake, staged.contexts)
    assert part.stat().st_mtime_ns == written
    (context,) = staged.contexts
    for dialog in staged.dialogs:
        assert context_of(lake, dialog) == context.turns[: dialog.context_turns]
    assert len({id(context_of(lake, dialog)[0]) for dialog in staged.dialogs}) == 1


def test_lengths_are_those_of_its_first_turns_given_or_read(tmp_path: Path) -> None:
    staged, lake = stage(tmp_path, "sample"), Lake(tmp_path / "lake")
    (context,) = staged.contexts
    given = context_lengths(lake, staged.dialogs, staged.contexts)
    assert given[context.context_id][:3] == (
        0,
        len("On day 1 I saw bird 1."),
        len("On day 1 I saw bird 1.Bird 1, noted."),
    )
    assert len(given[context.context_id]) == len(context.turns) + 1
    assert context_lengths(lake, staged.dialogs, ()) == {}
    write_contexts(lake, staged.contexts)
    assert context_lengths(lake, staged.dialogs, ()) == given


def test_a_context_that_is_gone_or_is_not_what_its_id_says_is_refused(tmp_path: Path) -> None:
    staged, lake = stage(tmp_path, "sample"), Lake(tmp_path / "lake")
    with pytest.raises(CorruptRows, match="parley stage long_talk"):
        context_of(lake, staged.dialogs[0])
    (context,) = staged.contexts
    with pytest.raises(ValueError, match=r"Context\.of"):
        write_contexts(lake, [context.model_copy(update={"turns": context.turns[1:]})])
    unsaid = context.turns[0].model_copy(update={"content": None})
    with pytest.raises(ValueError, match="scripted"):
        write_contexts(lake, [type(context).of("long_talk", "sample", (unsaid,))])


def test_a_dialog_without_context_reads_nothing(tmp_path: Path) -> None:
    dialog = stage(tmp_path, "sample").dialogs[0]
    alone = Dialog.model_validate({**dict(dialog), "context_id": None, "context_turns": 0})
    assert context_of(Lake(tmp_path / "lake"), alone) == ()
