"""Audit of one program, which decides whether its pass was earned.

The tests run again with altered expectations, which an honest answer cannot pass.
"""

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
    """Audit one program that has passed all or some of its tests.

    Args:
        sandbox: sandbox that runs the program.
        program: program to audit.
        reference: same tests with the reference's code; None if there is none.
        limits: limits of each run.
        seed: seed that draws the alterations and the order of the runs.
        asks_other_inputs: if True, also test with other inputs, whose values come from the
            reference. This takes two more runs for each pass.

    Raises:
        SandboxUnavailable: the sandbox could not run the program. This says nothing about the
            answer.
    """
    match program:
        case RepositoryProgram():
            typed_reference = reference if isinstance(reference, RepositoryProgram) else None
            return audit_nodes(sandbox, program, typed_reference, limits, seed)
        case JavaProgram():
            typed_reference = reference if isinstance(reference, JavaProgram) else None
            return audit_compiled(sandbox, program, typed_reference, limits, seed)
        case JavaScriptProgram():
            typed_reference = reference if isinstance(reference, JavaScriptProgram) else None
            return audit_compiled(sandbox, program, typed_reference, limits, seed)
        case _:
            typed_reference = (
                None
                if isinstance(reference, RepositoryProgram | JavaProgram | JavaScriptProgram)
                else reference
            )
            return audit_python(
                Trial(sandbox, limits),
                program,
                typed_reference,
                seed,
                asks_other_inputs=asks_other_inputs,
            )
