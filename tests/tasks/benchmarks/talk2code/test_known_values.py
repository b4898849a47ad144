"""Every column of the mart and of the paper's table, by hand, through the command line.

A recorded model asks one question and then delivers; a recorded user and judge answer; vectors come
from an endpoint. Two tasks, three users each. The program of `longest_streak` always returns 0 and
passes two of its six cases, that of `invoice_total` all.
"""

import csv
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from schemas.dialog import Role
from tests.fixtures.embedding_server import MODEL, embedding_server, vector_of
from tests.flows.parley_command import parley
from tests.tasks.benchmarks.talk2code.played import sample
from tests.tasks.language.quoted import quoted_talk
from warehouse.connect import query

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.usefixtures("bubblewrap")]
PROBLEMS = sample().problems[:2]
QUESTION = "Is the goal itself enough?"
WRONG = "def longest_streak(cups, goal):\n    return 0\n"
RATINGS = {"QD": 5, "CL": 4, "IF": 3, "UA": 2, "CE": 1, "LS": 3}
K_TRUE, NAMED = ["goal", "list", "zero"], ["Goal", "cup"]
"""Of the reference and of the delivery; of the question. One of two is right: rho is 1/2."""


def answers() -> Iterator[dict[str, Any]]:
    for problem in PROBLEMS:
        code = WRONG if "streak" in problem.problem_id else problem.reference_code
        yield {"problem_id": problem.problem_id, "turn": 1, "content": QUESTION}
        for turn in range(
            2, 6
        ):  # 2 of the interactive track, the last round of each golden dialogue of the direct one
            yield {
                "problem_id": problem.problem_id,
                "turn": turn,
                "content": f"So:\n```python\n{code}```",
            }


def words() -> Iterator[dict[str, Any]]:
    for problem in PROBLEMS:
        yield {"problem_id": problem.problem_id, "turn": 2, "content": "Yes, it is enough."}


def judgements() -> Iterator[dict[str, Any]]:
    said = {
        "experience": {0: RATINGS},
        "user_level": {0: {"level": "novice"}},
        "entities": {0: {"entities": K_TRUE}, 1: {"entities": NAMED}, 2: {"entities": K_TRUE}},
    }
    for problem in PROBLEMS:
        for rubric, by_turn in said.items():
            for turn, content in by_turn.items():
                place = {
                    "benchmark": "talk2code",
                    "rubric": rubric,
                    "problem_id": problem.problem_id,
                    "turn": turn,
                }
                yield {**place, "content": json.dumps(content)}


def recording(folder: Path, name: str, lines: Iterable[dict[str, Any]]) -> dict[str, str]:
    path = folder / f"{name}.jsonl"
    path.write_text(
        "".join(f"{json.dumps({**line, 'sample': 0})}\n" for line in lines), encoding="utf-8"
    )
    return {"spec": f"recorded:{path}"}


@pytest.fixture(scope="module")
def night(standing_home: Path) -> Path:
    folder = standing_home.parent
    tasks = {"dataset_version": "sample", "limit": len(PROBLEMS)}
    with embedding_server() as server:
        asked = {
            "simulator": recording(folder, "user", words()),
            "judge": recording(folder, "judge", judgements()),
            "embedder": {"spec": f"openai:{MODEL}@{server.base_url}", "revision": "1"},
            "models": [recording(folder, "asker", answers())],
            "benchmarks": [
                {
                    "name": "talk2code.interactive_measured",
                    "options": {"level_sample": "all"},
                    **tasks,
                },
                {"name": "talk2code.direct", **tasks},
                {"name": "talk2code.golden_measured", **tasks},
            ],
        }
        (folder / "night.yaml").write_text(yaml.safe_dump(asked), encoding="utf-8")
        done = parley(standing_home, "nightly", "--config", folder / "night.yaml")
    assert done.code == 0, f"{done.err}\n{done.out}"
    return standing_home


def probability(reply: str, reference: str) -> float:
    one, other = vector_of(reply, 4), vector_of(reference.strip("\n"), 4)
    dot = sum(a * b for a, b in zip(one, other, strict=True))
    return (1 + dot / math.hypot(*one) / math.hypot(*other)) / 2


def test_one_question_and_a_delivery_have_these_values_in_every_column(night: Path) -> None:
    """Each level has a dialogue of each task: TP is the mean of 2/6 and 1, SR of 0 and 1; EC is 3/4
    - 2/8.
    """
    columns = (
        "tp, sr, qd, cl, if_, ua, ce, ls, experience, ec, es, ss, delivered, user_leakage, n_tp, "
        "n_ec, n_ss, n_dialogues"
    )
    sql = (
        f"SELECT level, {columns}, level_kept, sc FROM talk2code_levels WHERE axis = 'level' AND "
        "track = 'interactive'"
    )
    rows = {row[0]: row[1:] for row in query(night, sql)[1]}
    expected = (2 / 3, 1 / 2, 5, 4, 3, 2, 1, 3, 3.0, 0.5, 0, 0, 1, 0, 2, 2, 2, 2)
    sc = sum(probability(QUESTION, problem.reference_code) for problem in PROBLEMS) / 2
    assert rows == {
        level: pytest.approx((*expected, float(level == "novice"), sc), abs=1e-6)
        for level in ("novice", "intermediate", "expert")
    }


