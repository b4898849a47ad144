"""Does a program pass its unit tests? The tests run elsewhere; this is what their outcome counts."""

from tasks.metrics.registry import metric


@metric("unit_tests", title="unit tests")
def unit_tests(n_passed: int, n_cases: int) -> float:
    """Share of the tests that the answer's program passes.

    Args:
        n_passed: 0 to `n_cases`.
        n_cases: 1 and up; tests that are one program are one case.

    Returns:
        In [0, 1].

    Raises:
        ValueError: there is no case, or more passed than there are.

    Source: ours, for UniDial-EvalKit's metrics of code (section 2.3), of which the toolkit has rules on names and style alone.
    """
    if n_cases < 1 or not 0 <= n_passed <= n_cases:
        raise ValueError(
            f"{n_passed} of {n_cases} tests passed: there must be one, and no more passed than there are"
        )
    return n_passed / n_cases
