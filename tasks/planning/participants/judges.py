"""Chooses who judges a run: one model for each rubric of its setting."""

from collections.abc import Mapping
from dataclasses import dataclass

from schemas.errors import ConfigError, UnknownName
from schemas.run import ModelEndpoint, RubricJudge, RunSpec
from tasks.benchmarks.contract import Benchmark
from tasks.planning.participants.choice import choose, find_setting
from tasks.planning.request import EvaluationRequest, ModelRequest
from tasks.storage.home import Home


@dataclass(frozen=True)
class PlannedJudge:
    """Who judges by one rubric, where, and as what was asked for."""

    judge: RubricJudge
    endpoint: ModelEndpoint
    request: ModelRequest


def choose_judges(
    request: EvaluationRequest,
    benchmark: Benchmark,
    setting: str,
    resumed: RunSpec | None,
    home: Home | None = None,
) -> Mapping[str, PlannedJudge]:
    """Rubric -> its judge. None for a setting without rubrics, even if one is named: a night may hold both kinds of settings.

    Raises:
        ConfigError: a rubric has no judge.
        UnknownName: the setting has rubrics, and a judge is named for another one.
    """
    rubrics = benchmark.rubrics(setting)
    names = tuple(rubric.name for rubric in rubrics)
    unknown = [name for name in request.judges if name and name not in names]
    if rubrics and unknown:
        raise UnknownName("rubric", unknown[0], names, of=f"{benchmark.name}.{setting}")
    before = {one.rubric: one.judge for one in resumed.judges} if resumed else {}
    chosen = {}
    for rubric in rubrics:
        asked = request.judges.get(rubric.name, request.judges.get(""))
        if asked is None:
            raise ConfigError(
                f"{benchmark.name}.{setting} is judged by the rubric {rubric.name!r}. Name its judge by --judge PROVIDER:MODEL"
                f" or --judge {rubric.name}=PROVIDER:MODEL (`judge` or `judges` in a night's configuration)"
            )
        choice = choose(asked, before.get(rubric.name), home)
        judge = RubricJudge(
            rubric=rubric.name,
            version=rubric.version,
            prompt=rubric.digest,
            judge=choice.identity,
            sampling=asked.sampling,
        )
        chosen[rubric.name] = PlannedJudge(judge, choice.endpoint, asked)
    return chosen


def refuse_needless_judges(request: EvaluationRequest) -> None:
    """Refuse a judge where none is needed: whoever names one expects judgements.

    Raises:
        ConfigError: the setting has no rubric.
    """
    if not request.judges:
        return
    benchmark, setting = find_setting(request.benchmark.name)
    if not benchmark.rubrics(setting):
        judged = [name for name in benchmark.settings if benchmark.rubrics(name)]
        others = (
            f"; judged are {', '.join(f'{benchmark.name}.{name}' for name in judged)}"
            if judged
            else ""
        )
        raise ConfigError(
            f"{benchmark.name}.{setting} is judged by nobody: leave --judge out{others}"
        )
