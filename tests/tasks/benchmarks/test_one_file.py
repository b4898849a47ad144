"""Benchmarks in one file: staged, played, scored, and refused with their reasons."""

import json
from pathlib import Path

import pytest

from sandbox.judging.patched_repository import PatchProgram, run_patch
from schemas.dialog import Role
from schemas.episode import StepKind
from schemas.errors import ConfigError, UnknownName
from schemas.verdict import Outcome
from tasks.benchmarks.one_file.items import NOTHING_TO_ADD
from tasks.benchmarks.registry import BENCHMARKS, FILES_VARIABLE, resolve_name
from tasks.planning.request import BenchmarkRequest
from tasks.storage.files.trees import TreeStore
from tasks.storage.home import Home
from tests.flows.parley_command import parley_process
from tests.own_files import ROOT
from tests.tasks.benchmarks.dialogue_swebench.graded import places_of
from tests.tasks.benchmarks.dialogue_swebench.played import Play, Scripted, calls
from tests.tasks.benchmarks.ended_episode import ended_episode

EXAMPLES = ROOT / "docs" / "examples"
SETTINGS = ("full", "concat", "sharded", "recap", "snowball")


@pytest.fixture(autouse=True)
def forget_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FILES_VARIABLE, "")


def test_an_example_is_short_and_its_bad_row_is_quarantined() -> None:
    for example, most in (
        ("sums", 35),
        ("poems", 79),
        ("repairs", 79),
        ("lost_in_conversation", 79),
    ):
        assert len((EXAMPLES / f"{example}.py").read_text().splitlines()) <= most
    name = resolve_name(str(EXAMPLES / "sums.py"))
    staged = BENCHMARKS.load(name).data.stage(EXAMPLES / "sums.jsonl", "current")
    assert [problem.problem_id for problem in staged.problems] == ["sum", "product"]
    assert [(row.source_line, row.reason) for row in staged.quarantined] == [(3, "missing_field")]
    assert (name in BENCHMARKS.names(), BenchmarkRequest(name=f"{EXAMPLES}/sums.py:chat").name) == (
        True,
        "sums.chat",
    )


def test_five_settings_say_the_same_shards() -> None:
    benchmark = BENCHMARKS.load(resolve_name(str(EXAMPLES / "lost_in_conversation.py")))
    staged = benchmark.data.stage(EXAMPLES / "lost_in_conversation.jsonl", "current")
    assert (len(staged.problems), len(staged.dialogs), staged.quarantined) == (12, 60, ())
    rows = {
        row["id"]: row
        for row in map(
            json.loads, (EXAMPLES / "lost_in_conversation.jsonl").read_text().splitlines()
        )
    }
    for setting in SETTINGS:
        played = [dialog for dialog in staged.dialogs if benchmark.data.plays(setting, dialog)]
        assert len(played) == 12
        for dialog in played:
            texts, row = (
                [turn.content or "" for turn in dialog.turns if turn.content],
                rows[dialog.problem_id],
            )
            rounds = {"full": 1, "concat": 1, "sharded": 4, "recap": 5, "snowball": 4}[setting]
            assert len(texts) == rounds
            if setting == "full":
                assert texts == [row["instruction"]]
            else:
                assert all(any(shard in text for text in texts) for shard in row["shards"])
            if setting in ("concat", "recap", "snowball"):
                assert all(shard in texts[-1] for shard in row["shards"])
            if setting == "sharded":
                assert texts == row["shards"]


@pytest.mark.parametrize(
    ("answer", "reference", "value"),
    [
        ("It is 63.", "63", 1),
        ("12 trays, so 1,063", "1063", 1),
        ("no number", "63", 0),
        ("63, or 64", "63", 0),
        ("-5.50", "-5.5", 1),
    ],
)
def test_the_last_number_counts(answer: str, reference: str, value: float) -> None:
    from tasks.metrics.registry import METRICS

    BENCHMARKS.load(resolve_name(str(EXAMPLES / "lost_in_conversation.py")))
    assert METRICS.load("final_number")(answer, reference) == value


