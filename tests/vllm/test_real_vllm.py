"""Nights on a real vLLM (its build for processors) with SmolLM2: prefix cache, pace, and a server
killed in mid-run.
"""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from schemas.dialog import Role
from schemas.episode import Episode, StopReason
from tasks.language.model_spec import parse_model
from tasks.language.providers.contract import ServeRequest
from tasks.language.providers.vllm import serve
from tasks.language.servers.vllm_metrics import ask_metrics
from tasks.language.servers.vllm_settings import VllmSettings, served_name
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake
from tests.fixtures.processes import command_lines
from tests.flows.parley_command import command, environment
from tests.own_files import ROOT
from warehouse.connect import query

FOLDER = ROOT / ".vllm"
WEIGHTS, PROGRAM, PYTHON = FOLDER / "smollm2", FOLDER / "bin" / "vllm", FOLDER / "bin" / "python"
AT_ONCE, ANSWER_TOKENS, LIMIT_S = 8, 96, 3000
BLOCK = 32
"""Tokens that the cache keeps or drops together: the least that vLLM has for processors."""
SERVE: dict[str, Any] = {
    "command": str(PROGRAM),
    "dtype": "float32",
    "max_model_len": 4096,
    "arguments": ["--enforce-eager", "--block-size", str(BLOCK)],
    "environment": {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    },
}

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(2 * LIMIT_S),
    pytest.mark.skipif(
        not (FOLDER / ".installed").exists(), reason="there is no real vLLM here: make test-vllm"
    ),
]


def begun(home: Path, folder: Path, *models: dict[str, Any]) -> subprocess.Popen[str]:
    """A night of one static setting's sample, of one model or of several that differ from it."""
    folder.mkdir(exist_ok=True)
    model = {
        "spec": f"vllm:{WEIGHTS}",
        "max_tokens": ANSWER_TOKENS,
        "timeout_s": 900,
        "patience_s": 1800,
        "serve": SERVE,
    }
    night = {
        "concurrency": AT_ONCE,
        "workers": 1,
        "models": [model | other for other in models or ({},)],
        "benchmarks": [{"name": "codeif.static", "dataset_version": "sample"}],
    }
    (folder / "nightly.yaml").write_text(yaml.safe_dump(night))
    with (folder / "night.log").open("w") as log:
        asked = command("nightly", "--config", folder / "nightly.yaml")
        return subprocess.Popen(
            asked, env=environment(home), cwd=folder, stdout=log, stderr=log, text=True
        )


def ended(process: subprocess.Popen[str], folder: Path) -> None:
    """Wait for it; it must have ended well."""
    assert process.wait(LIMIT_S) == 0, (folder / "night.log").read_text()[-3000:]


