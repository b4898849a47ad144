"""Server of Parley's embedders MiniLM and BGE-M3: one FlagEmbedding process for all workers."""

import argparse
import base64
import copy
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from queue import Queue
from typing import Any

from schemas.run import EmbedderIdentity
from tasks.language.access import ModelAccess
from tasks.language.model_spec import BGE_M3
from tasks.language.servers.loopback_http import AnswerRequest, serve_until_parent_ends
from tasks.language.servers.server_process import RESTARTS, server_process

# Engines of FlagEmbedding in this process, which share the weights. A request uses a free one. The
# last digits of a vector depend on the other texts of a batch, and batches are no faster on a CPU.
# Therefore a CPU computes each text alone on one thread, and its vector is the same in every
# request (LAB). A GPU computes texts in batches.

BATCH_ON_GPU = 32
MAX_TEXTS = 2048
_SETTINGS = {
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "TQDM_DISABLE": "1",
}
"""Variables that the libraries read at import.

One thread per engine, no downloads except the weights, no progress bars in the log.
"""


class EmbeddingEngines:
    """Queue for all engines. A request waits for a free engine.

    Args:
        name: Name of the model in answers.
        weights: Folder of the weights.
        pooling: `mean` or `cls`.
        max_length: Number of tokens after which a text is cut.
        number: Number of engines. A GPU always has one.
    """

    def __init__(
        self, name: str, weights: Path, pooling: str, max_length: int, number: int
    ) -> None:
        os.environ |= _SETTINGS
        torch: Any = import_module("torch")
        library: Any = import_module("FlagEmbedding")
        on_gpu = torch.cuda.is_available()
        self._name, self._batch = name, BATCH_ON_GPU if on_gpu else 1
        first = library.FlagModel(
            str(weights),
            use_fp16=False,
            devices="cuda:0" if on_gpu else "cpu",
            pooling_method=pooling,
            normalize_embeddings=True,
            query_max_length=max_length,
            passage_max_length=max_length,
        )
        self._max_length = max_length
        self._free: Queue[Any] = Queue()
        self._free.put(first)
        for _ in range(0 if on_gpu else number - 1):
            self._free.put(_with_own_tokenizer(first))

    def answer(self, request: Mapping[str, Any], is_gone: Callable[[], bool]) -> Mapping[str, Any]:
        """Return the answer to POST /embeddings.

        Raises:
            ValueError: The request is invalid.
        """
        texts = _texts(request)
        engine = self._free.get()
        try:
            if is_gone():
                return {}
            vectors = engine.encode(texts, batch_size=self._batch, max_length=self._max_length)
        finally:
            self._free.put(engine)
        in_base64 = request.get("encoding_format") == "base64"
        rows = [
            base64.b64encode(v.astype("<f4").tobytes()).decode() if in_base64 else v.tolist()
            for v in vectors
        ]
        data = [
            {"object": "embedding", "index": index, "embedding": row}
            for index, row in enumerate(rows)
        ]
        return {"object": "list", "model": self._name, "data": data}


def _texts(request: Mapping[str, Any]) -> Sequence[str]:
    value = request.get("input")
    texts = [value] if isinstance(value, str) else value
    if (
        not isinstance(texts, list)
        or not 0 < len(texts) <= MAX_TEXTS
        or not all(isinstance(text, str) for text in texts)
    ):
        raise ValueError(f"`input` must be a text or a list of 1 to {MAX_TEXTS} texts")
    return texts


def _with_own_tokenizer(engine: Any) -> Any:
    """Return an engine with the same weights and its own tokenizer, which is not thread-safe."""
    other = copy.copy(engine)
    other.tokenizer = copy.deepcopy(engine.tokenizer)
    return other


MAX_ENGINES = 4
"""Maximum number of engines, which share the weights. The number does not change any vector."""
_READY_S, _DOWNLOAD_S = 600.0, 3600.0
"""Time limit of the start in seconds, and the limit if weights may be downloaded."""


def embedding_server(
    access: ModelAccess[EmbedderIdentity], log_dir: Path
) -> AbstractContextManager[str]:
    """Serve a local embedder on a free loopback port during the block. Yield the base URL.

    The server ends with its parent process.

    Args:
        access: Embedder to serve. The `path` of its endpoint is the folder of the weights. Without
            it, BGE-M3's weights are taken from the cache or downloaded.
        log_dir: Folder of the log.

    Raises:
        ModelUnavailable: The server did not start in time.
    """
    identity, weights = access.identity, access.endpoint.path
    arguments = ["--name", identity.name, "--pooling", identity.pooling]
    arguments += ["--max-length", str(identity.max_length)]
    return server_process(
        identity.label,
        "tasks.language.servers.embedding_server",
        (*arguments, *(("--weights", weights) if weights else ())),
        log_dir / f"embedder-{identity.name}.log",
        ready_s=_READY_S if weights else _DOWNLOAD_S,
        restarts=RESTARTS,
    )


def _download_weights() -> Path:
    """Return the folder of BGE-M3's weights, from the cache or the network.

    Without weights, end the process with the remedy.
    """
    hub: Any = import_module("huggingface_hub")
    repository, commit = BGE_M3
    try:
        folder = hub.snapshot_download(
            repository, revision=commit, ignore_patterns=["onnx/*", "imgs/*", "*.jpg"]
        )
    # The library raises its own errors, OSError and HTTP errors. Each means missing weights.
    except Exception as error:  # noqa: BLE001
        sys.exit(
            "the weights of bge-m3 are not in the cache and could not be downloaded"
            f" ({type(error).__name__}). Name their folder by --embedder bge-m3@FOLDER, or use an"
            " embedder that needs no network: --embedder embedded:minilm"
        )
    return Path(folder)


def main() -> None:
    """Serve the model in this process until the parent ends."""
    parser = argparse.ArgumentParser(
        prog="python -m tasks.language.servers.embedding_server", description=__doc__
    )
    parser.add_argument("--name", required=True)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--pooling", choices=("mean", "cls"), required=True)
    parser.add_argument("--max-length", type=int, required=True)
    number = min(MAX_ENGINES, os.cpu_count() or 1)

    def load(arguments: argparse.Namespace) -> tuple[str, AnswerRequest]:
        weights = arguments.weights or _download_weights()
        engines = EmbeddingEngines(
            arguments.name, weights, arguments.pooling, arguments.max_length, number
        )
        return arguments.name, engines.answer

    serve_until_parent_ends(parser, load)


if __name__ == "__main__":
    main()
