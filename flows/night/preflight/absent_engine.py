"""Dry runs on a machine without vLLM, which use a placeholder for vLLM's version."""

from collections.abc import Callable, Sequence

from tasks.language.providers.registry import provider_of
from tasks.planning.request import EvaluationRequest, ModelRequest

_REVISION = "vllm-not-here"


def plannable_without_vllm(
    requests: Sequence[EvaluationRequest], print_line: Callable[[str], object]
) -> list[EvaluationRequest]:
    """Return the requests in a form that a dry run can plan. Print which models need vLLM."""
    models = {
        id(model): model for request in requests if not request.resume for model in request.models
    }
    absent = {
        key: model.model_copy(update={"revision": _REVISION})
        for key, model in models.items()
        if _lacks_its_engine(model)
    }
    if absent:
        names = ", ".join(sorted({model.label for model in absent.values()}))
        print_line(
            f"vLLM is not installed on this machine. Its version is part of the ids of runs of"
            f" {names}, so finished episodes cannot be found: all episodes of these runs are"
            " counted as pending"
        )
    return [_with(request, absent) for request in requests]


def _lacks_its_engine(model: ModelRequest) -> bool:
    """Return True if the model's revision depends on a program that is not installed here."""
    provider = provider_of(model.spec)
    return (
        provider is not None
        and not model.revision
        and provider.lacks_engine(model.spec.partition(":")[2], model.serve)
    )


def _with(request: EvaluationRequest, absent: dict[int, ModelRequest]) -> EvaluationRequest:
    def replacement_of(model: ModelRequest) -> ModelRequest:
        return absent.get(id(model), model)

    simulator = replacement_of(request.simulator) if request.simulator else None
    judges = {rubric: replacement_of(judge) for rubric, judge in request.judges.items()}
    return request.model_copy(
        update={"model": replacement_of(request.model), "simulator": simulator, "judges": judges}
    )
