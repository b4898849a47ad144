"""Reports of builds: the outcome, or in a dry run the planned calls."""

from pathlib import Path

from schemas.base import Frozen
from tasks.benchmarks.advanced import Constructed
from tasks.driver.stored_calls import StoredCalls
from tasks.planning.builds.build_plan import BuildPlan
from tasks.planning.builds.built_folder import REVIEW


class RoleCalls(Frozen):
    """Numbers of answers of one role: estimated, received and reused."""

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
    plan: BuildPlan, made: Constructed, files: tuple[str, ...], kept: StoredCalls
) -> BuildReport:
    """Return the report of a finished build."""
    out, counts = Path(plan.request.out).resolve(), kept.calls(plan.construction.roles)
    return BuildReport(
        build_id=plan.build_id,
        what=plan.request.what,
        calls=tuple(
            RoleCalls(
                role=one.role,
                model=one.model.label,
                estimated=plan.estimate[one.role],
                asked=counts[one.role].sent,
                reused=counts[one.role].reused,
            )
            for one in plan.spec.roles
        ),
        out=str(out),
        files=files,
        review=str(out / REVIEW),
        n_review_rows=len(made.review.rows),
        programs_run=kept.programs.sent,
        programs_reused=kept.programs.reused,
    )


def dry_report(plan: BuildPlan) -> BuildReport:
    """Return the report of a dry run: the planned calls of each role. No request is sent."""
    kept = StoredCalls(plan.folder).n_stored
    calls = tuple(
        RoleCalls(
            role=one.role,
            model=one.model.label,
            estimated=plan.estimate[one.role],
            reused=kept.get(one.role, 0),
        )
        for one in plan.spec.roles
    )
    return BuildReport(build_id=plan.build_id, what=plan.request.what, calls=calls)
