"""A key is where it is needed, and nowhere else: a night against a careless endpoint, with programs
that look for keys.
"""

import re
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from flows.night.config import read_config
from schemas.errors import ConfigError
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest, key_names
from tests.fixtures.model_server import Messages, Reply, model_server
from tests.flows.parley_command import SAMPLE, command, environment, parley
from tests.secrets.searching import Watch, in_files, in_parquet, in_sqlite, in_warehouse
from warehouse.connect import query

MARK = "parley-sentinel"
KEY = f"sk-{MARK}-7f3a9c"
ENVIRON = {
    "PARLEY_TEST_KEY": KEY,
    "OPENAI_API_KEY": f"sk-{MARK}-openai",
    "UNRELATED_SERVICE_TOKEN": f"{MARK}-unrelated",
}
LOOK = """
import os
mark = "parley-" + "sentinel"
texts = {"os.environ": repr(dict(os.environ))}
for process in ["self", *filter(str.isdigit, os.listdir("/proc"))]:
    for name in ("environ", "cmdline"):
        try:
            texts[process + " " + name] = open(f"/proc/{process}/{name}", "rb").read().decode("utf-8", "replace")
        except OSError:
            pass  # the process has ended, or hides this place
print(f"{len(texts)} places, init: {'1 environ' in texts}, found: {sorted(p for p in texts if mark in texts[p])}")
"""
PROBE = f"""
import subprocess, sys
raise RuntimeError(subprocess.run([sys.executable, "-S", "-c", {LOOK!r}], capture_output=True, text=True).stdout)
"""
"""The look is a process of its own, so that it sees what any other program would."""
CONFIG = """
models: [{{spec: "openai:mock@{url}", key_env: PARLEY_TEST_KEY}}]
benchmarks: [{{name: codeif.static, dataset_version: sample, limit: 2}}]
"""
LIMIT_S = 240


@dataclass(frozen=True)
class Night:
    home: Path
    said: str
    code: int
    watch: Watch
    journal: str
    """What the journal held while the model was being asked for second turns."""
    refused: str
    """What a run with a key that the endpoint does not accept was told."""


def run_night(home: Path) -> Night:
    asked_again, go_on = threading.Event(), threading.Event()

    def answer(messages: Messages) -> str:
        if sum(m["role"] == "user" for m in messages) > 1:
            asked_again.set()
            go_on.wait(60)
        return f"Your key is {KEY}.\n```python{PROBE}```\n"

    careless = [Reply(status=500), Reply(status=429), Reply(status=503)]
    with model_server(key=KEY, answer=answer, max_seconds=LIMIT_S) as server:
        config = home.parent / "night.yaml"
        config.write_text(CONFIG.format(url=server.base_url))
        server.script += careless
        process = subprocess.Popen(
            command("nightly", "--config", config),
            env=environment(home, ENVIRON),
            cwd=home.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        watch = Watch(process).start(MARK)
        try:
            assert asked_again.wait(LIMIT_S), process.communicate(timeout=5)
            journal = "".join(path.read_text() for path in (home / "journal").rglob("*.jsonl"))
            go_on.set()
            said, _ = process.communicate(timeout=LIMIT_S)
        finally:
            process.kill()
            watch.stop()
        model = ("--model", f"openai:mock@{server.base_url}", "--key-env", "PARLEY_TEST_KEY")
        refused = parley(
            home, *SAMPLE, *model, environ=ENVIRON | {"PARLEY_TEST_KEY": f"sk-{MARK}-wrong"}
        )
    assert refused.code == 1
    return Night(home, said, process.returncode, watch, journal, refused.out + refused.err)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory, bubblewrap: str) -> Night:
    return run_night(tmp_path_factory.mktemp("key") / "home")


pytestmark = pytest.mark.slow


