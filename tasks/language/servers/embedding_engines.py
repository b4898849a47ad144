"""FlagEmbedding in this process: engines on one copy of the weights, each request to the one that is free.

A vector's last digits depend on the texts beside it in a batch, and a batch gains nothing on a processor. So on a processor each
text is computed alone, on one thread: its vector is the same in every request (LAB). On a GPU texts go in batches.
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
"""Read when the libraries are imported. One thread an engine, nothing fetched beside the weights, no bars in the log."""


class EmbeddingEngines:
    """One queue for all engines: a request waits for the first that is free.

    Args:
        name: the model's name in answers.
        weights: folder that holds them.
        pooling: `mean` or `cls`.
        max_length: tokens of a text that count.
        number: engines; a GPU has one.
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
        """The answer to POST /embeddings.

        Raises:
            ValueError: no such request.
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
    given = request.get("input")
    texts = [given] if isinstance(given, str) else given
    if (
        not isinstance(texts, list)
        or not 0 < len(texts) <= MAX_TEXTS
        or not all(isinstance(text, str) for text in texts)
    ):
        raise ValueError(f"`input` is a text or a list of 1 to {MAX_TEXTS} texts")
    return texts


def _with_own_tokenizer(engine: Any) -> Any:
    """An engine on the same weights: a tokenizer serves one thread at a time."""
    other = copy.copy(engine)
    other.tokenizer = copy.deepcopy(engine.tokenizer)
    return other
