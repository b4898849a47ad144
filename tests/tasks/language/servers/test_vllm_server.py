"""vLLM's life: started on ports of its own, awaited, checked, started again, and ended with all
that it started.

`tests/fixtures/vllm_program.py` stands in its place here; `make test-vllm` does the same with the
real one.
"""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from schemas.dialog import Role
from schemas.errors import ConfigError, ModelUnavailable, UsageError
from schemas.run import ModelEndpoint, Sampling
from tasks.language.access import ModelAccess
from tasks.language.chat_model import ChatRequest, Message
from tasks.language.model_spec import parse_model
from tasks.language.opening import open_model
from tasks.language.providers.contract import ServeRequest
from tasks.language.providers.vllm import serve
from tasks.language.servers.vllm_replica import end_orphans
from tasks.language.servers.vllm_settings import VllmSettings, serve_commands
from tests.fixtures import vllm_program
from tests.own_files import ROOT


@pytest.fixture
def program(tmp_path: Path) -> str:
    (tmp_path / "bin").mkdir()
    return vllm_program.install(tmp_path / "bin")


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


def chosen(weights: Path, settings: VllmSettings) -> ModelAccess:
    return parse_model(f"vllm:{weights}", serve=settings)


def answer(choice: ModelAccess, place: ModelEndpoint, problem: str = "p") -> str:
    async def ask() -> str:
        model = open_model(choice.at(place).limited(2))
        try:
            said = (Message(Role.USER, "one two three four"),)
            return (await model.complete(ChatRequest(said, Sampling(), 0, problem, 1, 0))).content
        finally:
            await model.aclose()

    return asyncio.run(ask())