def test_files_that_cannot_be_taken_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        resolve_name(str(tmp_path / "absent.py"))
    (tmp_path / "codeif.py").touch()
    with pytest.raises(ConfigError, match="already has the name 'codeif'"):
        resolve_name(str(tmp_path / "codeif.py"))
    (tmp_path / "other.py").write_text((EXAMPLES / "poems.py").read_text())
    with pytest.raises(
        ConfigError, match="must define one benchmark named 'other', but defines 'poems'"
    ):
        BENCHMARKS.load(resolve_name(str(tmp_path / "other.py")))
    with pytest.raises(
        UnknownName,
        match=r"unknown benchmark 'codeiff'; known: .*\. Do you mean codeif\? See `parley list",
    ):
        BENCHMARKS.load(resolve_name("codeiff"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def broken(:\n", r"broken\.py:1: SyntaxError: invalid syntax: def broken\(:"),
        (
            "import json\nimport parley_absent\n",
            r"broken\.py:2: the file cannot be imported: ModuleNotFoundError.*parley_absent",
        ),
        (
            "",
            (
                r"broken\.py: .*named \'broken\', but defines none\. Write "
                r'@benchmark\("broken"\) above'
            ),
        ),
    ],
)
def test_a_file_that_cannot_be_imported_is_named_with_its_line(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "broken.py").write_text(text)
    with pytest.raises(ConfigError, match=message):
        BENCHMARKS.load(resolve_name(str(tmp_path / "broken.py")))


def staged_lines(folder: Path, body: str, rows: str, **given: str) -> list[tuple[int, str, str]]:
    """Stage rows by a benchmark whose function has this body; return line, reason and detail of the
    quarantined ones.
    """
    arguments = "".join(f", {name}={value}" for name, value in given.items())
    imports = "from tasks.benchmarks.one_file import Item, Repository, benchmark"
    text = f'{imports}\n@benchmark("mine"{arguments})\ndef M(row):\n    {body}\n'
    (folder / "mine.py").write_text(text)
    (folder / "mine.jsonl").write_text(rows)
    staged = BENCHMARKS.load(resolve_name(str(folder / "mine.py"))).data.stage(
        folder / "mine.jsonl", "current"
    )
    return [(row.source_line, row.reason, row.detail) for row in staged.quarantined]


@pytest.mark.parametrize(
    ("body", "given", "reason", "detail"),
    [
        (
            "return Item(row['name'], ['a'], tests=['1'])",
            {},
            "missing_field",
            "the row has no field 'name'",
        ),
        ("return Item(7, ['a'], tests=['1'])", {}, "wrong_type", "id is 7, not a string"),
        (
            "return Item(row['id'], 'a', tests=['1'])",
            {},
            "wrong_type",
            "setting chat needs a list of non-blank messages",
        ),
        (
            "return Item(row['id'], 7, tests=['1'])",
            {},
            "wrong_type",
            "setting chat needs a list of non-blank messages",
        ),
        (
            "return Item(row['id'], ['a'], tests='1')",
            {},
            "wrong_type",
            "tests is '1', not a list of strings",
        ),
        ("return Item(row['id'], ['a'])", {}, "missing_field", "the task has no tests"),
        (
            (
                "return Item(row['id'], ['a'], tests=['b.py::t'], repository=Repository({'a.py': "
                "['']}, {}))"
            ),
            {"agentic": "True"},
            "wrong_type",
            "{'a.py': ['']} is not a mapping from path to text",
        ),
        (
            "return Item(row['id'], ['a'], tests=['1'])",
            {"agentic": "True"},
            "wrong_type",
            "the task has no repository",
        ),
        (
            (
                "return Item(row['id'], ['a'], tests=['b.py::t'], repository=Repository({'a.py': "
                "''}, {'c.py': ''}))"
            ),
            {"agentic": "True"},
            "wrong_type",
            "test 'b.py::t' is not `FILE::NAME` with a file of c.py",
        ),
        (
            (
                "return Item(row['id'], ['a'], tests=['t.py::t'], "
                "repository=Repository({'../a.py': ''}, {'t.py': ''}))"
            ),
            {"agentic": "True"},
            "wrong_type",
            "'../a.py' is no path below the project's folder",
        ),
    ],
)
def test_a_bad_row_is_quarantined_with_its_line(
    tmp_path: Path, body: str, given: dict[str, str], reason: str, detail: str
) -> None:
    [(line, why, said)] = staged_lines(tmp_path, body, '\n{"id": "one"}\n', **given)
    assert (line, why) == (2, reason)
    assert detail in said


@pytest.mark.parametrize(
    ("body", "given", "message"),
    [
        (
            "return Itm(row)",
            {},
            r"mine\.py:4: M failed on the row mine\.jsonl:1: NameError: name 'Itm' is not defined",
        ),
        (
            "pass",
            {},
            (
                r"mine\.py:2: M failed on the row mine\.jsonl:1: TypeError: it returned None "
                r"instead of an Item"
            ),
        ),
        (
            "pass",
            {"has_tests": "False"},
            r"mine\.py:2: the file cannot be imported: ValueError: benchmark 'mine': the answers",
        ),
        (
            "pass",
            {"marts": "('no.sql',)"},
            r"ValueError: benchmark 'mine': no file .*no\.sql. Marts are SQL files beside mine\.py",
        ),
    ],
)
def test_a_fault_of_the_file_itself_is_named_with_its_line(
    tmp_path: Path, body: str, given: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        staged_lines(tmp_path, body, '{"id": "one"}\n', **given)


@pytest.mark.slow
def test_an_agent_works_on_the_files_until_it_finishes(tmp_path: Path) -> None:
    benchmark, home = BENCHMARKS.load(resolve_name(str(EXAMPLES / "repairs.py"))), Home(tmp_path)
    assert benchmark.resources.resolve is not None
    source = EXAMPLES / "repairs.jsonl"
    staged = benchmark.resources.resolve(benchmark.data.stage(source, "current"), source, {}, home)
    assert [(row.source_line, row.reason) for row in staged.quarantined] == [(3, "wrong_type")]
    edit = (
        'sed -i \'s/title.lower().replace(" ", "-")/"-".join(title.lower().split())/\' slugs.py; ls'
    )
    answers = [
        calls(("bash", {"command": edit})),
        *(calls(("message_user", {"message": "Is there more?"})) for _ in range(2)),
        calls(("finish", {"message": "Done."})),
    ]
    subject = Scripted(answers)
    ending = Play(home, staged, "slugs", "interactive", "chat", benchmark=benchmark)(subject)
    assert [
        step.content
        for step in ending.steps
        if step.role is Role.USER and step.kind is StepKind.MESSAGE
    ] == [
        "Some of our page addresses have two dashes in a row. Please repair make_slug in slugs.py.",
        "It happens where a title has two blanks in a row, or a blank at its end.",
        NOTHING_TO_ADD,
    ]
    problem, dialog = staged.problems[0], staged.dialogs[0]
    assert "README.md" in subject.prompts
    assert "test_slugs" not in subject.prompts
    [run] = benchmark.programs.test_runs(problem, dialog, ended_episode("chat", dialog, ending), {})
    assert run.repository is not None
    program, limits = PatchProgram(run.code or "", run.repository), benchmark.programs.limits
    assert (
        run_patch(places_of(home, "bubblewrap"), TreeStore(home.trees), program, limits).outcome
        is Outcome.PASSED
    )
    untouched = PatchProgram("", run.repository)
    assert (
        run_patch(places_of(home, "bubblewrap"), TreeStore(home.trees), untouched, limits).outcome
        is Outcome.FAILED
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "n_turns"), [("repairs.py", 2), ("lost_in_conversation.py:snowball", 4)]
)
def test_gold_passes_and_empty_fails(tmp_path: Path, file: str, n_turns: int) -> None:
    for model, value in (("control:gold", 1.0), ("control:empty", 0.0)):
        line = parley_process(
            tmp_path, "run", str(EXAMPLES / file), "--model", model, "--json"
        ).json()
        assert {result["mean"] for result in line["results"]} == {value}
        assert line["n_unscored"] == 0
    assert parley_process(tmp_path, "report").code == 0, "also where the file is not named"
    rows = parley_process(
        tmp_path, "sql", "SELECT DISTINCT max(turn) AS n FROM turns GROUP BY episode_id", "--json"
    ).json()
    assert rows == [{"n": n_turns}]
    groups = (
        "SELECT axis, count(*) AS n, min(mean) AS low, max(mean) AS high FROM results WHERE "
        "metric IN"
    )
    rows = parley_process(
        tmp_path,
        "sql",
        f"{groups} ('unit_tests', 'final_number', 'resolved') GROUP BY axis ORDER BY axis",
        "--json",
    ).json()
    of_turns = {"turn"} if file != "repairs.py" else set()  # a repository is scored as a whole
    assert {row["axis"] for row in rows} == {"all", "level"} | of_turns
    assert {(row["low"], row["high"]) for row in rows} == {(0.0, 1.0)}, (
        "rows of both models, without any groups.sql"
    )


@pytest.mark.slow
def test_a_judge_rates_answers(tmp_path: Path) -> None:
    said = {"benchmark": "poems", "rubric": "poems_rating", "turn": 2, "sample": 0}
    rated = (("sea", 4), ("bread", 2))
    lines = [
        {**said, "problem_id": name, "content": json.dumps({"reason": "plain", "rating": n})}
        for name, n in rated
    ]
    (tmp_path / "said.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    judge = f"recorded:{tmp_path}/said.jsonl"
    line = parley_process(
        tmp_path,
        "run",
        EXAMPLES / "poems.py",
        "--model",
        "control:gold",
        "--judge",
        judge,
        "--json",
    ).json()
    assert [(result["metric"], result["mean"]) for result in line["results"]] == [
        ("judged_rating", 0.5)
    ]
