"""What is said of a night's configuration that cannot be read: the mistake, not what follows from
it.
"""

from pathlib import Path

import pytest

from flows.night.config import read_config
from schemas.errors import ConfigError
from tasks.planning.request import ModelRequest

MODELS = "models: [{spec: 'control:gold'}]\n"
BENCHMARKS = "benchmarks: [{name: codeif.static}]\n"


def refusal(folder: Path, text: str) -> str:
    path = folder / "night.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_config(path)
    return str(refused.value)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("models: [{spec: 'control:gold', revision: 1}]\n" + BENCHMARKS, "models.0.revision = 1"),
        (
            "models: [{spec: 'control:gold', revision: 2024-05-13}]\n" + BENCHMARKS,
            "models.0.revision = datetime.date",
        ),
        (
            MODELS + "benchmarks: [{name: codeif, options: {turns: 3}}]",
            "benchmarks.0.options.turns = 3",
        ),
    ],
)
def test_a_number_or_a_date_where_text_belongs_is_to_be_quoted(
    tmp_path: Path, text: str, place: str
) -> None:
    said = refusal(tmp_path, text)
    assert place in said
    assert said.endswith("should be a valid string: put it in quotes"), (
        "and no word of a list that would be too short"
    )


def test_an_empty_list_is_too_short(tmp_path: Path) -> None:
    assert "benchmarks = []: Tuple should have at least 1 item" in refusal(
        tmp_path, MODELS + "benchmarks: []"
    )


def test_a_setting_in_braces_needs_quotes(tmp_path: Path) -> None:
    said = refusal(tmp_path, MODELS + "benchmarks: [{name: convcode.live[f_c,f_e]}]")
    assert "not valid YAML" in said
    assert "Quote texts" in said


def test_a_benchmark_may_be_for_some_of_the_models(tmp_path: Path) -> None:
    path, models = (
        tmp_path / "night.yaml",
        "models: [{spec: 'control:gold'}, {spec: 'control:empty'}]\n",
    )
    path.write_text(
        models
        + "benchmarks: [{name: codeif.dynamic, models: ['control:empty']}, {name: codeif.static}]"
    )
    asked = [
        (request.benchmark.name, request.model.spec)
        for request in read_config(path).requests(tmp_path)
    ]
    assert asked == [
        ("codeif.dynamic", "control:empty"),
        ("codeif.static", "control:gold"),
        ("codeif.static", "control:empty"),
    ]
    said = refusal(tmp_path, MODELS + "benchmarks: [{name: codeif, models: ['control:glod']}]")
    assert (
        "codeif lists models that `models` does not contain: control:glod. `models` contains "
        "control:gold"
    ) in said


def test_a_judge_of_a_rubric_is_for_the_benchmarks_that_have_it(tmp_path: Path) -> None:
    path = tmp_path / "night.yaml"
    entries = ("unidial.longmemeval", "unidial.mathchat", "codeif.static")
    judges = "judge: {spec: 'control:gold'}\njudges: {longmemeval: {spec: 'control:empty'}, nope: "
    path.write_text(
        f"{MODELS}{judges}{{spec: 'control:gold'}}}}\n"
        f"benchmarks: [{', '.join(f'{{name: {name}}}' for name in entries)}]"
    )
    requests = read_config(path).requests(tmp_path)
    assert [sorted(request.judges) for request in requests] == [
        ["", "longmemeval", "nope"],
        ["", "nope"],
        ["", "nope"],
    ]


def test_what_is_listed_twice_runs_once(tmp_path: Path) -> None:
    path = tmp_path / "night.yaml"
    gold, static = "{spec: 'control:gold'}", "{name: codeif.static"
    entries = f"{static}}}, {static}, limit: 2}}, {static}, models: ['control:gold']}}"
    path.write_text(f"models: [{gold}, {gold}]\nbenchmarks: [{entries}]")
    settings = read_config(path)
    assert [request.benchmark.limit for request in settings.requests(tmp_path)] == [None, 2]
    model = ModelRequest(spec="control:empty")
    assert [one.benchmark.limit for one in settings.requests_for(model, tmp_path)] == [None, 2]


def test_a_night_s_audit_holds_for_the_benchmarks_that_name_none(tmp_path: Path) -> None:
    path = tmp_path / "night.yaml"
    path.write_text(
        MODELS + "benchmarks: [{name: codeif.dynamic, audit: all}, {name: codeif.static}]"
    )
    assert [request.audit for request in read_config(path).requests(tmp_path)] == ["all", "sample"]
    path.write_text("audit: none\nmax_forged_share: 0.5\n" + path.read_text())
    assert [(one.audit, one.max_forged_share) for one in read_config(path).requests(tmp_path)] == [
        ("all", 0.5),
        ("none", 0.5),
    ]


