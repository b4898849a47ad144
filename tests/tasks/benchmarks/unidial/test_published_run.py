"""A finished run in UniDial-EvalKit's layout, brought in by the command line and pooled again: its
own summary comes out.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import cycle
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from tasks.benchmarks.unidial.convert import to_normal_dialog
from tests.flows.parley_command import parley
from tests.tasks.benchmarks.unidial.played import sample
from warehouse.connect import query

pytestmark = pytest.mark.slow
OUTPUTS = (
    ('{{"Rationale": "so", "Score": {}}}', True),
    ('```json\n{{"score": "{}"}}\n```', True),
    ("'score': {}, I think", True),
    ('{{"Rationale": "{} it is"}}', False),
)
"""Raw outputs of a judge, and whether the toolkit finds the rating in them."""
STATS: dict[str, Callable[[list[float]], float]] = {"mean": fmean, "min": min, "max": max}
Row = dict[str, Any]


def words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text.lower()))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Row]]:
    """The output folder, and the rows that the toolkit wrote."""
    folder = tmp_path_factory.mktemp("ude")
    rows: list[Row] = []
    answers, outputs = cycle(["So it is: the sea", "Tomas and Mira", "music"]), cycle(OUTPUTS)
    for part in ("generated", "eval_details"):
        (folder / part).mkdir()
    for number, dialog in enumerate(
        d for d in sample().dialogs if d.dialog_id.startswith("mt_eval/")
    ):
        made = to_normal_dialog(dialog, ())
        own: list[Row] = []
        for turn in made["dialog_turns"]:
            if turn["eval_config"]["do_eval"]:
                turn["content"] = f"{next(answers)} ({number}, {turn['turn_id']})"
                own += [
                    measured(made, turn, metric, next(outputs))
                    for metric in turn["eval_config"]["metrics"]
                ]
        (folder / "generated" / f"{number}.json").write_text(json.dumps(made), encoding="utf-8")
        (folder / "eval_details" / f"{number}.json").write_text(json.dumps(own), encoding="utf-8")
        rows += own
    return folder, rows


def measured(dialog: Row, turn: Row, metric: Row, output: tuple[str, bool]) -> Row:
    """One row of the toolkit's, worked out here once more."""
    kind, arguments, said = metric["class_name"], metric["args"], turn["content"]
    named = next((value for name, value in arguments.items() if "name" in name), None)
    details: Row = {}
    if kind == "llm_judge":
        rating = 1 + len(said) % 10
        form, found = output
        score, details = (rating if found else 0) / 10, {"raw_output": form.format(rating)}
    elif kind == "precision":
        score = (words(said) & words(turn["reference"])).total() / words(said).total()
    else:
        score = float(said.lower().startswith(arguments["inst_args"]["letter"]))
    place = {
        "dialog_id": dialog["dialog_id"],
        "turn_id": turn["turn_id"],
        "metric_name": f"{kind}->{named}" if named else kind,
    }
    labels = {"dialog_labels": dialog["dialog_labels"], "turn_labels": turn["turn_labels"]}
    return {**place, "score": score, "details": details, **labels}


@pytest.fixture(scope="module")
def home(run: tuple[Path, list[Row]], standing_home: Path) -> Path:
    """Imported and pooled, without a model."""
    folder, rows = run
    home, answers = standing_home, standing_home.parent / "m.jsonl"
    told = parley(home, "import", "unidial", folder, "--model", "m", "--out", answers)
    assert told.code == 0, told.err
    assert f"{len({(r['dialog_id'], r['turn_id']) for r in rows})} answers" in told.out
    judge = f"recorded:{answers}.judgements.jsonl"
    asked = ("--data", folder, "--model", f"recorded:{answers}", "--judge", judge, "--workers", "1")
    done = parley(home, "run", "unidial.mt_eval", *asked)
    assert done.code == 0, done.err
    return home


def pooled(
    rows: list[Row], turn_stat: str, dialog_stat: str
) -> tuple[dict[tuple[int, int], float], dict[int, float]]:
    """Values of turns, and of dialogues."""
    scores: dict[tuple[int, int], list[float]] = {}
    for row in rows:
        scores.setdefault((row["dialog_id"], row["turn_id"]), []).append(row["score"])
    turns = {place: STATS[turn_stat](found) for place, found in scores.items()}
    dialogs = {
        name: [value for (owner, _), value in turns.items() if owner == name] for name, _ in turns
    }
    return turns, {name: STATS[dialog_stat](found) for name, found in dialogs.items()}


