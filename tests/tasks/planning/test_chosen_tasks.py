"""The fixed order of problems, which subsamples and decided runs share."""

from tasks.planning.dataset import problem_order

NAMES = tuple(f"p{i}" for i in range(60))


def test_the_order_depends_on_nothing_but_benchmark_seed_and_name() -> None:
    order = problem_order(NAMES, "codeif", 3)
    assert (sorted(order), order != NAMES) == (sorted(NAMES), True)
    assert problem_order(reversed(NAMES), "codeif", 3) == order
    assert problem_order(NAMES[::2], "codeif", 3) == tuple(
        name for name in order if name in NAMES[::2]
    )
    assert problem_order(NAMES, "codeif", 4) != order != problem_order(NAMES, "convcode", 3)