def test_an_agent_replaces_a_model_under_test_alone(tmp_path: Path) -> None:
    path = tmp_path / "night.yaml"
    with_agent = MODELS.replace("}", ", agent: chain_of_thought}")
    path.write_text(with_agent + BENCHMARKS)
    [request] = read_config(path).requests(tmp_path)
    assert (request.model.agent, request.title) == (
        "chain_of_thought",
        "codeif.static · control:gold+chain_of_thought",
    )
    path.write_text(
        MODELS + BENCHMARKS + "simulator: {spec: 'control:gold', agent: chain_of_thought}"
    )
    with pytest.raises(ConfigError, match="can only replace the model under test"):
        read_config(path).requests(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "sources: [{only: a}]\n" + BENCHMARKS,
            "sources.0: a source of checkpoints must set exactly one of",
        ),
        (
            MODELS + "sources: [{directory: a}, {}]\n" + BENCHMARKS,
            "sources.1: a source of checkpoints must set exactly one of",
        ),
        (MODELS + BENCHMARKS + "budget: {then: stop}", "budget: the budget has no cap. Set one of"),
        (
            MODELS + BENCHMARKS + "comparison: {thresholds: {nope: 1}}",
            "comparison.thresholds: unknown metric 'nope'; known: ",
        ),
        (
            "models: [{spec: 'control:gold', gpus: 1}]\n" + BENCHMARKS,
            "models.0: usd_per_hour and gpus are for models whose server",
        ),
        (
            MODELS + "benchmarks: [{name: codeif}]",
            "benchmarks.0.name: benchmark 'codeif' has several settings. Name one of",
        ),
        (
            MODELS + "benchmarks: [{name: nope}]",
            "benchmarks.0.name: unknown benchmark 'nope'; known: codeif",
        ),
        (
            MODELS + "benchmarks: [{name: unidial.multi_if, audit: all}]",
            "benchmarks.0.audit: unidial.multi_if runs no programs, so the option has no effect",
        ),
        (MODELS + BENCHMARKS + "sandbox: foo", "unknown sandbox 'foo'; known: bubblewrap"),
        (BENCHMARKS, "`models` and `sources` are both empty"),
        (
            MODELS + BENCHMARKS + "simulator: {spec: 'control:gold', agent: a}",
            "agent 'a': an agent can only replace",
        ),
        (
            MODELS + BENCHMARKS + "budget: {usd: .inf}",
            "budget.usd = inf: Input should be a finite number",
        ),
        (
            MODELS + BENCHMARKS + "budget: {hours: .nan}",
            "budget.hours = nan: Input should be a finite number",
        ),
        (
            "sources: {directory: a}\n" + BENCHMARKS,
            "write a list, each member in a line that begins with `- `",
        ),
    ],
)
def test_every_mistake_is_told_with_its_file_and_place(
    tmp_path: Path, text: str, said: str
) -> None:
    assert f"configuration {tmp_path / 'night.yaml'}: " in (refused := refusal(tmp_path, text))
    assert said in refused


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "models: [{spec: 'control:gold', serve: {max_model_length: 5}}]",
            "no such field. Do you mean max_model_len?",
        ),
        (
            "models: [{spec: 'control:gold', sampler: 5}]",
            "no such field. Known: spec, key_env, revision, ",
        ),
        (
            MODELS + "judges: {a: {specs: b}}",
            (
                "judges.a.specs = 'b': Extra inputs are not permitted; no such field. Do you "
                "mean spec?"
            ),
        ),
        (MODELS + "concurency: 5", "Do you mean concurrency?"),
        (
            "models: [{spec: 'control:gold', temperature: warm}]",
            "models.0.temperature = 'warm': Input should be a valid number, unable to parse string as"
            " a number, or 'default'",
        ),
        (
            "models: ['control:gold']",
            "models.0 = 'control:gold': Input should be a mapping of fields, such as `spec: VALUE`",
        ),
    ],
)
def test_an_unknown_field_is_told_with_what_may_stand_there(
    tmp_path: Path, text: str, said: str
) -> None:
    assert said in refusal(tmp_path, f"{text}\n{BENCHMARKS}")


@pytest.mark.parametrize(
    "arguments", ["--api_key=sk-SENTINEL", "{--a: ['--hf-token', 'sk-SENTINEL']}"]
)
def test_arguments_that_are_no_list_are_not_shown_where_they_hold_a_key(
    tmp_path: Path, arguments: str
) -> None:
    said = refusal(
        tmp_path, f"models: [{{spec: 'vllm:a', serve: {{arguments: {arguments}}}}}]\n{BENCHMARKS}"
    )
    assert "SENTINEL" not in said
    assert "write a list" in said


def test_a_site_is_written_where_it_is_read_or_to_its_target(tmp_path: Path) -> None:
    path = tmp_path / "night.yaml"
    for lines, url, place in (
        ("site_url: https://pages.test/x\n", "https://pages.test/x", None),
        ("site_url: s3://bucket/x\n", "s3://bucket/x", "s3://bucket/x"),
        ("site_url: pages\n", str(tmp_path / "pages"), str(tmp_path / "pages")),
        (
            "site_url: https://pages.test/x\nsite_target: pages\n",
            "https://pages.test/x",
            str(tmp_path / "pages"),
        ),
    ):
        path.write_text(MODELS + BENCHMARKS + lines)
        site = read_config(path).site_at(tmp_path)
        assert site is not None
        assert (site.url, site.place) == (url, place)
    assert "`site_target` needs `site_url`" in refusal(
        tmp_path, MODELS + BENCHMARKS + "site_target: pages\n"
    )
    said = refusal(tmp_path, MODELS + BENCHMARKS + "site_url: https://me:hidden@pages.test\n")
    assert "a user name or password" in said
    assert "hidden" not in said


def test_a_rule_of_decisions_holds_for_the_night_and_an_entry_may_have_its_own(
    tmp_path: Path,
) -> None:
    path = tmp_path / "night.yaml"
    own = "{name: codeif.static, decide: {baseline: first, margin: 0.1}}"
    benchmarks = f"benchmarks: [{own}, {{name: codeif.dynamic}}]"
    path.write_text(
        f"{MODELS}decide: {{baseline: predecessor}}\nsimulator: {{spec: "
        f"'control:gold'}}\n{benchmarks}\n"
    )
    rules = [request.decide for request in read_config(path).requests(tmp_path)]
    assert [(rule.baseline, rule.margin) for rule in rules if rule] == [
        ("first", 0.1),
        ("predecessor", 0.03),
    ]
