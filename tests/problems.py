"""A problem of one instruction, for tests that say only what matters to them."""

from schemas.problem import BASE_INSTRUCTION, Instruction, Problem, SuiteKind, TestSuite


def simple_problem(
    name: str,
    prompt: str = "Write f.",
    tests: str = "assert f()",
    kind: SuiteKind = "statements",
    **fields: object,
) -> Problem:
    """Fields beyond these are `Problem`'s own; the others have a value that nothing depends on."""
    asked = Instruction(
        instruction_id=BASE_INSTRUCTION, text=prompt, suite=TestSuite(tests=(tests,), kind=kind)
    )
    others = {
        "benchmark": "b",
        "dataset_version": "sample",
        "level": "all",
        "reference_code": "",
        "source_file": "f",
        "source_line": 1,
        "row_digest": f"digest of {name}",
    }
    return Problem.model_validate(
        {"problem_id": name, "prompt": prompt, "instructions": (asked,), **others, **fields}
    )