def test_each_archetype_and_language_has_a_row_and_nothing_is_unscored(night: Path) -> None:
    sql = (
        "SELECT axis, count(*), sum(n_tp), sum(n_tp_unscored), sum(n_ec) FROM talk2code_levels "
        "WHERE track = 'interactive'"
    )
    assert query(night, f"{sql} GROUP BY axis ORDER BY axis")[1] == [
        ("all", 1, 6, 0, 6),
        ("archetype", 6, 6, 0, 6),
        ("language", 1, 6, 0, 6),
        ("level", 3, 6, 0, 6),
    ]
    low, high = query(
        night,
        "SELECT tp_low, tp_high FROM talk2code_levels WHERE axis = 'all' AND track = 'direct'",
    )[1][0]
    assert low <= 2 / 3 <= high


def test_equal_texts_are_judged_once(night: Path) -> None:
    """Of six questions, six references and six deliveries five differ: one question, two
    references, two programs.
    """
    sql = (
        "SELECT count(*), count(*) FILTER (WHERE NOT is_reused) FROM judge_verdicts WHERE rubric "
        "= 'entities'"
    )
    assert query(night, sql)[1] == [(18, 5)]


def test_the_main_table_has_the_tracks_side_by_side_and_the_golden_dialogues_last(
    night: Path,
) -> None:
    out = night.parent / "table.csv"
    assert parley(night, "export", "talk2code-main-table", "--out", out).code == 0
    with out.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["level"], row["model"]) for row in rows] == [
        (level, model)
        for level in ("novice", "intermediate", "expert")
        for model in ("recorded:asker", "Talk2Code")
    ]
    model, golden = rows[:2]
    figures = (
        "direct_tp",
        "direct_sr",
        "interactive_tp",
        "interactive_sr",
        "if_",
        "experience",
        "ec",
    )
    assert [float(model[name]) for name in figures] == pytest.approx(
        [2 / 3, 1 / 2, 2 / 3, 1 / 2, 3, 3, 0.5]
    )
    assert [model[name] for name in ("direct_n_tp", "direct_n_tp_unscored", "n_sc")] == [
        "2",
        "0",
        "2",
    ]
    assert golden["direct_tp"] == golden["interactive_sr"] == ""
    assert float(golden["ec"]) > float(model["ec"])


def test_figure_4_has_both_series_by_turn(night: Path, tmp_path: Path) -> None:
    """The question names one right thing of two: rho is 1/2.

    The delivery names all three of the reference: rho is 1.
    """
    out = tmp_path / "turns.json"
    assert parley(night, "export", "talk2code-turns", "--out", out).code == 0
    rows = json.loads(out.read_text(encoding="utf-8"))
    asker = [row for row in rows if row["model"] == "recorded:asker"]
    assert [(row["level"], row["track"], row["turn"]) for row in asker] == [
        (level, "interactive", turn)
        for level in ("novice", "intermediate", "expert")
        for turn in (1, 2)
    ]
    assert [row["rho"] for row in asker] == pytest.approx([1 / 2, 1.0] * 3)
    counts = {
        (row["n_rho"], row["n_p"], row["n_rho_unscored"], row["n_p_unscored"]) for row in asker
    }
    assert counts == {(2, 2, 0, 0)}
    first = sum(probability(QUESTION, problem.reference_code) for problem in PROBLEMS) / 2
    assert [row["p"] for row in asker[::2]] == pytest.approx([first] * 3, abs=1e-6)
    golden = [row for row in rows if row["model"] == "Talk2Code" and row["level"] == "novice"]
    assert [row["turn"] for row in golden] == list(range(1, len(golden) + 1))
    assert [row["n_rho"] for row in golden] == sorted(
        (row["n_rho"] for row in golden), reverse=True
    )


def test_the_golden_dialogues_are_measured_without_a_judge_of_entities(night: Path) -> None:
    """Novices' two: after rises, all that was named last is right but `team` and `programming
    language` of the second.
    """
    sql = (
        "SELECT ec, n_ec, n_sc FROM talk2code_levels WHERE track = 'golden' AND level = 'novice' "
        "AND axis = 'level'"
    )
    ((ec, *counts),) = query(night, sql)[1]
    named = [turn for turn in sample().dialogs[3].turns if turn.role is Role.ASSISTANT]
    assert len(named) == 5
    rho = 8 / 10
    assert ec == pytest.approx((1 + 3 * rho**2 - 2 * rho**3) / 2)
    assert counts == [2, 2]


def run_of(night: Path, setting: str) -> str:
    ((run_id,),) = query(night, f"SELECT run_id FROM runs WHERE setting = 'talk2code.{setting}'")[1]
    return run_id


