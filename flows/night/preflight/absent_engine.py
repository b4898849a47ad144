"""A dry run on a machine without vLLM: the command is printed all the same, under a stand-in for vLLM's version."""

from collections.abc import Callable, Sequence

from tasks.language.providers.registry import provider_of
from tasks.planning.request import EvaluationRequest, ModelRequest

_REVISION = "vllm-not-here"


def plannable_without_vllm(
    requests: Sequence[EvaluationRequest], say: Callable[[str], object]
) -> list[EvaluationRequest]:
    """The requests, such that a dry run can plan them; says for which models vLLM would be needed."""
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
        say(
            f"vLLM is not on this machine. Its version, which the ids of runs of {names} hold, is not known here: all episodes"
            " of these runs are counted as owed"
        )
    return [_with(request, absent) for request in requests]


def _lacks_its_engine(model: ModelRequest) -> bool:
    """Whether its revision would be told by a program that is not here."""
    provider = provider_of(model.spec)
    return (
        provider is not None
        and not model.revision
        and provider.lacks_engine(model.spec.partition(":")[2], model.serve)
    )


def _with(request: EvaluationRequest, absent: dict[int, ModelRequest]) -> EvaluationRequest:
    def known(model: ModelRequest) -> ModelRequest:
        return absent.get(id(model), model)

    simulator = known(request.simulator) if request.simulator else None
    judges = {rubric: known(judge) for rubric, judge in request.judges.items()}
    return request.model_copy(
        update={"model": known(request.model), "simulator": simulator, "judges": judges}
    )
