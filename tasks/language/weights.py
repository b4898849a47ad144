"""Files of a folder that determine a model's answers, and the digest that identifies the model."""

import hashlib
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

from schemas.content_id import ID_LENGTH
from tasks.storage.home_records import FileDigests

WEIGHTS = ("*.safetensors", "pytorch_model*.bin", "consolidated*.pth", "*.gguf")
"""Formats of weights. If a folder has several, a server loads the first."""
_BESIDE = (
    *("config.json", "adapter_config.json", "params.json", "configuration_*.py", "modeling_*.py"),
    *(
        "tokenizer*",
        "*.tiktoken",
        "tekken.json",
        "vocab.*",
        "merges.txt",
        "special_tokens_map.json",
        "added_tokens.json",
    ),
    *("sentencepiece*", "spiece.model", "chat_template*", "additional_chat_templates/*"),
)
"""Files of architecture, tokenizer and chat template.

Optimizer, trainer and notes change no answer.
"""


def weight_files(folder: Path) -> tuple[Path, ...]:
    """Return the weights files directly in a folder, sorted by name.

    Empty if it contains no model.
    """
    return tuple(
        folder / name
        for name in weight_names(path.name for path in folder.iterdir() if path.is_file())
    )


def weight_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names, relative to a model's folder, that are weights files, sorted."""
    visible = sorted(name for name in names if not name.startswith("."))
    return next(
        filter(
            None, (tuple(name for name in visible if _fits(name, pattern)) for pattern in WEIGHTS)
        ),
        (),
    )


def model_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names, relative to a model's folder, that are part of the digest, sorted."""
    all_names = tuple(names)
    beside = (name for name in all_names for pattern in _BESIDE if _fits(name, pattern))
    return tuple(sorted({*weight_names(all_names), *beside}))


def _fits(name: str, pattern: str) -> bool:
    return name.count("/") == pattern.count("/") and fnmatch(name, pattern)


def weights_digest(folder: Path, digests: FileDigests) -> str:
    """Return a digest of weights, architecture, tokenizer and chat template: 32 hex digits.

    It does not depend on the folder's location.

    Raises:
        OSError: A file cannot be read.
    """
    deeper = (path for pattern in _BESIDE if "/" in pattern for path in folder.glob(pattern))
    whole, paths = hashlib.sha256(), (*folder.iterdir(), *deeper)
    for name in model_names(p.relative_to(folder).as_posix() for p in paths if p.is_file()):
        whole.update(f"{name}\0{digests.digest(folder / name)}\n".encode())
    return whole.hexdigest()[:ID_LENGTH]