def summary(values: list[float]) -> tuple[Any, ...]:
    return len(values), pytest.approx(fmean(values)), min(values), max(values), 0


COLUMNS = "count, mean, min, max, n_unscored"
OURS = "model = 'recorded:m'"


@pytest.mark.parametrize("turn_stat", STATS)
@pytest.mark.parametrize("dialog_stat", STATS)
def test_all_turns_and_dialogues_are_pooled_by_each_statistic(
    run: tuple[Path, list[Row]], home: Path, turn_stat: str, dialog_stat: str
) -> None:
    turns, dialogs = pooled(run[1], turn_stat, dialog_stat)
    for level, values in (("turn", turns.values()), ("dialog", dialogs.values())):
        where = (
            f"turn_stat = '{turn_stat}' AND dialog_stat = '{dialog_stat}' AND dataset_level = "
            f"'{level}'"
        )
        found = query(
            home,
            (
                f"SELECT {COLUMNS} FROM unidial_pooled WHERE {OURS} AND grouping = 'global' AND "
                f"{where}"
            ),
        )[1]
        assert found == [summary(list(values))]


def labelled(
    home: Path, grouping: str, dialog_stat: str = "dialog_stat = 'min'"
) -> dict[str, tuple[Any, ...]]:
    where = (
        f"{OURS} AND grouping = '{grouping}' AND turn_stat = 'mean' AND {dialog_stat} AND "
        "dataset_level IS NULL"
    )
    return {
        row[0]: row[1:]
        for row in query(home, f"SELECT label, {COLUMNS} FROM unidial_pooled WHERE {where}")[1]
    }


def test_labels_and_their_hierarchy_pool_dialogues(run: tuple[Path, list[Row]], home: Path) -> None:
    _, dialogs = pooled(run[1], "mean", "min")
    labels: Mapping[int, Row] = {row["dialog_id"]: row["dialog_labels"] for row in run[1]}
    by_label: dict[str, list[float]] = {}
    by_hierarchy: dict[str, list[float]] = {}
    for name, value in dialogs.items():
        for label, text in labels[name].items():
            by_label.setdefault(f"{label}:{text}", []).append(value)
        by_hierarchy.setdefault(
            f"{labels[name]['task_type']} > {labels[name]['task_subtype']}", []
        ).append(value)
    assert labelled(home, "dialog_label") == {
        label: summary(values) for label, values in by_label.items()
    }
    assert labelled(home, "hierarchy") == {
        label: summary(values) for label, values in by_hierarchy.items()
    }


def test_turn_labels_pool_turns_and_metrics_pool_rows(
    run: tuple[Path, list[Row]], home: Path
) -> None:
    by_label: dict[str, list[float]] = {}
    by_metric: dict[str, list[float]] = {}
    for row in run[1]:
        by_metric.setdefault(row["metric_name"], []).append(row["score"])
        for label, text in row["turn_labels"].items():
            by_label.setdefault(f"{label}:{text}", []).append(row["score"])
    assert labelled(home, "turn_label", "dialog_stat IS NULL") == {
        label: summary(v) for label, v in by_label.items()
    }
    where = f"{OURS} AND grouping = 'metric' AND turn_stat IS NULL"
    found = query(home, f"SELECT label, {COLUMNS} FROM unidial_pooled WHERE {where}")[1]
    assert {row[0]: row[1:] for row in found} == {
        label: summary(values) for label, values in by_metric.items()
    }


def test_the_old_name_of_the_grouping_stays_for_a_release(
    run: tuple[Path, list[Row]], home: Path
) -> None:
    """`by` is a reserved word in SQL, so it has to be quoted; `grouping` does not."""
    found = query(home, 'SELECT DISTINCT grouping, "by" FROM unidial_pooled ORDER BY ALL')[1]
    names = ("dialog_label", "global", "hierarchy", "metric", "turn_label")
    assert found == [(name, name) for name in names]


