"""Sampling of each role of a run, for the table `runs`."""

from collections.abc import Iterator
from typing import Literal

from schemas.lake.records import RoleSampling
from schemas.run import ModelIdentity, Sampling
from tasks.planning.plan import RunPlan


def samplings_of(plan: RunPlan) -> tuple[RoleSampling, ...]:
    """Return the sampling of each role that a model plays, within the bounds of the setting."""
    return tuple(_samplings(plan))


def _samplings(plan: RunPlan) -> Iterator[RoleSampling]:
    spec, setting = plan.spec, plan.benchmark.setting(plan.spec.setting)
    subject = setting.bounded(spec.sampling)
    yield _row("subject", spec.subject, subject)
    if spec.simulator is not None:
        yield _row("simulator", spec.simulator, setting.simulated(spec.simulator_sampling, subject))
    for judge in spec.judges:
        yield _row("judge", judge.judge, judge.sampling, judge.rubric)


def _row(
    role: Literal["subject", "simulator", "judge"],
    identity: ModelIdentity,
    sampling: Sampling,
    rubric: str = "",
) -> RoleSampling:
    return RoleSampling(
        role=role,
        rubric=rubric,
        model=identity.label,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        max_tokens=sampling.max_tokens,
        stop=sampling.stop,
        request=sampling.request,
        system_prompt=sampling.system_prompt,
    )
