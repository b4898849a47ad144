"""A zygote arranges its memory for its forks, and leaves it alone where the kernel cannot do so."""

import json
import subprocess
import sys

import pytest

from tests.sandbox.backends.zygotes import ROOT

HARNESS = ROOT / "sandbox" / "harness" / "zygote"
SCRIPT = """
import ctypes, hashlib, json, sys
sys.path.insert(0, sys.argv[1])
import fork_memory
if sys.argv[2] == "without huge pages":
    assert fork_memory._libc.prctl(41, 1, 0, 0, 0) == 0

def digest(texts):
    return [hashlib.sha256(ctypes.string_at(first, end - first)).hexdigest() for first, end in texts]

texts = fork_memory._texts()
before = digest(texts)
fork_memory.use_huge_pages()
import decimal
print(json.dumps({
    "texts": len(texts),
    "of files": len(fork_memory._texts()),
    "is equal": digest(texts) == before,
    "computes": str(decimal.Decimal(1) / 8),
}))
"""
BLOCKS = """
import gc, json, sys
sys.path.insert(0, sys.argv[1])
import ast, fork_memory, json.decoder
objects = [bytes(n % 400) for n in range(20000)]
del objects[::2]
gc.collect()
before = sum(n for _, n in fork_memory._free_blocks())
fork_memory.fill_free_blocks()
print(json.dumps([before, sum(n for _, n in fork_memory._free_blocks())]))
"""


def _printed(script: str, *arguments: str) -> object:
    command = [sys.executable, "-c", script, str(HARNESS), *arguments]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.parametrize("kernel", ["with huge pages", "without huge pages"])
def test_the_interpreters_code_is_the_same_after_it_moved(kernel: str):
    printed = _printed(SCRIPT, kernel)
    assert isinstance(printed, dict)
    assert (printed["is equal"], printed["computes"]) == (True, "0.125")
    if kernel == "without huge pages":
        assert printed["of files"] == printed["texts"]


def test_gaps_between_objects_are_filled():
    before, after = _printed(BLOCKS)  # pyright: ignore[reportGeneralTypeIssues]
    assert before > 5000
    assert after < before / 3
