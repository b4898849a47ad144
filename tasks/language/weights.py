"""The files of a folder that make a model answer as it does, and the digest that identifies it by them."""

import hashlib
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path

from schemas.content_id import ID_LENGTH
from tasks.storage.file_digests import FileDigests

WEIGHTS = ("*.safetensors", "pytorch_model*.bin", "consolidated*.pth", "*.gguf")
"""Formats of weights; of several, a server loads the first."""
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
"""Architecture, tokenizer and chat template. Optimizer, trainer and notes are left out: they change no answer."""


def weight_files(folder: Path) -> tuple[Path, ...]:
    """Files of weights directly in a folder, sorted by name; none where it holds no model."""
    return tuple(
        folder / name
        for name in weight_names(path.name for path in folder.iterdir() if path.is_file())
    )


def weight_names(names: Iterable[str]) -> tuple[str, ...]:
    """Which of these names, relative to a model's folder, are of its files of weights; sorted."""
    visible = sorted(name for name in names if not name.startswith("."))
    return next(
        filter(
            None, (tuple(name for name in visible if _fits(name, pattern)) for pattern in WEIGHTS)
        ),
        (),
    )


def model_names(names: Iterable[str]) -> tuple[str, ...]:
    """Which of these names, relative to a model's folder, are of files that the digest is made of; sorted."""
    given = tuple(names)
    beside = (name for name in given for pattern in _BESIDE if _fits(name, pattern))
    return tuple(sorted({*weight_names(given), *beside}))


def _fits(name: str, pattern: str) -> bool:
    return name.count("/") == pattern.count("/") and fnmatch(name, pattern)


def model_files(folder: Path) -> tuple[Path, ...]:
    """Files that the digest is made of, sorted by their names within the folder."""
    return tuple(
        sorted(
            {*weight_files(folder), *_files_beside(folder)},
            key=lambda path: path.relative_to(folder).as_posix(),
        )
    )


def _files_beside(folder: Path) -> Iterator[Path]:
    for pattern in _BESIDE:
        yield from (path for path in folder.glob(pattern) if path.is_file())


def weights_digest(folder: Path, digests: FileDigests) -> str:
    """Digest of weights, architecture, tokenizer and chat template: 32 hex digits, the same wherever the folder lies.

    Raises:
        OSError: a file cannot be read.
    """
    whole = hashlib.sha256()
    for path in model_files(folder):
        whole.update(f"{path.relative_to(folder).as_posix()}\0{digests.digest(path)}\n".encode())
    return whole.hexdigest()[:ID_LENGTH]
