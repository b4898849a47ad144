"""A user's templates of UniDial: what the model and the judge are shown, and which ids change."""

import json
from collections.abc import Iterator
from importlib.resources import as_file
from pathlib import Path

import pytest

from schemas.dialog import Role
from schemas.errors import ConfigError, UsageError
from tasks.benchmarks.advanced import JudgeRequest
from tasks.benchmarks.templates import Texts
from tasks.benchmarks.unidial import BENCHMARK, TEMPLATES, with_texts
from tasks.judging.rubric import JudgeRun
from tasks.planning.dataset import find_data, write_staged
from tasks.planning.plan import RunPlan, plan_run
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake
from tests.fixtures.model_server import ModelServer, model_server
from tests.flows.parley_command import parley
from tests.tasks.benchmarks.unidial.played import context_of, dialogue, play, sample
from warehouse.connect import query

QUESTIONS = {
    "locomo": {
        "locomo_question": "Q: {question}",
        "locomo_date_question": "When? {question}",
        "locomo_system": "I am {assistant}.",
    },
    "mathchat": {name: f"my {name} {{question}} {{solution}}" for name in ("mathchat_seed",)},
    "memorycode": {"memorycode_query": "Code: {query}"},
    "personamem": {"personamem_question": "{options} | {message}"},
}
KIND = {"longmemeval": "longmemeval/0", "mt_bench_101": "mt_bench_101/0", "mt_eval": "mt_eval/0"}


def shown(texts: Texts) -> dict[str, list[str]]:
    """Dialogue -> texts that are said in it before the model answers."""
    with as_file(BENCHMARK.data.sample) as folder:
        staged = with_texts(texts).data.stage(folder, "sample")
    return {
        d.dialog_id: [t.content for t in d.turns if t.content is not None] for d in staged.dialogs
    }


@pytest.mark.parametrize("dataset", QUESTIONS)
def test_questions_are_said_in_the_user_s_words(dataset: str) -> None:
    texts = QUESTIONS[dataset]
    before, after = shown({}), shown(texts)
    changed = {name for name in before if before[name] != after[name]}
    assert changed
    assert {name.partition("/")[0] for name in changed} == {dataset}
    opened = {text.partition("{")[0] for text in texts.values() if not text.startswith("{")}
    said = [text for name in changed for text in after[name] if text not in before[name]]
    assert [text for text in said if opened and not text.startswith(tuple(opened))] == []


def test_every_template_of_a_question_is_shown_somewhere() -> None:
    """Each is replaced alone by other words, and some dialogue of the sample says them."""
    before = shown({})
    for name, template in TEMPLATES.items():
        if template.kind == "question":
            assert shown({name: f"{template.text} (mine)"}) != before, name


def judged(dataset: str, texts: Texts) -> list[JudgeRun]:
    problem, dialog = dialogue(KIND[dataset])
    episode, _ = play(KIND[dataset], ["It was the sea"] * len(dialog.generated_turns))
    benchmark = with_texts(texts)
    assert benchmark.judging is not None
    return [
        run
        for rubric in benchmark.rubrics(dataset)
        for run in benchmark.judging.judge_runs(
            JudgeRequest(rubric.name, problem, dialog, episode, {}, context_of(dialog))
        )
    ]


def asked(dataset: str, texts: Texts) -> list[list[tuple[Role, str]]]:
    """What the judge is sent, the form of the answer included."""
    rubrics = {rubric.name: rubric for rubric in with_texts(texts).rubrics(dataset)}
    return [
        [(m.role, m.content) for m in rubrics[run.rubric].with_form(run.messages)]
        for run in judged(dataset, texts)
    ]


def test_a_judge_is_asked_in_the_user_s_words_alone() -> None:
    texts = {
        "longmemeval": 'Is "{answer}" right? {{"Score": 1}}',
        "longmemeval.system": "You judge.",
    }
    [messages] = asked("longmemeval", texts)
    assert messages == [
        (Role.SYSTEM, "You judge."),
        (Role.USER, 'Is "It was the sea" right? {"Score": 1}'),
    ]


def test_a_variant_is_for_its_own_kind_of_rows() -> None:
    _, dialog = dialogue(KIND["longmemeval"])
    kind = dict(dialog.labels)["task_subtype"]
    mine, others = "mine, score {answer}", "others, score {answer}"
    assert asked("longmemeval", {f"longmemeval.{kind}": mine, "longmemeval": others})[0][0][
        1
    ].startswith("mine")
    other = next(
        one for one in TEMPLATES["longmemeval"].variants if one not in (kind, "abstention")
    )
    assert asked("longmemeval", {f"longmemeval.{other}": mine, "longmemeval": others})[0][0][
        1
    ].startswith("others")


@pytest.mark.parametrize("dataset", KIND)
def test_rows_without_a_text_of_the_user_s_are_asked_as_before(dataset: str) -> None:
    before = asked(dataset, {})
    assert before
    name = next(
        name for name in ("longmemeval", "mt_bench_101", "general") if dataset in (name, "mt_eval")
    )
    variant = {"longmemeval": "abstention", "mt_bench_101": "XX", "general": "none"}[name]
    assert asked(dataset, {f"{name}.{variant}": "score {answer}"}) == before


def test_the_form_of_the_answer_is_shown_where_it_is_asked_for() -> None:
    [[(_, text)]] = asked("longmemeval", {"longmemeval": "{answer}: {form}"})
    assert text == f"It was the sea: {with_texts({}).rubrics('longmemeval')[0].form}"