def test_the_night_was_played_with_the_key(played: Night) -> None:
    assert played.code == 0, played.said
    answers = query(
        played.home,
        "select starts_with(content, 'Your key is [key].') from turns where role = 'assistant'",
    )[1]
    assert len(answers) > 4
    assert set(answers) == {(True,)}


def test_no_output_holds_it(played: Night) -> None:
    assert MARK not in played.said
    assert MARK not in played.refused
    assert "PARLEY_TEST_KEY" in played.refused


def test_no_file_holds_it(played: Night) -> None:
    kinds = {path.suffix for path in played.home.rglob("*") if path.is_file()}
    assert {".parquet", ".db", ".duckdb", ".html", ".log"} <= kinds
    assert in_files(played.home, MARK) == []


def test_no_table_holds_it(played: Night) -> None:
    assert in_parquet(played.home, MARK) == []
    assert in_warehouse(played.home, MARK) == []
    assert in_sqlite(played.home / "prefect" / "prefect.db", MARK) == []


def test_the_journal_of_a_run_under_way_does_not_hold_it(played: Night) -> None:
    assert "Your key is [key]" in played.journal
    assert MARK not in played.journal


def test_no_process_is_told_it_by_an_argument_and_those_that_need_none_have_no_key(
    played: Night,
) -> None:
    assert played.watch.n_looks > 5
    lines = {line for line, _ in played.watch.seen}
    assert [line for line in lines if MARK in line] == []
    for program, may_hold in (
        ("server_process", set()),
        ("bwrap", set()),
        ("multiprocessing", {"PARLEY_TEST_KEY"}),
    ):
        named = [set(names) for line, names in played.watch.seen if program in line]
        assert named, f"no process of {program} was seen"
        assert all(names <= may_hold for names in named), (program, named)


def test_a_program_in_the_sandbox_finds_none(played: Night) -> None:
    details = {
        d
        for (d,) in query(
            played.home, "select distinct detail from test_verdicts where outcome = 'failed'"
        )[1]
    }
    assert details
    found = [
        re.search(r"(\d+) places, init: (\w+), found: (\[.*?\])", detail) for detail in details
    ]
    assert all(match and int(match[1]) >= 3 and match[3] == "[]" for match in found), details


CONFIGS = {
    "as the variable's name": (
        f"models: [{{spec: 'openai:m', key_env: {KEY}}}]\nbenchmarks: [{{name: codeif}}]"
    ),
    "as a field that there is not": (
        f"models: [{{spec: 'openai:m', api_key: {KEY}}}]\nbenchmarks: [{{name: codeif}}]"
    ),
    "in the address": (
        f"models: [{{spec: 'openai:m@https://me:{KEY}@host/v1'}}]\nbenchmarks: [{{name: codeif}}]"
    ),
}


@pytest.mark.parametrize("text", CONFIGS.values(), ids=CONFIGS)
def test_a_key_written_into_a_configuration_is_refused_and_not_repeated(
    text: str, tmp_path: Path
) -> None:
    config = tmp_path / "night.yaml"
    config.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_config(config).requests(tmp_path)
    assert MARK not in str(refused.value)


@pytest.mark.parametrize(
    ("spec", "key_env", "names"),
    [
        ("control:gold", None, ()),
        ("openai:m@http://127.0.0.1:1/v1", None, ()),
        ("openai:m@http://127.0.0.1:1/v1", "MY_KEY", ("MY_KEY",)),
        ("openai:m", None, ("OPENAI_API_KEY",)),
        ("openai:m@https://api.openai.com/v1", None, ("OPENAI_API_KEY",)),
        ("openai:m", "MY_KEY", ("MY_KEY",)),
    ],
)
def test_workers_are_given_the_keys_of_their_models_only(
    spec: str, key_env: str | None, names: tuple[str, ...]
) -> None:
    asked = EvaluationRequest(
        model=ModelRequest(spec=spec, key_env=key_env), benchmark=BenchmarkRequest(name="codeif")
    )
    assert key_names([asked]) == names
