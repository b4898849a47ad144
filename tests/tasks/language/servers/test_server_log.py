"""The first error of a failed start, and its remedy, from logs as vLLM writes them."""

from pathlib import Path

import pytest

from tasks.language.servers.server_process import first_error, remedy, why_it_ended

ENGINE = "(EngineCore_DP0 pid=412) ERROR 11-24 02:11:09 [core.py:718] "
SERVER = "(APIServer pid=377) "


def engine_log(error: str, *before: str, n_frames: int = 60) -> str:
    """A log whose last words point at an error that stands 120 lines higher."""
    frames = ['  File "/vllm/v1/engine/core.py", line 700, in step', "    self.step()"] * (
        n_frames // 2
    )
    head = [
        f"{SERVER}INFO 11-24 02:10:40 [api_server.py:1896] vLLM API server version 0.32.0",
        *before,
    ]
    root = [f"{ENGINE}EngineCore failed to start.", f"{ENGINE}Traceback (most recent call last):"]
    engine = [*root, *(f"{ENGINE}{line}" for line in frames), f"{ENGINE}{error}"]
    again = ["Process EngineCore_DP0:", "Traceback (most recent call last):", *frames, error]
    last = [f"{SERVER}Traceback (most recent call last):", *(f"{SERVER}{line}" for line in frames)]
    words = (
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core "
        "proc(s): {}"
    )
    return "\n".join([*head, *engine, *again, *last, f"{SERVER}{words}"])


CACHE = (
    "ValueError: To serve at least one request with the models's max seq len (32768), (14.00 "
    "GiB KV cache is needed, which is"
    " larger than the available KV cache memory (3.21 GiB). Try increasing "
    "`gpu_memory_utilization`."
)
CPU = (
    "(EngineCore_DP0 pid=412) WARNING 11-24 02:10:50 [cpu.py:110] VLLM_CPU_KVCACHE_SPACE not "
    "set. Using 4 GiB for KV cache."
)
PASSED_OVER = (
    f"{SERVER}WARNING 11-24 02:10:41 [interface.py:171] Failed to import from vllm._C: "
    "ImportError('no libcuda')"
)
FREE = (
    "ValueError: Free memory on device (9.1/79.2 GiB) on startup is less than desired GPU "
    "memory utilization (0.9, 71.3 GiB)."
    " Decrease GPU memory utilization or reduce GPU memory used by other processes."
)


@pytest.mark.parametrize(
    ("error", "before", "advice"),
    [
        (CACHE, PASSED_OVER, "raise serve.memory_share, lower serve.max_model_len"),
        (CACHE, CPU, "raise VLLM_CPU_KVCACHE_SPACE"),
        (FREE, PASSED_OVER, "lower serve.memory_share"),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
            PASSED_OVER,
            "lower serve.memory_share",
        ),
        ("RuntimeError: No CUDA GPUs are available", PASSED_OVER, "check serve.devices"),
        ("KeyError: 'layers.0.weight'", PASSED_OVER, None),
    ],
)
def test_the_root_cause_comes_with_what_helps(
    tmp_path: Path, error: str, before: str, advice: str | None
) -> None:
    log = tmp_path / "vllm-tiny.log"
    log.write_text(
        "RuntimeError of yesterday\nTraceback (most recent call last):\nOSError: yesterday's\n"
    )
    start = log.stat().st_size
    with log.open("a") as file:
        file.write(engine_log(error, before))
    said = why_it_ended(log, start)
    number = next(n for n, line in enumerate(log.read_text().splitlines(), 1) if error in line)
    assert said.startswith(f"Its first error ({log}, line {number}): {error[:100]}")
    assert "See root cause above" not in said
    assert ("Remedy: " in said) == (advice is not None)
    assert (advice or "") in said


def test_of_errors_that_cause_each_other_the_first_is_shown() -> None:
    text = "\n".join(
        [
            *(
                "Traceback (most recent call last):",
                '  File "a.py", line 1',
                "pydantic_core.ValidationError: 1 validation error for Model",
            ),
            "  Value error, Model architectures ['Nope'] are not supported for now.",
            *("", "The above exception was the direct cause of the following exception:", ""),
            *("Traceback (most recent call last):", "RuntimeError: no model"),
        ]
    )
    found = first_error(text)
    assert found is not None
    assert found[1].startswith(
        "pydantic_core.ValidationError: 1 validation error for Model Value error, Model "
        "architectures"
    )
    assert remedy(found[1], text) == "this vLLM cannot serve the model"


def test_a_line_logged_as_an_error_counts_where_no_traceback_is_and_else_the_last_lines_are_shown(
    tmp_path: Path,
) -> None:
    assert first_error(f"starts\n{SERVER}ERROR 11-24 02:10:41 [api.py:1] no such folder\nends") == (
        2,
        "no such folder",
    )
    log = tmp_path / "vllm-tiny.log"
    log.write_text("one\ntwo\n")
    assert why_it_ended(log) == f"The log ({log}) ends: one | two"
    assert why_it_ended(tmp_path / "none.log") == f"The log is {tmp_path / 'none.log'}"
