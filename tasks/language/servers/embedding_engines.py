"""Engines of FlagEmbedding in this process, which share the weights. A request uses a free one.

The last digits of a vector depend on the other texts of a batch, and batches are no faster on a
CPU. Therefore a CPU computes each text alone on one thread, and its vector is the same in every
request (LAB). A GPU computes texts in batches.
"""

import base64
import copy
import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from queue import Queue
from typing import Any

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
