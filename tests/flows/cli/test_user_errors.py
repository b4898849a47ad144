"""What goes wrong for a new user: one clear message each (value, place, remedy), the right exit
code, no traceback.
"""

import json
import shutil
from importlib.resources import as_file
from pathlib import Path

import pytest

from tasks.benchmarks.registry import BENCHMARKS
from tasks.storage.home import Home
from tests.fixtures.model_server import Reply, model_server
from tests.flows.parley_command import SAMPLE, parley, parley_process

RUN = ("run", "codeif.static")
GOLD = (*SAMPLE, "--model", "control:gold")
CHAT = ("run", "unidial.multi_if", "--dataset-version", "sample", "--model", "control:gold")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((*RUN, "--model", "gpt-5"), 2, ["'gpt-5'", "openai:MODEL", "control:gold"]),
        (
            ("run", "codeifs.static", "--model", "control:gold"),
            2,
            ["'codeifs'", "known: codeif", "parley list benchmarks"],
        ),
        (
            ("run", "codeif.dynamik", "--model", "control:gold"),
            2,
            ["'codeif.dynamik'", "codeif.static", "parley list benchmarks"],
        ),
        ((*RUN, "--model", "control:gold"), 2, ["'current'", "--data DIR", "parley stage codeif"]),
        ((*RUN, "--model", "control:gold", "--data", "no/such/dir"), 2, ["no/such/dir"]),
        ((*GOLD, "--dataset-version", "v7"), 2, ["'v7'", "current, v0, level_1"]),
        (
            ("stage", "codeif", "--data", ".", "--dataset-version", "v7"),
            2,
            ["'v7'", "current, v0, level_1"],
        ),
        ((*GOLD, "--option", "history=all"), 2, ["history='all'", "on_policy, upstream_v0"]),
        (
            (*GOLD, "--option", "histori=on_policy"),
            2,
            ["unknown option 'histori' of codeif.static; known: history"],
        ),
        ((*GOLD, "--option", "history"), 2, ["'history'", "NAME=VALUE"]),
        ((*GOLD, "--agent", "cot"), 2, ["'cot'", "chain_of_thought", "parley list agents"]),
        (
            (*GOLD, "--agent", "chain_of_thought", "--agent-option", "depth=3"),
            2,
            ["'depth'", "has no options"],
        ),
        ((*GOLD, "--agent-option", "depth=3"), 2, ["depth", "--agent NAME"]),
        ((*GOLD, "--sandbox", "docker2"), 2, ["'docker2'", "bubblewrap"]),
        ((*GOLD, "--resume", "abc"), 2, ["no run 'abc'", "parley run"]),
        ((*SAMPLE, "--model", "recorded:nothing.jsonl"), 2, ["nothing.jsonl"]),
        (
            (*SAMPLE, "--model", "openai:m@http://127.0.0.1:9/v1", "--key-env", "NO_SUCH_KEY"),
            2,
            ["NO_SUCH_KEY", "`key_env`"],
        ),
        (("nightly", "--config", "missing.yaml"), 2, ["missing.yaml", "does not exist"]),
        (("sql", "SELECT 1"), 2, ["warehouse", "parley run"]),
        (("report",), 2, ["holds no night yet", "parley nightly"]),
        (("report", "--night", "abc"), 2, ["holds no night yet", "parley nightly"]),
        (
            ("build", "codeif-nothing", "--out", "x"),
            2,
            ["unknown build 'codeif-nothing'; known: codeif", "parley list builds"],
        ),
        (
            ("export", "codeif-nothing", "--out", "x"),
            2,
            ["unknown export 'codeif-nothing'; known: inspect", "parley export --help"],
        ),
        (("show", "abc"), 2, ["no episode begins with 'abc'", "parley list episodes"]),
        (("import", "codeif", ".", "--model", "m", "--out", "x.jsonl"), 2, ["base"]),
        (("export", "recording", "--run", "abc", "--out", "x.jsonl"), 2, ["no run 'abc'"]),
        (
            (*GOLD, "--simulator", "control:empty"),
            2,
            ["--simulator control:empty", "codeif.static has no simulated user", "Remove it"],
        ),
        *(
            (
                (*CHAT, *flag),
                2,
                [f"{flag[0]}: unidial.multi_if runs no programs", "unidial.tested_code"],
            )
            for flag in (("--sandbox", "none"), ("--audit", "sample"), ("--max-forged-share", "1"))
        ),
        ((*CHAT, "--skip-missing-packages"), 2, ["unidial.multi_if runs no programs"]),
        (
            (*GOLD, "--simulator-temperature", "0.5"),
            2,
            ["--simulator-temperature", "names no simulator", "Add --simulator SPEC"],
        ),
        (
            (*SAMPLE, "--model", "openai:m@https://h/v1", "--ca-file", "no.pem", "--dry-run"),
            2,
            ["--ca-file ", "/no.pem: No such file", "Give a PEM file"],
        ),
        ((*GOLD, "--judge-price", "1", "2"), 2, ["--judge-price", "names no judge"]),
        ((*GOLD, "--embedder-revision", "a"), 2, ["--embedder-revision", "names no embedder"]),
        (
            (*GOLD, "--baseline", "nosuch", "--fail-on", "regression", "--dry-run"),
            1,
            ["not compared with baseline 'nosuch': codeif.static · control:gold", "no published"],
        ),
        ((*GOLD, "--price", "-1", "1"), 2, ["usd_per_million_input = -1.0"]),
        ((*GOLD, "--top-p", "0"), 2, ["top_p = 0.0"]),
        (("list", "runs", "--run", "abc"), 2, ["`parley list runs` takes no run", "Remove --run"]),
        (("bogus",), 2, ["bogus"]),
        (("run",), 2, ["BENCHMARK"]),
    ],
)
def test_a_mistake_gets_one_message(
    home: Path, arguments: tuple[str, ...], code: int, said: list[str]
) -> None:
    done = parley(home, *arguments)
    assert done.code == code, done.err
    for part in said:
        assert part in done.err.replace("\n", " "), done.err
    assert not (home / "prefect").exists()
    assert not (home / "lake" / "runs").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("models: [", ["not valid YAML"]),
        ("", ["at least `models`"]),
        ("models: [{spec: control:gold}]\nbenchmarks: []", ["benchmarks"]),
        (
            "models: [{spec: 'control:gold', max_token: 5}]\nbenchmarks: [{name: codeif}]",
            ["models.0.max_token", "no such field"],
        ),
        (
            "models: [{spec: 'control:gold', temperature: hot}]\nbenchmarks: [{name: codeif}]",
            ["models.0.temperature", "'hot'"],
        ),
        (
            "models: [{spec: 'control:gold'}]\nbenchmarks: [{name: codeif, samples: 0}]",
            ["benchmarks.0.samples", "greater"],
        ),
        (
            (
                "models: [{spec: 'openai:m@http://user:secretkey@host/v1'}]\nbenchmarks: [{name: "
                "codeif}]"
            ),
            ["key_env"],
        ),
    ],
)
def test_a_broken_configuration_names_the_field(
    home: Path, tmp_path: Path, text: str, said: list[str]
) -> None:
    config = tmp_path / "night.yaml"
    config.write_text(text)
    done = parley(home, "nightly", "--config", config)
    assert done.code == 2, done.err
    assert "night.yaml" in done.err or "key_env" in done.err
    for part in said:
        assert part in done.err, done.err
    assert "secretkey" not in done.err


