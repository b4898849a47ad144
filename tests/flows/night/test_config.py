"""What is said of a night's configuration that cannot be read: the mistake, not what follows from it."""

from pathlib import Path

import pytest

from flows.night.config import read_config
from schemas.errors import ConfigError

MODELS = "models: [{spec: 'control:gold'}]\n"
BENCHMARKS = "benchmarks: [{name: codeif}]\n"


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
        ("models: [{spec: 'control:gold', revision: 2024-05-13}]\n" + BENCHMARKS, "models.0.revision = datetime.date"),
        (MODELS + "benchmarks: [{name: codeif, options: {turns: 3}}]", "benchmarks.0.options.turns = 3"),
    ],
)
def test_a_number_or_a_date_where_text_belongs_is_to_be_quoted(tmp_path: Path, text: str, place: str) -> None:
    said = refusal(tmp_path, text)
    assert place in said
    assert said.endswith("should be a valid string: put it in quotes"), "and no word of a list that would be too short"


def test_an_empty_list_is_too_short(tmp_path: Path) -> None:
    assert "benchmarks = []: Tuple should have at least 1 item" in refusal(tmp_path, MODELS + "benchmarks: []")


def test_a_setting_in_braces_needs_quotes(tmp_path: Path) -> None:
    said = refusal(tmp_path, MODELS + "benchmarks: [{name: convcode.live[f_c,f_e]}]")
    assert "not YAML" in said
    assert "need quotes" in said


def test_a_benchmark_may_be_for_some_of_the_models(tmp_path: Path) -> None:
    path, models = tmp_path / "night.yaml", "models: [{spec: 'control:gold'}, {spec: 'control:empty'}]\n"
    path.write_text(models + "benchmarks: [{name: codeif, models: ['control:empty']}, {name: codeif.static}]")
    asked = [(request.benchmark.name, request.model.spec) for request in read_config(path).requests(tmp_path)]
    assert asked == [("codeif", "control:empty"), ("codeif.static", "control:gold"), ("codeif.static", "control:empty")]
    said = refusal(tmp_path, MODELS + "benchmarks: [{name: codeif, models: ['control:glod']}]")
    assert "codeif names control:glod; `models` holds only control:gold" in said


def test_an_agent_sits_in_the_seat_of_a_model_under_test_alone(tmp_path: Path) -> None:
    path = tmp_path / "night.yaml"
    seated = MODELS.replace("}", ", agent: chain_of_thought}")
    path.write_text(seated + BENCHMARKS)
    [request] = read_config(path).requests(tmp_path)
    assert (request.model.agent, request.title) == ("chain_of_thought", "codeif · control:gold+chain_of_thought")
    path.write_text(MODELS + BENCHMARKS + "simulator: {spec: 'control:gold', agent: chain_of_thought}")
    with pytest.raises(ConfigError, match="takes the seat of a model under test"):
        read_config(path).requests(tmp_path)
