"""Score of a program by its unit tests. The sandbox runs the tests."""

from tasks.metrics.registry import metric, share


@metric("unit_tests", title="unit tests")
def unit_tests(n_passed: int, n_cases: int) -> float:
    """Return the share of the tests that the answer's program passes.

    Args:
        n_passed: 0 to `n_cases`.
        n_cases: 1 and up; tests that form one program are one case.

    Returns:
        In [0, 1].

    Raises:
        ValueError: `n_cases` is 0, or `n_passed` is larger.

    Source: ours, for UniDial-EvalKit's metrics of code (section 2.3). The toolkit itself checks
    only rules on names and style.
    """
    return share(n_passed, n_cases, "tests passed")
