"""Says whether a pass was earned: the tests run again with altered expectations, which an honest answer fails."""

from sandbox.decoys.compiled_audit import audit_compiled
from sandbox.decoys.node_audit import audit_nodes
from sandbox.decoys.python_audit import audit_python
from sandbox.decoys.trial import Trial
from sandbox.interface import Sandbox
from sandbox.judging.runners.programs import (
    JavaProgram,
    JavaScriptProgram,
    RepositoryProgram,
    TestProgram,
)
from schemas.audit import Audited
from schemas.run import Limits


def audit_program(
    sandbox: Sandbox,
    program: TestProgram,
    reference: TestProgram | None,
    limits: Limits,
    seed: str,
    *,
    asks_other_inputs: bool = False,
) -> Audited:
    """Audit one program that has passed, wholly or in some of its cases.

    Args:
        reference: the same tests on the reference's code; None where there is none.
        limits: of each run.
        seed: draws what is altered, and the order of the runs.
        asks_other_inputs: also asks with other inputs, whose values the reference tells: two more runs a pass.

    Raises:
        SandboxUnavailable: the sandbox could not run it; says nothing about the answer.
    """
    match program:
        case RepositoryProgram():
            known = reference if isinstance(reference, RepositoryProgram) else None
            return audit_nodes(sandbox, program, known, limits, seed)
        case JavaProgram():
            known = reference if isinstance(reference, JavaProgram) else None
            return audit_compiled(sandbox, program, known, limits, seed)
        case JavaScriptProgram():
            known = reference if isinstance(reference, JavaScriptProgram) else None
            return audit_compiled(sandbox, program, known, limits, seed)
        case _:
            known = (
                None
                if isinstance(reference, RepositoryProgram | JavaProgram | JavaScriptProgram)
                else reference
            )
            return audit_python(
                Trial(sandbox, limits), program, known, seed, asks_other_inputs=asks_other_inputs
            )
