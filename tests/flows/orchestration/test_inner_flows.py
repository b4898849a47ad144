"""Flows of Parley store the same parameters as flows of Prefect."""

from typing import Any

import pytest

from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest


@pytest.mark.slow
def test_parameters_are_stored_as_prefect_stores_them() -> None:
    from prefect import flow

    from flows.orchestration.inner_flows import plain_flow

    def evaluate(**parameters: Any) -> None:
        pass

    request = EvaluationRequest(
        model=ModelRequest(spec="control:gold"), benchmark=BenchmarkRequest(name="codeif.static")
    )
    parameters = {"request": request, "requests": (request,), "home": "/h", "n": 1, "cap": None}
    stored = plain_flow(name="plain")(evaluate).serialize_parameters(parameters)
    assert stored == flow(evaluate).serialize_parameters(parameters)


@pytest.mark.slow
def test_a_parameter_that_is_no_json_is_stored_as_its_type() -> None:
    from flows.orchestration.inner_flows import plain_flow

    stored = plain_flow(name="plain")(len).serialize_parameters({"call": len})
    assert stored == {"call": "<builtin_function_or_method>"}
