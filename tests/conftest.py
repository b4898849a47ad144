"""What every test relies on: no settings, keys or servers of the person who runs it, and a home of its own."""

import os
import random
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
SANDBOX_PROBE = ("bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc", "true")

LONGEST_FIRST = (
    "crash/test_named_points.py",
    "flows/night/test_resume.py",
    "flows/orchestration/test_deployment.py",
    "flows/night/test_disk_full.py",
    "flows/cli/test_cli_pipeline.py",
    "flows/orchestration/test_prefect_server.py",
    "sandbox/attacks/test_attacks.py",
    "corruptions/test_corruptions.py",
    "flows/orchestration/test_dask_cluster.py",
    "flows/night/test_night_of_two_benchmarks.py",
    "flows/night/test_signals.py",
    "test_wheel.py",
    "faults/test_faulty_night.py",
    "faults/test_attribution.py",
    "flows/cli/test_golden_cli.py",
    "flows/night/test_two_nights.py",
    "flows/night/test_quality_gate.py",
    "secrets/test_key.py",
    "warehouse/test_publish_concurrency.py",
)
"""Modules that begin before all others: one of them begun at the end would keep a single processor at work."""

settings.register_profile("parley", deadline=None, database=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("parley")


def pytest_configure(config: pytest.Config) -> None:
    """Before anything imports Prefect: a Prefect home of our own, no telemetry, no server, no keys; and Ctrl-C is heeded.

    A shell starts what it puts in the background without heeding Ctrl-C, and so would be all commands that tests start.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    prefect_home = tempfile.mkdtemp(prefix="parley-tests-prefect-")
    config.add_cleanup(lambda: shutil.rmtree(prefect_home, ignore_errors=True))
    for name in [n for n in os.environ if n.startswith(("PREFECT_", "PARLEY_")) or n.endswith("_API_KEY")]:
        del os.environ[name]
    os.environ |= {"PREFECT_HOME": prefect_home, "PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1"}
    config.addinivalue_line("filterwarnings", "ignore:Scheduler already contains a plugin:UserWarning")  # the second night on it
    os.environ.setdefault("CORPUS_SEED", "1" if os.environ.get("CI") else str(random.randrange(10**6)))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    place = {ROOT / "tests" / name: number for number, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: place.get(item.path, len(place)))


def pytest_report_header() -> str:
    return f"CORPUS_SEED={os.environ['CORPUS_SEED']} draws attacks for sandboxes besides the default; WHOLE_CORPUS=1: all"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty `$PARLEY_HOME`."""
    path = tmp_path / "parley-home"
    monkeypatch.setenv("PARLEY_HOME", str(path))
    return path


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The benchmarks' public data, where it lies beside the checkout."""
    data = SHARED / "data"
    if not data.is_dir():
        pytest.skip("the benchmarks' public data (../shared/data) is not beside this checkout")
    return data


@pytest.fixture(scope="session")
def bubblewrap() -> str:
    """Path of a bubblewrap that works here."""
    program = shutil.which("bwrap")
    if program is None:
        pytest.skip("bubblewrap is not installed: make bubblewrap")
    probe = subprocess.run(SANDBOX_PROBE, capture_output=True, text=True, timeout=30)
    if probe.returncode != 0:
        pytest.skip(f"bubblewrap does not work here (user namespaces forbidden?): {probe.stderr.strip()}")
    return program