def test_scores_equal_the_toolkit_s_rows(run: tuple[Path, list[Row]], home: Path) -> None:
    found = query(
        home,
        f"SELECT problem_id, turn, instruction_id, value FROM scores WHERE {OURS} ORDER BY ALL",
    )[1]
    wanted = [
        (str(row["dialog_id"]), row["turn_id"] // 2 + 1, row["metric_name"], row["score"])
        for row in run[1]
    ]
    assert found == sorted(wanted)


@pytest.mark.long
def test_a_missing_judgement_is_counted_and_never_zero(
    run: tuple[Path, list[Row]], home: Path, tmp_path: Path
) -> None:
    """The first judgement taken out of the recording: one score is missing, and its turn is in no
    mean.
    """
    answers = tmp_path / "less.jsonl"
    parley(home, "import", "unidial", run[0], "--model", "m", "--out", answers)
    judgements = Path(f"{answers}.judgements.jsonl")
    kept = judgements.read_text(encoding="utf-8").splitlines(keepends=True)[1:]
    judgements.write_text("".join(kept), encoding="utf-8")
    asked = (
        "--data",
        run[0],
        "--model",
        f"recorded:{answers}",
        "--judge",
        f"recorded:{judgements}",
        "--workers",
        "1",
    )
    done = parley(home, "run", "unidial.mt_eval", *asked)
    assert done.code == 3, done.err
    [(run_id,)] = query(home, "SELECT run_id FROM runs WHERE model = 'recorded:less'")[1]
    parley(home, "release", run_id, "--because", "a judgement is missing")
    of_run = f"run_id = '{run_id}' AND grouping = 'global'"
    where = f"{of_run} AND turn_stat = 'mean' AND dialog_stat = 'mean' AND dataset_level = 'turn'"
    n_turns = len({(row["dialog_id"], row["turn_id"]) for row in run[1]})
    assert query(home, f"SELECT count, n_unscored FROM unidial_pooled WHERE {where}")[1] == [
        (n_turns - 1, 1)
    ]


def exported(home: Path, model: str, out: Path) -> dict[str, Any]:
    """The run's files as JSON by name, written by the command."""
    [(run_id,)] = query(home, f"SELECT run_id FROM runs WHERE model = '{model}'")[1]
    done = parley(home, "export", "unidial-output", "--run", run_id, "--out", out)
    assert done.code == 0, done.err
    return {
        str(path.relative_to(out)): json.loads(path.read_text(encoding="utf-8"))
        for path in out.rglob("*.json")
    }


def test_the_run_goes_out_as_the_folder_that_it_came_from(
    run: tuple[Path, list[Row]], home: Path, tmp_path: Path
) -> None:
    found = exported(home, "recorded:m", tmp_path / "out")
    pooled_there = found.pop("summary.json")["summary"]
    given = {
        str(path.relative_to(run[0])): json.loads(path.read_text(encoding="utf-8"))
        for path in run[0].rglob("*.json")
    }
    assert found.keys() == given.keys()
    assert {name: dialog for name, dialog in found.items() if name.startswith("generated/")} == {
        name: dialog for name, dialog in given.items() if name.startswith("generated/")
    }
    for name, rows in given.items():
        if name.startswith("eval_details/"):
            assert [
                {**row, "details": row["details"].get("raw_output")} for row in found[name]
            ] == [
                {
                    **row,
                    "score": pytest.approx(row["score"]),
                    "details": row["details"].get("raw_output"),
                }
                for row in rows
            ]
    _, dialogs = pooled(run[1], "mean", "min")
    assert tuple(pooled_there["global"].values()) == summary(list(dialogs.values()))[:4]
    by_label = pooled_there["by_label"]
    for kind, of in (("dialog_label", "dialog"), ("turn_label", "turn")):
        stat = "dialog_stat = 'min'" if of == "dialog" else "dialog_stat IS NULL"
        for label, (count, mean, *_) in labelled(home, kind, stat).items():
            name, _, text = label.partition(":")
            assert by_label[of][f"{name}:{(text, 'count')}"] == count
            assert by_label[of][f"{name}:{(text, 'mean')}"] == pytest.approx(mean)
    for label, (_, mean, *_) in labelled(home, "hierarchy").items():
        assert by_label["dialog"][f"task_hierarchy:{(label, 'mean')}"] == pytest.approx(mean)


def test_what_went_out_comes_in_again_with_the_same_figures(home: Path, tmp_path: Path) -> None:
    out, answers = tmp_path / "out", tmp_path / "again.jsonl"
    before = exported(home, "recorded:m", out)
    parley(home, "import", "unidial", out, "--model", "m", "--out", answers)
    asked = (
        "--data",
        out,
        "--model",
        f"recorded:{answers}",
        "--judge",
        f"recorded:{answers}.judgements.jsonl",
        "--workers",
        "1",
    )
    done = parley(home, "run", "unidial.mt_eval", *asked)
    assert done.code == 0, done.err
    assert exported(home, "recorded:again", tmp_path / "second") == before
    refused = parley(home, "export", "unidial-output", "--run", "x", "--out", out)
    assert refused.code == 2, "the folder holds files, and there is no such run"
