"""A machine's factor: from references that pass to the limits of a plan."""

import json
from pathlib import Path

import pytest

from sandbox import registry
from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.calibration import factor
from sandbox.calibration.factor import (
    Calibration,
    Measurement,
    Reference,
    bundled_references,
    calibration_of,
    find,
    keep,
    known_faults,
    machine_name,
    measure,
    needed_factor,
    read_references,
    widened,
)
from sandbox.interface import Sandbox
from schemas.errors import ConfigError, SandboxUnavailable, SourceUnreadable
from schemas.run import Limits


@pytest.fixture
def fast(bubblewrap: BubblewrapSandbox, tmp_path: Path) -> Sandbox:
    """Warm zygotes where they run, with slots that other tests do not wait for."""
    warm = registry.load("zygote", slot_directory=tmp_path)
    try:
        warm.check()
    except SandboxUnavailable:
        return bubblewrap
    return warm


def calibration(machine: str, sandbox: str, by: int) -> Calibration:
    return Calibration(
        machine=machine,
        sandbox=sandbox,
        factor=by,
        slowest="own/x",
        slowest_cpu_s=1.0,
        n_references=1,
        n_passed=1,
        fingerprint="f",
        measured_at="2026-11-21T00:00:00Z",
    )


@pytest.mark.slow
def test_bundled_references_pass_and_the_slow_one_is_found(
    bubblewrap: BubblewrapSandbox, tmp_path: Path
) -> None:
    found = measure(BubblewrapSandbox(slot_directory=tmp_path), bundled_references())
    assert (found.n_passed, found.n_known_faults, found.failed) == (found.n_references, 0, ())
    assert found.slowest == "own/primes_below"
    assert 0.1 < found.slowest_cpu_s < 30


@pytest.mark.slow
def test_all_of_humanevals_references_pass(fast: Sandbox, shared_data: Path) -> None:
    references = read_references(shared_data / "humaneval" / "HumanEval.jsonl.gz")
    found = measure(fast, references)
    assert (found.n_passed, found.n_references, found.failed) == (164, 164, ())


@pytest.mark.slow
def test_of_mbpps_references_those_fail_whose_data_is_at_fault(
    fast: Sandbox, shared_data: Path
) -> None:
    """Every tenth, and all that are known to fail: the whole takes half a minute with
    bubblewrap.
    """
    everything = read_references(shared_data / "mbpp")
    assert len(everything) == 974
    faulty = [r for r in everything if r.task_id in known_faults()]
    assert len(faulty) == 15
    sampled = [
        r for n, r in enumerate(everything) if n % 10 == 0 and r.task_id not in known_faults()
    ]
    found = measure(fast, [*faulty, *sampled])
    assert (found.n_passed, found.n_known_faults, found.failed) == (len(sampled), 15, ())


def test_a_reference_that_fails_is_named(bubblewrap: BubblewrapSandbox) -> None:
    wrong = Reference("own/wrong", "def f(): return 2\n", ("assert f() == 1, 'got two'",))
    found = measure(bubblewrap, [wrong])
    assert found.failed == ("own/wrong (failed: AssertionError: got two)",)
    assert (found.slowest, found.slowest_cpu_s) == ("", 0.0)


@pytest.mark.parametrize(
    ("slowest_cpu_s", "expected"),
    [(0.0, 1), (1.85, 1), (2.0, 1), (2.01, 2), (4.0, 2), (4.1, 4), (7.9, 4), (30.0, 16)],
)
def test_the_factor_is_a_power_of_two_that_leaves_half_as_much_again(
    slowest_cpu_s: float, expected: int
) -> None:
    """The usual limit is 3 s: what takes 2 s has half as much again."""
    assert needed_factor(slowest_cpu_s) == expected


def test_limits_are_widened_on_the_machine_and_in_the_sandbox_that_were_measured(
    tmp_path: Path,
) -> None:
    limits = Limits(cpu_s=3.0, wall_s=20.0, memory_mb=512)
    assert widened(limits, tmp_path, "bubblewrap") is limits
    keep(calibration(machine_name(), "bubblewrap", 4), tmp_path)
    keep(calibration("another machine", "docker", 8), tmp_path)
    assert widened(limits, tmp_path, "bubblewrap") == Limits(cpu_s=12.0, wall_s=80.0, memory_mb=512)
    assert widened(limits, tmp_path, "docker") is limits


def test_an_ordinary_machine_changes_no_limit(tmp_path: Path) -> None:
    keep(calibration(machine_name(), "bubblewrap", 1), tmp_path)
    limits = Limits()
    assert widened(limits, tmp_path, "bubblewrap") is limits


def test_a_new_calibration_replaces_the_old_one_of_its_machine_and_sandbox(tmp_path: Path) -> None:
    for machine, sandbox, by in (
        ("m", "zygote", 2),
        (machine_name(), "zygote", 2),
        (machine_name(), "zygote", 4),
    ):
        path = keep(calibration(machine, sandbox, by), tmp_path)
    assert [(c["machine"], c["factor"]) for c in json.loads(path.read_text())] == [
        ("m", 2),
        (machine_name(), 4),
    ]
    found = find(tmp_path, "zygote")
    assert found is not None
    assert found.factor == 4
    assert [p.name for p in tmp_path.iterdir()] == [factor.FILE]


def test_what_is_kept_says_where_it_comes_from(bubblewrap: BubblewrapSandbox) -> None:
    made = calibration_of(
        Measurement(9, 9, 0, (), "own/x", 2.5), bubblewrap, "2026-11-21T00:00:00Z"
    )
    assert (made.factor, made.sandbox, made.machine) == (2, "bubblewrap", machine_name())
    assert made.fingerprint == bubblewrap.fingerprint()


@pytest.mark.parametrize("text", ["{", "{}", '[{"factor": 2}]', "7"])
def test_a_spoiled_file_says_what_to_do(tmp_path: Path, text: str) -> None:
    (tmp_path / factor.FILE).write_text(text)
    if text == "{}":
        assert find(tmp_path, "bubblewrap") is None
        return
    with pytest.raises(ConfigError, match=r"calibration.json.*--calibrate"):
        find(tmp_path, "bubblewrap")


def test_references_are_found_and_foreign_rows_left_out(tmp_path: Path) -> None:
    row = {
        "task_id": "a",
        "prompt": "def f():\n",
        "canonical_solution": "    return 1\n",
        "entry_point": "f",
        "test": "def check(c): 0",
    }
    rows = [row, {**row, "task_id": "twin"}, {**row, "test": "1", "language": "java"}, {"other": 1}]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (tmp_path / "y.jsonl").write_text("[1]\n")
    assert read_references(tmp_path) == (
        Reference("a", "def f():\n    return 1\n", ("def check(c): 0", "check(f)")),
    )
    with pytest.raises(SourceUnreadable, match="no reference solutions"):
        read_references(tmp_path / "y.jsonl")
    (tmp_path / "in" / "z.jsonl").write_text("{")
    with pytest.raises(SourceUnreadable, match=r"z.jsonl"):
        read_references(tmp_path)
