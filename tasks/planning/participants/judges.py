"""Choice of a run's judges: one model for each rubric of its setting."""

from collections.abc import Mapping
from dataclasses import dataclass

from schemas.errors import ConfigError, UnknownName
from schemas.run import RubricJudge, RunSpec
from tasks.benchmarks.contract import Benchmark
from tasks.language.access import ModelAccess
from tasks.planning.participants.choice import choose, find_setting
from tasks.planning.request import EvaluationRequest, ModelRequest
from tasks.storage.home import Home


@dataclass(frozen=True)
class PlannedJudge:
    """Judge of one rubric, with the access to its model and its request."""

    judge: RubricJudge
    access: ModelAccess
    request: ModelRequest


def choose_judges(
    request: EvaluationRequest,
    benchmark: Benchmark,
    setting: str,
    resumed: RunSpec | None,
    home: Home | None = None,
) -> Mapping[str, PlannedJudge]:
    """Map each rubric of the setting to its judge.

    A request may name a judge for a setting without rubrics, because a night may have settings of
    both kinds.

    Raises:
        ConfigError: a rubric has no judge.
        UnknownName: the setting has rubrics, and the request names a judge for another rubric.
    """
    rubrics = benchmark.rubrics(setting)
    names = tuple(rubric.name for rubric in rubrics)
    unknown = [name for name in request.judges if name and name not in names]
    if rubrics and unknown:
        raise UnknownName("rubric", unknown[0], names, of=f"{benchmark.name}.{setting}")
    before = {judge.rubric: judge.judge for judge in resumed.judges} if resumed else {}
    chosen = {}
    for rubric in rubrics:
        model = request.judges.get(rubric.name, request.judges.get(""))
        if model is None:
            raise ConfigError(
                f"{benchmark.name}.{setting} has the rubric {rubric.name!r}. Name its judge with "
                f"--judge PROVIDER:MODEL or --judge {rubric.name}=PROVIDER:MODEL (`judge` or "
                "`judges` in a night's configuration)"
            )
        access = choose(model, before.get(rubric.name), home, concurrency=request.concurrency)
        judge = RubricJudge(
            rubric=rubric.name,
            version=rubric.version,
            prompt=rubric.digest,
            judge=access.identity,
            sampling=model.sampling,
        )
        chosen[rubric.name] = PlannedJudge(judge, access, model)
    return chosen


def refuse_needless_judges(request: EvaluationRequest) -> None:
    """Refuse a judge if the setting has no rubric: whoever names a judge expects judgements.

    Raises:
        ConfigError: the request names a judge, and the setting has no rubric.
    """
    if not request.judges:
        return
    benchmark, setting = find_setting(request.benchmark.name)
    if not benchmark.rubrics(setting):
        judged = [name for name in benchmark.settings if benchmark.rubrics(name)]
        others = (
            f". Settings with rubrics: {', '.join(f'{benchmark.name}.{name}' for name in judged)}"
            if judged
            else ""
        )
        raise ConfigError(
            f"{benchmark.name}.{setting} has no rubrics, so --judge has no effect. "
            f"Remove it{others}"
        )
