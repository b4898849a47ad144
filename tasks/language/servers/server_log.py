"""Logs of model servers: the error that ended a start, and its remedy. vLLM's last words are "See root cause above"."""

import contextlib
import re
from pathlib import Path

from tasks.language.endpoints.faults import shortened

_READ_BYTES = 4_000_000
_PREFIX = re.compile(
    r"^(?:\([^()]*\bpid=\d+\)\s*)?"  # the process that wrote the line
    r"(?:(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)\s+\d[\d-]*\s+[\d:.,]+\s*(?:\[[^\]]*\]\s?)?)?"
)
_ERROR = re.compile(
    r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Fault|Interrupt|Exit|Unavailable|NotFound)\b(?::\s*\S.*)?$"
)
_HAS_MORE = re.compile(r"validation errors? for \w+$|:$")
_REPEATS = re.compile(
    r"Engine core initialization failed|See root cause above|EngineDeadError|Engine process failed to start"
)
_ON_PROCESSORS = re.compile(
    r"VLLM_CPU_KVCACHE_SPACE|CPU backend|device_config=cpu|\bcpu_(?:worker|model_runner)\b"
)
_NO_ROOM = re.compile(
    r"KV cache|cache blocks|gpu_memory_utilization|gpu-memory-utilization|out of memory|OutOfMemory|Cannot allocate memory"
    r"|Free memory on device|memory utilization|can't allocate memory",
    re.IGNORECASE,
)
_LOWER = re.compile(
    r"out of memory|OutOfMemory|can(?:no|')t allocate memory|less than desired", re.IGNORECASE
)
_ROOM = {
    (
        True,
        True,
    ): "set VLLM_CPU_KVCACHE_SPACE (GiB, in serve.environment) below the free memory, and serve.memory_share",
    (
        True,
        False,
    ): "raise VLLM_CPU_KVCACHE_SPACE (GiB, in serve.environment), or lower serve.max_model_len",
    (False, True): "lower serve.memory_share, or give the model more GPUs by serve.tensor_parallel",
    (
        False,
        False,
    ): "raise serve.memory_share, lower serve.max_model_len, or raise serve.tensor_parallel",
}
"""(on processors, memory is short) -> what helps; else the cache is too small."""
_REMEDIES = (
    (
        re.compile(r"Address already in use|EADDRINUSE", re.IGNORECASE),
        "another program took its port: run the command again",
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
        "add --trust-remote-code to serve.arguments, if you trust the repository's code",
    ),
    (
        re.compile(r"architectures? .*not supported|does not recognize this architecture"),
        "this vLLM cannot serve the model",
    ),
)


def log_size(log: Path) -> int:
    """Return where the next start's lines will begin."""
    with contextlib.suppress(OSError):
        return log.stat().st_size
    return 0


def why_it_ended(log: Path, start: int = 0) -> str:
    """Return a server's first error with its remedy, else the last lines of its log; always with the log's path.

    Args:
        start: where this start's lines begin.
    """
    with contextlib.suppress(OSError):  # no log, nothing to show of it
        with log.open("rb") as file:
            before = file.read(start).count(b"\n")
            text = file.read(_READ_BYTES).decode("utf-8", "replace")
        if (found := first_error(text)) is not None:
            number, error = found
            advice = remedy(error, text)
            return f"Its first error ({log}, line {before + number}): {shortened(error)}" + (
                f". Remedy: {advice}" if advice else ""
            )
        if lines := text.strip().splitlines()[-5:]:
            return f"The log ({log}) ends: {' | '.join(map(shortened, lines))}"
    return f"The log is {log}"


def first_error(text: str) -> tuple[int, str] | None:
    """Return the first error that a traceback ends with, and its line's number; else the first line that is logged as an error.

    Errors that are warned of and passed over, and those that only point at an earlier one, are left out.
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
    """Return a line's level, if it has one, and its text without the name of its process, its time and its place."""
    prefix = _PREFIX.match(line)
    return (prefix["level"], line[prefix.end() :]) if prefix else (None, line)


def remedy(error: str, text: str) -> str | None:
    """Return what helps against an error; None where that is not known.

    Args:
        text: the whole log, which tells whether the server runs on processors.
    """
    if _NO_ROOM.search(error):
        return _ROOM[_ON_PROCESSORS.search(text) is not None, _LOWER.search(error) is not None]
    return next((advice for pattern, advice in _REMEDIES if pattern.search(error)), None)
