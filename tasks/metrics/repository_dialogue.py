"""Dialogues in which an agent resolves a repository's issue (Dialogue-SWEBench, sections 3.4 and 6 to 8).

All are pure functions of one dialogue. Their means over dialogues are the paper's figures.
"""

from collections.abc import Iterable

from tasks.metrics.registry import metric


@metric("resolved", title="resolved")
def resolved(fail_to_pass: bool, pass_to_pass: bool) -> float:
    """Whether the patch makes all failing tests pass and keeps all others passing; an empty list counts as all.

    Returns:
        1.0 or 0.0.

    Source: Dialogue-SWEBench section 3.4; SWE-bench's FULL resolution.
    """
    return float(fail_to_pass and pass_to_pass)


@metric("dialogue_turns", title="turns", better=None)
def dialogue_turns(n_messages: int) -> float:
    """Messages that the agent sent to the user; what it says as it ends is none.

    Raises:
        ValueError: a negative number.

    Source: Table 1, # Turns.
    """
    return _count(n_messages)


@metric("agent_steps", title="steps", better=None)
def agent_steps(n_answers: int) -> float:
    """Answers of the model: tool calls, messages, and answers that could not be used.

    Raises:
        ValueError: a negative number.

    Source: Table 1, # Steps.
    """
    return _count(n_answers)


def _count(number: int) -> float:
    if number < 0:
        raise ValueError(f"{number} is no count")
    return float(number)


@metric("information_seeking", title="asks", better=None, judged=True)
def information_seeking(labels: Iterable[bool]) -> float:
    """Messages of the agent that ask for information about the problem.

    Source: section 6, Figure 4.
    """
    return float(sum(labels))


@metric("naturalness", title="natural", judged=True, ends=(1.0, 3.0))
def naturalness(rating: float) -> float:
    """A judge's rating: 1 hard to talk with, 2 with small faults, 3 clear and concise.

    Raises:
        ValueError: the rating is not 1, 2 or 3.

    Source: section 7.1.
    """
    if rating not in (1, 2, 3):
        raise ValueError(f"rating {rating!r}: naturalness is 1, 2 or 3")
    return float(rating)


@metric("coherence", title="coherent", judged=True, ends=(1.0, 3.0))
def coherence(is_local: bool, is_global: bool) -> float:
    """1 where neither criterion is met, 2 for one of them, 3 for both.

    Args:
        is_local: each message follows from what was said, on the matter and not again.
        is_global: all together steer towards the solution, details are asked for, and the dialogue is closed.

    Source: section 7.2.
    """
    return 1.0 + is_local + is_global


@metric("user_faithful", title="faithful", judged=True)
def user_faithful(n_met: int, n_judged: int) -> float:
    """Share of the simulated user's replies that keep to the issue's intent and knowledge.

    Raises:
        ValueError: none was judged, or more are met than judged.

    Source: section 8.2, faithfulness.
    """
    return _share(n_met, n_judged)


@metric("user_on_goal", title="on goal", judged=True)
def user_on_goal(n_met: int, n_judged: int) -> float:
    """Share of the simulated user's replies that pursue its goal.

    Raises:
        ValueError: as `user_faithful`.

    Source: section 8.2, goal adherence.
    """
    return _share(n_met, n_judged)


@metric("user_in_environment", title="in environment", judged=True)
def user_in_environment(n_met: int, n_judged: int) -> float:
    """Share of the simulated user's replies that claim no ability which a user does not have.

    Raises:
        ValueError: as `user_faithful`.

    Source: section 8.2, environment adherence.
    """
    return _share(n_met, n_judged)


@metric("user_without_fault", title="user sound", judged=True)
def user_without_fault(n_met: int, n_judged: int) -> float:
    """Share of the simulated user's replies that meet all three criteria.

    Raises:
        ValueError: as `user_faithful`.

    Source: section 8.2, column All of Table 4.
    """
    return _share(n_met, n_judged)


@metric("user_revised", title="revised", better="lower")
def user_revised(n_revised: int, n_said: int) -> float:
    """Share of the simulated user's replies that had to be revised before they were said, of those whose check could be read.

    Raises:
        ValueError: nothing was said, or more was revised than said.

    Source: section 3.3, self-revision: the simulator's error.
    """
    return _share(n_revised, n_said)


def _share(n: int, of: int) -> float:
    if not 0 <= n <= of or of == 0:
        raise ValueError(f"{n} of {of}: there must be one, and no more than there are")
    return n / of
