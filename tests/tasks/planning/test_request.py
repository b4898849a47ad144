"""What a request calls its model: flow runs, messages and reports name it as the tables do."""

from pathlib import Path

import pytest

from tasks.language.model_spec import parse_model
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest


@pytest.mark.parametrize(
    ("asked", "label"),
    [
        ({"spec": "vllm:/ck4/checkpoint-2", "name": "ck4/checkpoint-2"}, "vllm:ck4/checkpoint-2"),
        (
            {"spec": "vllm:/ck5/checkpoint-2", "name": "ck5/checkpoint-2", "agent": "a"},
            "vllm:ck5/checkpoint-2+a",
        ),
        ({"spec": "vllm:/ck4/checkpoint-2"}, "vllm:checkpoint-2"),
        ({"spec": "recorded:a/step-2.jsonl.gz"}, "recorded:step-2"),
        ({"spec": "vllm:my-org/my-model"}, "vllm:my-org/my-model"),
        ({"spec": "openai:my-org/my-model@http://127.0.0.1:8000/v1"}, "openai:my-org/my-model"),
    ],
)
def test_a_model_is_called_by_its_name_else_by_its_spec(asked: dict[str, str], label: str) -> None:
    request = EvaluationRequest(
        model=ModelRequest.model_validate(asked),
        benchmark=BenchmarkRequest(name="b"),
        sandbox="none",
    )
    assert request.title == f"b · {label}"


@pytest.mark.parametrize("name", [None, "rec/step-2"])
def test_a_recording_is_called_as_in_the_tables(tmp_path: Path, name: str | None) -> None:
    path = tmp_path / "plain.jsonl"
    path.write_text('{"problem_id": "P", "turn": 1, "content": "c"}\n', encoding="utf-8")
    spec = f"recorded:{path}"
    assert ModelRequest(spec=spec, name=name).label == parse_model(spec, name=name).identity.label
