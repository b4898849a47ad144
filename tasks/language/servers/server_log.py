"""Analysis of server logs: the error that ended a start, and its remedy.

vLLM's last line is often "See root cause above", so the first error counts.
"""

import contextlib
import re
from pathlib import Path

from tasks.language.endpoints.faults import shortened

_READ_BYTES = 4_000_000
_PREFIX = re.compile(
    r"^(?:\([^()]*\bpid=\d+\)\s*)?"  # Process that wrote the line.
    r"(?:(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)\s+\d[\d-]*\s+[\d:.,]+\s*(?:\[[^\]]*\]\s?)?)?"
)
_ERROR = re.compile(
    r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*"
    r"(?:Error|Exception|Fault|Interrupt|Exit|Unavailable|NotFound)\b(?::\s*\S.*)?$"
)
_HAS_MORE = re.compile(r"validation errors? for \w+$|:$")
_REPEATS = re.compile(
    r"Engine core initialization failed|See root cause above|EngineDeadError"
    r"|Engine process failed to start"
)
_ON_CPU = re.compile(
    r"VLLM_CPU_KVCACHE_SPACE|CPU backend|device_config=cpu|\bcpu_(?:worker|model_runner)\b"
)
_NO_ROOM = re.compile(
    r"KV cache|cache blocks|gpu_memory_utilization|gpu-memory-utilization|out of memory|OutOfMemory"
    r"|Cannot allocate memory|Free memory on device|memory utilization|can't allocate memory",
    re.IGNORECASE,
)
_LOWER = re.compile(
    r"out of memory|OutOfMemory|can(?:no|')t allocate memory|less than desired", re.IGNORECASE
)
_MEMORY_REMEDIES = {
    (True, True): "set VLLM_CPU_KVCACHE_SPACE (GiB, in serve.environment) below the free memory,"
    " and lower serve.memory_share",
    (True, False): "raise VLLM_CPU_KVCACHE_SPACE (GiB, in serve.environment), or lower"
    " serve.max_model_len",
    (False, True): "lower serve.memory_share, or give the model more GPUs by serve.tensor_parallel",
    (False, False): "raise serve.memory_share, lower serve.max_model_len, or raise"
    " serve.tensor_parallel",
}
"""(on CPU, out of memory) -> remedy. If memory is not exhausted, the cache is too small."""
_REMEDIES = (
    (
        re.compile(r"Address already in use|EADDRINUSE", re.IGNORECASE),
        "another program took its port. Repeat the command",
    ),
    (
        re.compile(
            r"No CUDA GPUs|no NVIDIA driver|invalid device ordinal|Failed to infer device type"
        ),
        "check serve.devices",
    ),
    (
        re.compile(r"gated repo|401 Client Error|403 Client Error"),
        "set HF_TOKEN to a token that may read the repository",
    ),
    (
        re.compile(r"trust_remote_code"),
        "add --trust-remote-code to serve.arguments if you trust the repository's code",
    ),
    (
        re.compile(r"architectures? .*not supported|does not recognize this architecture"),
        "this vLLM cannot serve the model",
    ),
)


def log_size(log: Path) -> int:
    """Return the size of the log, which is the position where the next start's lines begin."""
    with contextlib.suppress(OSError):
        return log.stat().st_size
    return 0


def why_it_ended(log: Path, start: int = 0) -> str:
    """Return the first error in a server's log with its remedy, or the log's last lines.

    The text names the log's path.

    Args:
        log: Log of the server.
        start: Position where this start's lines begin.
    """
    with contextlib.suppress(OSError):  # There may be no log.
        with log.open("rb") as file:
            before = file.read(start).count(b"\n")
            text = file.read(_READ_BYTES).decode("utf-8", "replace")
        if (numbered_error := first_error(text)) is not None:
            number, error = numbered_error
            advice = remedy(error, text)
            return f"Its first error ({log}, line {before + number}): {shortened(error)}" + (
                f". Remedy: {advice}" if advice else ""
            )
        if lines := text.strip().splitlines()[-5:]:
            return f"The log ({log}) ends: {' | '.join(map(shortened, lines))}"
    return f"The log is {log}"


def first_error(text: str) -> tuple[int, str] | None:
    """Return the number and text of the first line with an error, or None.

    The error that ends a traceback precedes lines that are logged as errors. Errors that are only
    warned about, and errors that refer to an earlier one, are ignored.
    """
    in_traceback, logged, lines = False, None, [_split(line) for line in text.splitlines()]
    for number, (level, words) in enumerate(lines, 1):
        if words.startswith("Traceback (most recent call last)"):
            in_traceback = level in (None, "ERROR", "CRITICAL")
        elif in_traceback and _ERROR.match(words):
            in_traceback = False
            if not _REPEATS.search(words):
                more = lines[number : number + 2] if _HAS_MORE.search(words) else []
                return number, " ".join(
                    part.strip() for part in (words, *(text for _, text in more))
                )
        elif (
            level in ("ERROR", "CRITICAL") and not in_traceback and logged is None and words.strip()
        ):
            logged = number, words.strip()
    return logged


def _split(line: str) -> tuple[str | None, str]:
    """Return a line's level, or None, and its text without process name, time and location."""
    prefix = _PREFIX.match(line)
    return (prefix["level"], line[prefix.end() :]) if prefix else (None, line)


def remedy(error: str, text: str) -> str | None:
    """Return the remedy of an error, or None if it is unknown.

    Args:
        error: Text of the error.
        text: Complete log, which shows whether the server runs on CPUs.
    """
    if _NO_ROOM.search(error):
        is_on_cpu = _ON_CPU.search(text) is not None
        return _MEMORY_REMEDIES[is_on_cpu, _LOWER.search(error) is not None]
    return next((advice for pattern, advice in _REMEDIES if pattern.search(error)), None)