def until(condition: Callable[[], object], limit_s: float = 30.0) -> None:
    deadline_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline_s, "it did not come to that in time"
        time.sleep(0.05)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def segments(pid: int) -> list[Path]:
    """Shared memory that a process holds."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    return sorted({Path(place) for place in re.findall(r"/dev/shm/psm_\w+", maps)})


def started(log: Path) -> list[tuple[int, int]]:
    """(engine, server) of each start that a log tells of."""
    return [
        (int(engine), int(server))
        for engine, server in re.findall(r"engine (\d+) of (\d+)", log.read_text())
    ]


@pytest.mark.slow
def test_it_serves_by_the_digest_and_ends_with_all_that_it_started(
    program: str, weights: Path, tmp_path: Path
) -> None:
    settings, told = VllmSettings(command=program, environment={"TAKES_S": "3"}), list[str]()
    choice = chosen(weights, settings)
    with serve(ServeRequest(choice, settings, None, tmp_path / "logs", told.append)) as place:
        assert place.served_name == choice.identity.weights_digest
        assert answer(choice, place).startswith("port ")
        pids = [pid for pair in started(tmp_path / "logs" / "vllm-tiny.log") for pid in pair]
        assert [lives(pid) for pid in pids] == [True, True]
        until(lambda: segments(pids[0]))
        held = segments(pids[0])
    assert [lives(pid) for pid in pids] == [False, False]
    assert [segment for segment in held if segment.exists()] == []
    assert any("loads weights 50%" in text for text in told)
    assert told[-1] == ""


@pytest.mark.slow
def test_two_servers_of_one_name_have_a_log_each(
    program: str, weights: Path, tmp_path: Path
) -> None:
    one, other = (VllmSettings(command=program, seed=seed) for seed in (0, 1))
    first, second = chosen(weights, one), chosen(weights, other)
    logs = tmp_path / "logs"
    with (
        serve(ServeRequest(first, one, None, logs)),
        serve(ServeRequest(second, other, None, logs)),
    ):
        assert [len(started(logs / name)) for name in ("vllm-tiny.log", "vllm-tiny-2.log")] == [
            1,
            1,
        ]


@pytest.mark.slow
def test_a_server_that_dies_is_started_again_on_its_port(
    program: str, weights: Path, tmp_path: Path
) -> None:
    settings = VllmSettings(command=program, restarts=1)
    choice, log = chosen(weights, settings), tmp_path / "logs" / "vllm-tiny.log"
    with serve(ServeRequest(choice, settings, None, tmp_path / "logs")) as place:
        before = answer(choice, place)
        engine, server = started(log)[0]
        os.kill(server, signal.SIGKILL)
        until(lambda: len(started(log)) == 2)
        assert not lives(engine)
        until(lambda: answer(choice, place) == before)
        os.kill(started(log)[1][1], signal.SIGKILL)
        until(lambda: "restart limit reached" in log.read_text())


@pytest.mark.slow
@pytest.mark.parametrize("order", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_the_driver_is_killed(
    program: str, weights: Path, tmp_path: Path, order: signal.Signals
) -> None:
    driver = (
        "import sys; from pathlib import Path\n"
        "from tasks.language.model_spec import parse_model\n"
        "from tasks.language.providers.contract import ServeRequest\n"
        "from tasks.language.providers.vllm import serve\n"
        "from tasks.language.servers.vllm_settings import VllmSettings\n"
        "settings = VllmSettings(command=sys.argv[1]); choice = parse_model('vllm:' + "
        "sys.argv[2], serve=settings)\n"
        "with serve(ServeRequest(choice, settings, None, Path(sys.argv[3]))):\n"
        "    print('up', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", driver, program, str(weights), str(tmp_path / "logs")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, env={**os.environ, "PYTHONPATH": str(ROOT)}) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        pids = started(tmp_path / "logs" / "vllm-tiny.log")[0]
        process.send_signal(order)
        process.wait(30)
    until(lambda: not any(lives(pid) for pid in pids))


@pytest.mark.slow
def test_what_a_killed_watcher_leaves_is_ended_by_the_next_command(
    program: str, weights: Path, tmp_path: Path
) -> None:
    settings, logs = VllmSettings(command=program), tmp_path / "logs"
    choice = chosen(weights, settings)
    with serve(ServeRequest(choice, settings, None, logs)) as place:
        assert end_orphans(logs) == 0
        assert answer(choice, place)
        engine, server = started(logs / "vllm-tiny.log")[0]
        os.kill(psutil.Process(server).ppid(), signal.SIGKILL)
        until(lambda: not lives(server))
        assert lives(engine)
        with subprocess.Popen(
            ["tail", "-f", logs / "vllm-tiny.log"], stdout=subprocess.DEVNULL
        ) as reader:
            assert end_orphans(logs) == 1
            until(lambda: not lives(engine))
            assert reader.poll() is None
            reader.terminate()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mood", "said"),
    [
        ({"DIES_WITH": "no such architecture"}, "no such architecture"),
        ({"SERVES": "somebody"}, "serves somebody, not "),
    ],
)
def test_a_start_that_fails_says_why_and_where_the_log_is(
    program: str, weights: Path, tmp_path: Path, mood: dict[str, str], said: str
) -> None:
    settings = VllmSettings(command=program, environment=mood)
    choice = chosen(weights, settings)
    with pytest.raises(ModelUnavailable, match=rf"vllm-tiny\.log.*{said}"):
        with serve(ServeRequest(choice, settings, None, tmp_path / "logs")):
            pass


@pytest.mark.slow
def test_what_is_never_healthy_is_ended_in_time(
    program: str, weights: Path, tmp_path: Path
) -> None:
    settings = VllmSettings(command=program, environment={"HOLDS": "1"}, ready_s=5.0)
    choice = chosen(weights, settings)
    with pytest.raises(ModelUnavailable, match="not ready within 5 s"):
        with serve(ServeRequest(choice, settings, None, tmp_path / "logs")):
            pass
    assert not any(lives(pid) for pid in started(tmp_path / "logs" / "vllm-tiny.log")[0])


def test_only_what_can_change_an_answer_is_in_the_identity(program: str, weights: Path) -> None:
    plain = chosen(weights, VllmSettings(command=program)).identity
    addresses = VllmSettings(
        command=program, replicas=2, devices=("0", "1"), memory_share=0.5, ready_s=1, restarts=0
    )
    assert chosen(weights, addresses).identity == plain
    others = (
        VllmSettings(command=program, dtype="float32"),
        VllmSettings(command=program, seed=1),
        VllmSettings(command=program, max_model_len=9),
        VllmSettings(command=program, arguments=("--quantization", "fp8")),
    )
    assert len({plain, *(chosen(weights, other).identity for other in others)}) == 5
    assert plain.revision == "vllm-0.0.1"


def test_the_command_of_each_replica_has_its_devices(program: str, weights: Path) -> None:
    settings = VllmSettings.of_texts(
        {
            "replicas": "2",
            "tensor_parallel": "2",
            "devices": "0,1,4,5",
            "arguments": "--swap-space 4",
        }
    )
    first, second = serve_commands(
        chosen(weights, VllmSettings(command=program)).identity, str(weights), settings
    )
    assert first.shown().startswith(
        f"CUDA_VISIBLE_DEVICES=0,1 vllm serve {weights} --served-model-name "
    )
    assert second.environment == {"CUDA_VISIBLE_DEVICES": "4,5"}
    assert "--enable-prefix-caching" in first.arguments
    assert first.arguments[-4:] == ("--tensor-parallel-size", "2", "--swap-space", "4")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"replicas": "0"}, "replicas"),
        ({"replica": "2"}, "Known: command, replicas"),
        ({"arguments": "--port 80"}, "--port, which Parley sets itself"),
        ({"arguments": "--max_model_len 5"}, "--max_model_len, which Parley sets itself"),
        (
            {"arguments": "--max-model=5"},
            r"--max-model, which Parley sets itself \(--max-model-len",
        ),
        (
            {"arguments": "--tensor_parallel_size=2"},
            "--tensor_parallel_size, which Parley sets itself",
        ),
        ({"replicas": "2", "devices": "0"}, "names 1 devices"),
    ],
)
def test_settings_that_cannot_be_are_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        VllmSettings.of_texts(given)


def test_a_key_in_the_environment_s_settings_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigError, match="HF_TOKEN") as caught:
        VllmSettings(environment={"HF_TOKEN": "sk-SENTINEL"})
    assert "SENTINEL" not in str(caught.value)


@pytest.mark.parametrize(
    "argument",
    [
        *("--api_key=", "--api-key ", "--api-k=", "--hf_token=", "--hf-tok ", "--some.auth_token="),
        *(
            '--model-loader-extra-config=\'{"access_key": "',
            '--kv-transfer-config \'{"password" : "',
        ),
    ],
)
def test_a_key_among_the_arguments_is_refused_and_not_shown(argument: str) -> None:
    quote = "\"}'" if "{" in argument else ""
    with pytest.raises(ConfigError, match="looks like a key") as caught:
        VllmSettings.of_texts({"arguments": f"--swap-space 4 {argument}sk-SENTINEL{quote}"})
    assert "SENTINEL" not in str(caught.value)


@pytest.mark.parametrize(
    "argument",
    [
        "--long-prefill-token-threshold=9",
        "--return-tokens-as-token-ids",
        "--tokenizer /m/api_key",
        "--hf-overrides '{\"a\": 1}'",
    ],
)
def test_an_argument_that_only_speaks_of_tokens_is_taken(argument: str) -> None:
    assert VllmSettings.of_texts({"arguments": argument}).arguments


def test_a_program_that_is_not_there_says_what_to_install(weights: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"parley-eval\[vllm\].*PARLEY_VLLM"):
        chosen(weights, VllmSettings(command=str(tmp_path / "nowhere")))


def fetched(place: ModelEndpoint, path: str) -> bytes:
    assert place.base_url is not None
    with urllib.request.urlopen(place.base_url.removesuffix("/v1") + path, timeout=10) as response:
        return response.read()


@pytest.mark.slow
def test_each_replica_has_a_port_and_a_log_of_its_own(
    program: str, weights: Path, tmp_path: Path
) -> None:
    settings = VllmSettings(command=program, replicas=2)
    choice = chosen(weights, settings)
    with serve(ServeRequest(choice, settings, None, tmp_path / "logs")) as place:
        assert len(set(place.replicas)) == 2
        assert json.loads(fetched(place, "/v1/models"))["data"][0]["id"] == place.served_name
        assert len(started(tmp_path / "logs" / "vllm-tiny.1.log")) == 1