@pytest.mark.slow
def test_a_process_that_made_a_mistake_ends_as_it_does_here(home: Path) -> None:
    wrong = (*RUN, "--model", "gpt-5")
    done = parley_process(home, *wrong)
    assert (done.code, done.out) == (2, "")
    assert done == parley(home, *wrong)


def test_a_home_that_cannot_be_made_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = parley(tmp_path / "file" / "home", *GOLD, cwd=tmp_path)
    assert done.code in (1, 2)
    assert str(tmp_path / "file") in done.err


@pytest.mark.slow
def test_a_run_that_another_process_works_on_is_refused_before_anything_starts(
    home: Path, bubblewrap: str
) -> None:
    run_id = parley(home, *GOLD, "--dry-run", "--json").json()["run_id"]
    with Home(home).run_lock(run_id):
        done = parley(home, *GOLD)
    assert done.code == 2
    assert run_id in done.err
    assert "type the same command" in done.err
    assert not (home / "prefect").exists()


def test_a_dry_run_refuses_what_its_night_refuses(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARLEY_OPENHANDS", str(tmp_path / "none"))
    lacking, night = (*GOLD, "--agent", "openhands", "--dry-run"), tmp_path / "night.yaml"
    done = parley(home, *lacking)
    assert (done.code, "make openhands" in done.err, "Dry run" in done.out) == (1, True, True)
    text = (
        "benchmarks: [{name: codeif.static, dataset_version: sample}]\n"
        "models: [{spec: 'control:gold'}, {spec: 'control:empty', agent: openhands}]"
    )
    night.write_text(text)
    done = parley(home, "nightly", "--config", str(night), "--dry-run")
    said = "codeif.static · control:empty+openhands would fail: "
    assert (done.code, said in done.err, "control:gold" in done.out) == (1, True, True)
    for line, said in (
        ("telemetry: localhost", "telemetry: 'localhost' is not an HTTP URL"),
        ("budget: {usd: 5}", "usd_per_million_input"),
    ):
        night.write_text(f"{text}\n{line}".replace("control:gold", "openai:m@http://127.0.0.1:9"))
        done = parley(home, "nightly", "--config", str(night), "--dry-run")
        assert (done.code, said in done.err) == (2, True), done.err
    assert not (home / "lake" / "runs").exists()


def test_an_embedded_model_and_a_remote_cluster_do_not_go_together(home: Path) -> None:
    done = parley(
        home,
        *SAMPLE,
        "--model",
        "embedded:smollm2",
        environ={"PARLEY_DASK_ADDRESS": "tcp://127.0.0.1:9"},
    )
    assert done.code == 2
    assert "PARLEY_DASK_ADDRESS" in done.err
    assert not (home / "prefect").exists()


def test_what_is_no_address_of_a_cluster_is_one_message_before_anything_starts(home: Path) -> None:
    done = parley(home, *GOLD, environ={"PARLEY_DASK_ADDRESS": "garbage"})
    assert done.code == 2
    assert done.err.startswith(
        "parley: PARLEY_DASK_ADDRESS='garbage' is not the address of a Dask scheduler"
    )
    assert len(done.err.splitlines()) == 1
    assert not (home / "prefect").exists()


@pytest.mark.slow
def test_a_dead_endpoint_is_one_message(home: Path) -> None:
    done = parley(home, *SAMPLE, "--model", "openai:m@http://127.0.0.1:9/v1")
    assert done.code == 1
    assert "127.0.0.1:9" in done.err
    assert len(done.err.strip().splitlines()) <= 2, done.err
    assert not (home / "prefect").exists()


@pytest.mark.slow
def test_a_model_that_the_endpoint_does_not_serve_is_one_message(home: Path) -> None:
    not_found = Reply(
        status=404, code="model_not_found", message="The model `other` does not exist."
    )
    with model_server([not_found] * 4, models=("mock",)) as server:
        done = parley(home, *SAMPLE, "--model", f"openai:other@{server.base_url}")
    assert done.code == 1
    assert "other" in done.err
    assert "mock" in done.err
    assert not (home / "prefect").exists()


def test_without_bubblewrap_it_says_what_to_install_and_never_falls_back(
    home: Path, tmp_path: Path
) -> None:
    done = parley(home, *GOLD, environ={"PATH": str(tmp_path)})
    assert done.code == 1
    assert "bubblewrap" in done.err
    assert "install" in done.err
    assert not (home / "lake" / "test_verdicts").exists()


def test_a_source_of_which_nothing_can_be_staged_is_one_error_and_keeps_its_quarantine(
    home: Path, tmp_path: Path
) -> None:
    data = tmp_path / "L_1_part_1.jsonl"
    data.write_text('{"task_id": 1}\nnot json\n')
    done = parley(home, "stage", "codeif", "--data", data)
    assert done.code == 2
    assert "none of the 2 rows" in done.err
    assert "L_1_part_1.jsonl line 1" in done.err
    assert len(list((home / "lake" / "quarantine").rglob("part-*.parquet"))) == 1


def test_staging_counts_add_up(home: Path, tmp_path: Path) -> None:
    from tests.flows.drivers import ROOT

    sample = next(
        p for p in (ROOT / "tasks/benchmarks/codeif/sample").iterdir() if p.name.endswith(".jsonl")
    )
    data = tmp_path / "L_1_part_1.jsonl"
    data.write_text(sample.read_text() + '{"task_id": "x"}\n{torn')
    done = parley(home, "stage", "codeif", "--data", data, "--json")
    counts = json.loads(done.out)
    assert (counts["rows"], counts["staged"], counts["quarantined"]) == (10, 8, 2)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            TimeoutError(),
            [
                "did not answer",
                "(TimeoutError, in wait_in_vain of test_user_errors.py)",
                "same command",
                "logs",
            ],
        ),
        (
            ConnectionRefusedError(111, "Connection refused"),
            ["ConnectionRefusedError: [Errno 111] Connection refused", "doctor"],
        ),
        (
            PermissionError(13, "Permission denied", "/etc/lake"),
            ["Permission denied: '/etc/lake'. Check the file's permissions"],
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_of_the_system_says_what_it_is_about(
    home: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, said: list[str]
) -> None:
    """Libraries that wait for each other raise some without any text."""

    def wait_in_vain(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("flows.night.invocation.run_night", wait_in_vain)
    done = parley(home, *GOLD)
    assert done.code == 1
    for part in said:
        assert part in done.err, done.err


@pytest.mark.slow
def test_stage_run_and_dry_run_name_the_files_of_a_folder(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "raw"
    folder.mkdir()
    for row in ({"n": 1}, {"n": 2}):
        with (folder / "notes.jsonl").open("a") as notes:
            notes.write(json.dumps(row) + "\n")
    sample = BENCHMARKS.load("talk2code").data.sample
    with as_file(sample) as path:
        shutil.copy(path / "talk2code.jsonl", folder)
    line = (
        "talk2code: rows read from talk2code.jsonl (6); no valid row in notes.jsonl (2)."
        " Move other data out of the folder\n"
    )
    data = ("--data", folder, "--dataset-version", "dialogues")
    assert line in parley(home, "stage", "talk2code", *data).out
    run = ("run", "talk2code.direct", *data, "--model", "control:gold")
    assert line in parley(home, *run, "--dry-run").out
    assert line in parley(home, *run, "--limit", 1, "--audit", "none").err
