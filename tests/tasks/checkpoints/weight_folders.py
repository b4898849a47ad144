"""Folders of weights as a trainer leaves them: few bytes, in the real formats."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

LONG_AGO_S = 1_700_000_000.0
MINUTE_S = 60.0


def safetensors(tensors: Mapping[str, bytes]) -> bytes:
    """A file of safetensors: each tensor a row of bytes."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, data in tensors.items():
        header[name] = {"dtype": "U8", "shape": [len(data)], "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + b"".join(tensors.values())


def checkpoint(
    folder: Path,
    *,
    weights: bytes = b"1234",
    changed_s: float = LONG_AGO_S,
    template: str = "{{ messages }}",
) -> Path:
    """A whole checkpoint in two files of weights; all of it last changed at the same time."""
    folder.mkdir(parents=True, exist_ok=True)
    half = len(weights) // 2
    first, second = (f"model-0000{number}-of-00002.safetensors" for number in (1, 2))
    shards = {first: {"a": weights[:half]}, second: {"b": weights[half:]}}
    for name, tensors in shards.items():
        (folder / name).write_bytes(safetensors(tensors))
    places = {tensor: name for name, tensors in shards.items() for tensor in tensors}
    index = {"metadata": {"total_size": len(weights)}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text('{"model_type": "llama"}')
    (folder / "tokenizer.json").write_text("{}")
    (folder / "chat_template.jinja").write_text(template)
    (folder / "trainer_state.json").write_text('{"global_step": 7}')
    return changed(folder, changed_s)


def changed(folder: Path, at_s: float) -> Path:
    """The folder, whose files were last changed at that time."""
    for path in (*folder.iterdir(), folder):
        os.utime(path, (at_s, at_s))
    return folder
