"""Reports of builds: the outcome, or in a dry run the planned calls."""

from pathlib import Path

from schemas.base import Frozen
from tasks.benchmarks.construction import Constructed
from tasks.driver.kept_calls import KeptCalls
from tasks.planning.builds.build_plan import BuildPlan
from tasks.planning.builds.built_folder import REVIEW


class RoleCalls(Frozen):
    """Numbers of calls of one role."""

    role: str
    model: str
    estimated: int
    asked: int = 0
    """Number of answers that this invocation received."""
    reused: int = 0
    """Number of stored answers that this invocation used. In a dry run, all stored answers."""


class BuildReport(Frozen):
    """State of one build after an invocation."""

    build_id: str
    what: str
    calls: tuple[RoleCalls, ...]
    out: str = ""
    files: tuple[str, ...] = ()
    review: str = ""
    n_review_rows: int = 0
    programs_run: int = 0
    programs_reused: int = 0


def report_of(
    plan: BuildPlan, constructed: Constructed, files: tuple[str, ...], stored_calls: KeptCalls
) -> BuildReport:
    """Return the report of a build's outcome."""
    out, counts = Path(plan.request.out).resolve(), stored_calls.calls(plan.construction.roles)
    return BuildReport(
        build_id=plan.build_id,
        what=plan.request.what,
        calls=tuple(
            RoleCalls(
                role=role.role,
                model=role.model.label,
                estimated=plan.estimate[role.role],
                asked=counts[role.role].asked,
                reused=counts[role.role].reused,
            )
            for role in plan.spec.roles
        ),
        out=str(out),
        files=files,
        review=str(out / REVIEW),
        n_review_rows=len(constructed.review.rows),
        programs_run=stored_calls.programs.asked,
        programs_reused=stored_calls.programs.reused,
    )


def dry_report(plan: BuildPlan) -> BuildReport:
    """Return the report of the calls that a build would make. Nothing is started."""
    n_stored = KeptCalls(plan.folder).n_kept
    calls = tuple(
        RoleCalls(
            role=role.role,
            model=role.model.label,
            estimated=plan.estimate[role.role],
            reused=n_stored.get(role.role, 0),
        )
        for role in plan.spec.roles
    )
    return BuildReport(build_id=plan.build_id, what=plan.request.what, calls=calls)
