"""What every test relies on: no settings, keys or servers of the person who runs it, and a home of
its own.

One Prefect server and one Dask worker serve all tests of a process: to start them would be most of
a small run's time.
"""

import os
import random
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
SANDBOX_PROBE = (
    "bwrap",
    "--unshare-all",
    "--die-with-parent",
    "--ro-bind",
    "/",
    "/",
    "--proc",
    "/proc",
    "true",
)

ALL_TESTS = "ALL_TESTS"
"""Variable without which `LATER` tests are skipped, unless their file or folder is named."""
LATER = {
    "long": "takes long",
    "docker": "needs a Docker daemon, which takes long to start",
    "vllm": "starts a real vLLM (`make test-vllm` runs it, too)",
}
"""Mark of tests that `make test` skips -> why."""
LONGEST_FIRST = (
    "crash/test_named_points.py",
    "crash/test_agent_killed.py",
    "crash/test_workspace_killed.py",
    "crash/test_steps_killed.py",
    "flows/night/test_embeddings.py",
    "flows/night/test_programs_of_every_kind.py",
    "flows/night/test_judged_benchmark.py",
    "flows/night/test_resume.py",
    "flows/orchestration/test_deployed_night.py",
    "flows/orchestration/test_deployment.py",
    "flows/night/test_disk_full.py",
    "flows/cli/test_cli_pipeline.py",
    "flows/orchestration/test_prefect_server.py",
    "secrets/test_key.py",
    "tasks/benchmarks/codeif/test_golden.py",
    "sandbox/attacks/test_attacks.py",
    "corruptions/test_corruptions.py",
    "flows/site/test_site_browser.py",
    "flows/orchestration/test_dask_cluster.py",
    "flows/night/test_night_of_two_benchmarks.py",
    "flows/night/test_signals.py",
    "test_wheel.py",
    "faults/test_faulty_night.py",
    "faults/test_attribution.py",
    "flows/cli/test_golden_cli.py",
    "flows/night/test_two_nights.py",
    "flows/night/test_quality_gate.py",
    "warehouse/test_publish_concurrency.py",
)
"""Modules that begin before all others: one of them begun at the end would keep a single processor
at work.
"""
USED_BY_TESTS = (
    *(
        "PARLEY_SPHINX",
        "PARLEY_DJANGO",
        "PARLEY_SYMPY",
        "PARLEY_REQUESTS",
        "PARLEY_UDE",
        "PARLEY_BIGCODEBENCH",
    ),
    *("PARLEY_OPENHANDS", "PARLEY_MINI_SWE_AGENT"),
    *("PARLEY_MEMORYCODE", "PARLEY_MIFEVAL", "PARLEY_MULTIIF", "PARLEY_HIPPORAG"),
    "PARLEY_CONVCODEWORLD",
)
"""Beginnings of variables that name public data, or a program, which a test uses.

Others would change what is tested.
"""

settings.register_profile(
    "parley", deadline=None, database=None, derandomize=bool(os.environ.get("CI"))
)
settings.load_profile("parley")


def pytest_configure(config: pytest.Config) -> None:
    """Before anything imports Prefect: a Prefect home of our own, no telemetry, no server, no keys;
    and Ctrl-C is heeded.

    A shell starts what it puts in the background without heeding Ctrl-C, and so would be all
    commands that tests start.
    """
    config.option.loadscopereorder = False  # xdist would begin with the modules of the most tests
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    prefect_home = tempfile.mkdtemp(prefix="parley-tests-prefect-")
    config.add_cleanup(lambda: shutil.rmtree(prefect_home, ignore_errors=True))
    os.environ.pop(
        "PYTHONDONTWRITEBYTECODE", None
    )  # hundreds of processes would compile Parley's modules anew
    for name in [
        n for n in os.environ if n.startswith(("PREFECT_", "PARLEY_")) or n.endswith("_API_KEY")
    ]:
        if not name.startswith(USED_BY_TESTS):
            del os.environ[name]
    os.environ |= {
        "PREFECT_HOME": prefect_home,
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }
    config.addinivalue_line(
        "filterwarnings", "ignore:Scheduler already contains a plugin:UserWarning"
    )  # the second night on it
    os.environ.setdefault(
        "CORPUS_SEED", "1" if os.environ.get("CI") else str(random.randrange(10**6))
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not os.environ.get(ALL_TESTS) and config.args_source is not pytest.Config.ArgsSource.ARGS:
        for name, why in LATER.items():
            later = pytest.mark.skip(
                reason=f"{why}: `make test-all` and continuous integration run it"
            )
            for item in items:
                if item.get_closest_marker(name):
                    item.add_marker(later)
    place = {ROOT / "tests" / name: number for number, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: place.get(item.path, len(place)))


def pytest_report_header() -> str:
    return (
        f"CORPUS_SEED={os.environ['CORPUS_SEED']} draws corruptions, and attacks for other "
        "sandboxes; WHOLE_CORPUS=1: all"
    )


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
        pytest.skip(
            f"bubblewrap does not work here (user namespaces forbidden?): {probe.stderr.strip()}"
        )
    return program


@pytest.fixture(scope="session")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a standing Prefect server; nothing of it runs on after the tests."""
    from flows.orchestration.server import start_server, stop_server

    home = tmp_path_factory.mktemp("server") / "home"
    before = dict(os.environ)
    server = start_server(home)
    try:
        yield server.api_url
    finally:
        stop_server(home, force=True)
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="session")
def dask_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a Dask scheduler with one worker process, made as a run's own is."""
    from flows.night.session import THREADS_PER_WORKER
    from flows.orchestration.dask_cluster import dask_cluster

    scratch = tmp_path_factory.mktemp("dask")
    with dask_cluster(
        n_workers=1, threads_per_worker=THREADS_PER_WORKER, scratch=scratch
    ) as cluster:
        yield str(cluster.wait_ready().scheduler_info()["address"])


@pytest.fixture
def served_home(home: Path, server_url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home whose commands use the standing server, and start workers of their own."""
    monkeypatch.setenv("PREFECT_API_URL", server_url)
    return home


@pytest.fixture(scope="module")
def standing_home(
    tmp_path_factory: pytest.TempPathFactory, server_url: str, dask_address: str
) -> Iterator[Path]:
    """An empty home for a whole module, whose commands use the standing server and its worker."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_API_URL", server_url)
        patch.setenv("PARLEY_DASK_ADDRESS", dask_address)
        yield tmp_path_factory.mktemp("parley") / "home"