def test_exported_judgements_judge_another_run_alike_by_dialogue(
    night: Path, tmp_path: Path
) -> None:
    """Each dialogue of a problem has a judgement of its own, so a recording by problem could not
    hold them.
    """
    recorded = tmp_path / "judgements.jsonl"
    exported = parley(
        night, "export", "judgements", "--run", run_of(night, "golden_measured"), "--out", recorded
    )
    assert exported.out.strip().endswith(": 6 answers"), exported.err
    lines = [json.loads(line) for line in recorded.read_text(encoding="utf-8").splitlines()]
    assert {line["problem_id"].count("/") for line in lines} == {3}
    by_dialogue = {line["problem_id"]: n for n, line in enumerate(lines)}
    marked = [
        line
        | {"content": json.dumps(dict.fromkeys(RATINGS, 1 + by_dialogue[line["problem_id"]] % 5))}
        for line in lines
    ]
    judge = recording(tmp_path, "marked", marked)["spec"]
    command = (
        "run",
        "talk2code.golden",
        "--dataset-version",
        "sample",
        "--limit",
        len(PROBLEMS),
        "--model",
        "control:gold",
    )
    first = parley(night, *command, "--judge", judge, "--json").json()
    again = tmp_path / "again.jsonl"
    assert parley(night, "export", "judgements", "--run", first["run_id"], "--out", again).code == 0
    assert [json.loads(line) for line in again.read_text(encoding="utf-8").splitlines()] == marked
    sql = (
        f"SELECT value FROM judge_verdicts WHERE run_id = '{first['run_id']}' AND dimension = 'QD'"
    )
    assert len({value for (value,) in query(night, sql)[1]}) == 5


def test_a_sheet_of_drawn_dialogues_comes_back_as_ratings(night: Path, tmp_path: Path) -> None:
    run, sheet, other = (
        run_of(night, "interactive_measured"),
        tmp_path / "sheet.csv",
        tmp_path / "other.csv",
    )
    command = ("export", "rating-sheet", "--run", run, "--limit", "4", "--rubric", "experience")
    assert parley(night, *command, "--out", sheet).out.strip().endswith("4 rows to rate")
    assert parley(night, *command, "--out", other).code == 0
    assert sheet.read_bytes() == other.read_bytes()
    assert parley(night, *command, "--seed", "1", "--out", other).code == 0
    drawn, otherwise = (
        list(csv.DictReader(path.open(encoding="utf-8", newline=""))) for path in (sheet, other)
    )
    assert {row["episode_id"] for row in drawn} != {row["episode_id"] for row in otherwise}
    assert all(quoted_talk(row["shown"])[1] == ("assistant", QUESTION) for row in drawn)
    for rubric in ("entities", "user_level"):  # Their prompts depend on options at their defaults.
        done = parley(night, *command[:-1], rubric, "--out", other)
        assert done.code == 0, done.err
    with sheet.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(drawn[0]))
        writer.writeheader()
        writer.writerows(
            row
            | {"rater": "cy"}
            | {f"value:{name}": "6" if name == "QD" else "2" for name in RATINGS}
            for row in drawn
        )
    done = parley(night, "import", "ratings", sheet)
    assert (
        done.code,
        "20 of 24 ratings stored" in done.out,
        "4 rows in quarantine" in done.out,
    ) == (3, True, True)
    refused = parley(
        night, "export", "recording", "--run", run, "--seed", "1", "--out", tmp_path / "x.jsonl"
    )
    assert (refused.code, "only on rating-sheet" in refused.err) == (2, True)


def test_people_rate_the_same_dialogues_and_their_agreement_stands_by_dimension(
    night: Path,
) -> None:
    """Ann rates as the judge does, Ben one lower where he can: of two dialogues each pair has two
    ratings in every dimension.
    """
    sql = (
        "SELECT episode_id FROM runs JOIN episodes USING (run_id) WHERE runs.setting = "
        "'talk2code.interactive_measured'"
    )
    names = [row[0] for row in query(night, f"{sql} ORDER BY episode_id LIMIT 2")[1]]
    rows = [
        f"{name},0,experience,{dimension},{rater},{max(1, value - by)}"
        for name in names
        for dimension, value in RATINGS.items()
        for rater, by in (("ann", 0), ("ben", 1))
    ]
    path = night.parent / "ratings.csv"
    path.write_text(
        "\n".join(("episode_id,turn,rubric,dimension,rater,value", *rows)), encoding="utf-8"
    )
    assert (
        parley(night, "import", "ratings", path)
        .out.strip()
        .endswith("24 of 24 ratings stored, 24 new or changed")
    )
    found = parley(night, "agreement", "--rubric", "experience", "--json").json()
    found = [row for row in found if "cy" not in (row["first"], row["second"])]
    pairs = {(row["dimension"], row["first"], row["second"]): row["n"] for row in found}
    kinds = (("ann", "ben"), *((who, "recorded:judge") for who in ("ann", "ben", "consensus")))
    assert {key: n for key, n in pairs.items() if key[0] != "all dimensions"} == {
        (d, *kind): 2 for d in RATINGS for kind in kinds
    }
    assert {
        key[1:]: n
        for key, n in pairs.items()
        if key[0] == "all dimensions" and key[1] != "all raters"
    } == dict.fromkeys(kinds, 12)