def episodes(home: Path) -> list[Episode]:
    return Lake(Home(home).lake).read("episodes", Episode)


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a night that nothing disturbed."""
    folder = tmp_path_factory.mktemp("night")
    with begun(folder / "home", folder) as process:
        try:
            ended(process, folder)
        finally:
            process.terminate()
    return folder / "home"


def counted(home: Path) -> dict[str, float]:
    """What the table `serving` says of the night."""
    names = (
        "prompt_tokens",
        "output_tokens",
        "prefix_cache_queries",
        "prefix_cache_hits",
        "requests",
        "preemptions",
    )
    _, rows = query(home, f"SELECT {', '.join(f'sum({name})' for name in names)} FROM serving")
    return dict(zip(names, rows[0], strict=True))


def pace(home: Path) -> float:
    """Output tokens a second, from the first dialogue's beginning to the last one's end."""
    _, span = query(
        home,
        (
            "SELECT epoch(max(finished_at::timestamptz)) - epoch(min(started_at::timestamptz)) "
            "FROM episodes"
        ),
    )
    _, tokens = query(home, "SELECT sum(output_tokens) FROM turns WHERE role = 'assistant'")
    return tokens[0][0] / span[0][0]


def test_a_night_finds_nine_tenths_of_what_its_prefixes_allow(night: Path) -> None:
    said = [
        [{"role": step.role.value, "content": step.content} for step in one.messages]
        for one in episodes(night)
    ]
    talks = [
        [message for message in talk if message["role"] in (Role.USER.value, Role.ASSISTANT.value)]
        for talk in said
    ]
    script = ROOT / "tests" / "vllm" / "possible.py"
    asked = subprocess.run(
        [PYTHON, script, WEIGHTS, str(BLOCK)],
        input=json.dumps(talks),
        capture_output=True,
        text=True,
        check=True,
    )
    possible, found = json.loads(asked.stdout), counted(night)
    share = found["prefix_cache_hits"] / found["prefix_cache_queries"]
    most, exact = (possible[name] / possible["tokens"] for name in ("in_blocks", "found"))
    print(
        f"\nprefix cache: {share:.3f} of the prompts' tokens found; {most:.3f} possible by "
        f"blocks, {exact:.3f} by tokens"
    )
    print(f"{share / most:.3f} of the possible; {found}, {possible}")
    assert found["requests"] == possible["requests"]
    assert found["prefix_cache_queries"] == pytest.approx(possible["tokens"], rel=0.01)
    assert share >= 0.9 * most


def test_its_pace_beside_vllm_s_own_benchmark(night: Path, tmp_path: Path) -> None:
    settings, found = VllmSettings.model_validate(SERVE), counted(night)
    choice, n = parse_model(f"vllm:{WEIGHTS}", serve=settings), int(found["requests"])
    known, fresh, answer = (
        round(found[name] / n)
        for name in ("prefix_cache_hits", "prefix_cache_queries", "output_tokens")
    )
    with serve(ServeRequest(choice, settings, None, tmp_path)) as place:
        assert place.base_url is not None
        lengths = (
            "--random-prefix-len",
            known,
            "--random-input-len",
            fresh - known,
            "--random-output-len",
            answer,
        )
        asked = (
            *(
                PROGRAM,
                "bench",
                "serve",
                "--base-url",
                place.base_url.removesuffix("/v1"),
                "--model",
                served_name(choice.identity),
            ),
            *(
                "--tokenizer",
                WEIGHTS,
                "--dataset-name",
                "random",
                *lengths,
                "--num-prompts",
                n,
                "--max-concurrency",
                AT_ONCE,
            ),
            *(
                "--ignore-eos",
                "--seed",
                1,
                "--save-result",
                "--result-dir",
                tmp_path,
                "--result-filename",
                "bench.json",
            ),
        )
        subprocess.run(
            [str(word) for word in asked],
            env={**os.environ, **settings.environment},
            check=True,
            timeout=LIMIT_S,
        )
    theirs, ours = (
        json.loads((tmp_path / "bench.json").read_text())["output_throughput"],
        pace(night),
    )
    print(
        f"\noutput tokens a second: {ours:.1f} in the night, {theirs:.1f} by `vllm bench "
        f"serve`: {ours / theirs:.2f} of it"
    )
    assert ours > 0.5 * theirs


def servers_of(driver: int) -> dict[int, str]:
    """Process -> base URL of each server of the night."""
    found: dict[int, str] = {}
    for child, line in command_lines(psutil.Process(driver)).items():
        if "serve" in line and "--port" in line:
            found[child.pid] = f"http://127.0.0.1:{line[line.index('--port') + 1]}/v1"
    return found


def answers_of(base_url: str) -> int:
    try:
        return ask_metrics(base_url).counters["requests"]
    except OSError:
        return 0


def test_two_checkpoints_are_served_and_played_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARLEY_DEVICES", "0,1")
    home, deadline_s, at_once, began_s = (
        tmp_path / "home",
        time.monotonic() + LIMIT_S,
        0,
        time.monotonic(),
    )
    serve = SERVE | {
        "devices": "auto",
        "environment": SERVE["environment"] | {"VLLM_CPU_OMP_THREADS_BIND": "nobind"},
    }
    models = [{"name": name, "serve": serve, "max_tokens": 24} for name in ("left", "right")]
    with begun(home, tmp_path, *models) as process:
        try:
            while process.poll() is None:
                assert time.monotonic() < deadline_s
                at_once = max(
                    at_once, sum(answers_of(url) > 0 for url in servers_of(process.pid).values())
                )
                time.sleep(0.5)
            ended(process, tmp_path)
        finally:
            process.terminate()
    _, stages = query(home, "SELECT stage, sum(seconds) FROM stage_times GROUP BY ALL ORDER BY ALL")
    print(f"\ntwo servers side by side: {time.monotonic() - began_s:.0f} s; {dict(stages)}")
    assert at_once == 2
    assert len({one.episode_id for one in episodes(home)}) == 16


def test_a_server_killed_in_mid_run_costs_nothing(tmp_path: Path) -> None:
    home, deadline_s, victim = tmp_path / "home", time.monotonic() + LIMIT_S, None
    with begun(home, tmp_path) as process:
        try:
            while victim is None:
                assert process.poll() is None, (tmp_path / "night.log").read_text()[-3000:]
                assert time.monotonic() < deadline_s
                found = servers_of(process.pid)
                victim = next(
                    (pid for pid, url in found.items() if answers_of(url) >= AT_ONCE), None
                )
                time.sleep(0.5)
            os.kill(victim, signal.SIGKILL)
            ended(process, tmp_path)
        finally:
            process.terminate()
    log = next((home / "logs").glob("vllm-*.log")).read_text()
    assert re.search(r"ended \(-9\): restart 1 of 3", log)
    played = episodes(home)
    assert not [
        one for one in played if one.stop_reason in (StopReason.INFRA, StopReason.SUBJECT_ERROR)
    ]
    assert len({one.episode_id for one in played}) == 8
    calls = [step.n_calls for one in played for step in one.steps if step.role is Role.ASSISTANT]
    again = sum(calls) - len(calls)
    print(
        f"\nserver killed in mid-run: {len(calls)} answers, all dialogues whole; {again} "
        "requests were sent again"
    )
    _, rows = query(home, "SELECT count(*) FROM serving")
    assert rows[0][0] > 0