def write(folder: Path, texts: Texts) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return folder


def plan(home: Path, setting: str, templates: Path | None, data: Path | None = None) -> RunPlan:
    judge = ModelRequest(spec="control:empty")
    benchmark = BenchmarkRequest(
        name=f"unidial.{setting}",
        data=str(data) if data else None,
        dataset_version="current" if data else "sample",
        templates=str(templates) if templates else None,
    )
    return plan_run(
        EvaluationRequest(model=judge, judges={"": judge}, benchmark=benchmark), Home(home)
    )


def test_digests_of_the_texts_of_the_setting_are_in_the_run_s_id(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "mine",
        QUESTIONS["locomo"] | QUESTIONS["memorycode"] | {"longmemeval": "score {answer}"},
    )
    own = plan(tmp_path, "locomo", None)
    mine = plan(tmp_path, "locomo", folder)
    assert [name for name, _ in mine.spec.templates] == sorted(QUESTIONS["locomo"])
    assert mine.run_id != own.run_id
    assert {w.episode_id for w in mine.wanted}.isdisjoint(w.episode_id for w in own.wanted)
    before = mine.run_id
    write(folder, QUESTIONS["memorycode"] | {"memorycode_query": "Other: {query}"})
    assert plan(tmp_path, "locomo", folder).run_id == before
    write(folder, {"locomo_system": "You are {assistant}."})
    assert plan(tmp_path, "locomo", folder).run_id != before


def test_a_judge_s_words_change_no_dialogue(tmp_path: Path) -> None:
    folder = write(tmp_path / "mine", {"longmemeval.abstention": "score {answer}"})
    own, mine = plan(tmp_path, "longmemeval", None), plan(tmp_path, "longmemeval", folder)
    assert mine.run_id != own.run_id
    assert [w.episode_id for w in mine.wanted] == [w.episode_id for w in own.wanted]


def test_parley_s_own_words_in_a_file_make_the_same_run(tmp_path: Path) -> None:
    folder = write(tmp_path / "mine", {"locomo_system": TEMPLATES["locomo_system"].text})
    assert plan(tmp_path, "locomo", folder).run_id == plan(tmp_path, "locomo", None).run_id


def test_a_folder_without_a_text_of_the_setting_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "mine", QUESTIONS["locomo"])
    with pytest.raises(
        ConfigError, match=r"no file belongs to unidial\.memorycode.*memorycode_query\.md"
    ):
        plan(tmp_path, "memorycode", folder)
    asked_of = EvaluationRequest(
        model=ModelRequest(spec="control:empty"),
        benchmark=BenchmarkRequest(
            name="codeif.static", dataset_version="sample", templates=str(folder)
        ),
        sandbox="none",
    )
    with pytest.raises(ConfigError, match=r"codeif takes no templates.*unidial"):
        plan_run(asked_of, Home(tmp_path))


def test_rows_in_the_user_s_words_are_no_later_run_s_data(tmp_path: Path) -> None:
    """What was staged before serves a run of the same words alone, whichever was staged last."""
    lake, mine = Lake(tmp_path), with_texts(QUESTIONS["locomo"])
    with as_file(BENCHMARK.data.sample) as folder:
        write_staged(BENCHMARK.data.stage(folder / "locomo", "current"), "unidial", "current", lake)
        write_staged(mine.data.stage(folder / "locomo", "current"), "unidial", "current", lake)
    assert {d.edition for d in find_data(BENCHMARK, None, "current", lake).dialogs} == {""}
    assert {d.edition for d in find_data(mine, None, "current", lake).dialogs} == {
        mine.data.edition
    }
    other = with_texts({"locomo_system": "You are {assistant}."})
    with pytest.raises(
        UsageError, match=r"with these templates\. Name the folder of its raw files with --data DIR"
    ):
        find_data(other, None, "current", lake)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server(max_seconds=120) as found:
        found.answer = lambda messages: json.dumps({"Score": "1", "Rationale": "so it is"})
        yield found


@pytest.mark.slow
def test_a_run_asks_model_and_judge_in_the_user_s_words(
    home: Path, server: ModelServer, tmp_path: Path
) -> None:
    folder = write(tmp_path / "mine", {"longmemeval": 'Say {{"Score": 0}} or 1: {answer}'})
    model = f"openai:mock@{server.base_url}"
    typed = (
        "run",
        "unidial.longmemeval",
        "--dataset-version",
        "sample",
        "--model",
        "control:gold",
        "--workers",
        "1",
    )
    done = parley(home, *typed, "--judge", model, "--judge-revision", "1", "--templates", folder)
    assert done.code == 0, done.err
    prompts = [body["messages"][-1]["content"] for body in server.bodies]
    assert prompts
    assert {prompt.partition(":")[0] for prompt in prompts} == {'Say {"Score"'}
    assert query(home, "SELECT DISTINCT value FROM scores")[1] == [(1.0,)]
    told = parley(home, "list", "templates", "--json")
    [row] = [row for row in json.loads(told.out) if row["template"] == "longmemeval"]
    assert "{rule}" in row["placeholders"]
    assert row["text"] == TEMPLATES["longmemeval"].text


def test_the_sample_is_worded_by_parley_itself() -> None:
    assert {dialog.edition for dialog in sample().dialogs} == {""}
