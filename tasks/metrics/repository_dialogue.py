"""Dialogues in which an agent resolves a repository's issue (Dialogue-SWEBench).

The paper's sections 3.4 and 6 to 8 define the metrics.

Each metric is a pure function of one dialogue. The means over dialogues are the paper's figures.
"""

from collections.abc import Iterable

from tasks.metrics.registry import metric, share


@metric("resolved", title="resolved")
def resolved(fail_to_pass: bool, pass_to_pass: bool) -> float:
    """Return 1 if the patch fixes all failing tests and breaks no passing test, else 0.

    Args:
        fail_to_pass: True if all tests that must become passing pass, or there are none.
        pass_to_pass: True if all tests that must stay passing pass, or there are none.

    Returns:
        1.0 or 0.0.

    Source: Dialogue-SWEBench section 3.4; SWE-bench's FULL resolution.
    """
    return float(fail_to_pass and pass_to_pass)


@metric("dialogue_turns", title="turns", better=None)
def dialogue_turns(n_messages: int) -> float:
    """Return the number of messages from the agent to the user, without its final message.

    Raises:
        ValueError: the number is negative.

    Source: Table 1, # Turns.
    """
    return _count(n_messages)


@metric("agent_steps", title="steps", better=None)
def agent_steps(n_answers: int) -> float:
    """Return the number of the model's answers: tool calls, messages and unusable answers.

    Raises:
        ValueError: the number is negative.

    Source: Table 1, # Steps.
    """
    return _count(n_answers)


def _count(number: int) -> float:
    if number < 0:
        raise ValueError(f"{number} is negative: a count is 0 or more")
    return float(number)


@metric("information_seeking", title="asks", better=None, judged=True)
def information_seeking(labels: Iterable[bool]) -> float:
    """Return the number of the agent's messages that ask for information about the problem.

    Source: section 6, Figure 4.
    """
    return float(sum(labels))


@metric("naturalness", title="natural", judged=True, ends=(1.0, 3.0))
def naturalness(rating: float) -> float:
    """Return a judge's rating: 1 hard to talk with, 2 small faults, 3 clear and concise.

    Raises:
        ValueError: the rating is not 1, 2 or 3.

    Source: section 7.1.
    """
    if rating not in (1, 2, 3):
        raise ValueError(f"rating {rating!r}: naturalness is 1, 2 or 3")
    return float(rating)


@metric("coherence", title="coherent", judged=True, ends=(1.0, 3.0))
def coherence(is_local: bool, is_global: bool) -> float:
    """Return 1 if neither criterion of coherence is met, 2 for one of them, 3 for both.

    Args:
        is_local: each message follows from the earlier ones, is relevant and repeats nothing.
        is_global: the messages together lead to the solution, ask for details, and close the
            dialogue.

    Source: section 7.2.
    """
    return 1.0 + is_local + is_global


@metric("user_faithful", title="faithful", judged=True)
def user_faithful(n_met: int, n_judged: int) -> float:
    """Return the share of the simulated user's replies that are faithful to the issue.

    A faithful reply adheres to the issue's intent and knowledge.

    Raises:
        ValueError: `n_judged` is 0, or `n_met` is larger.

    Source: section 8.2, faithfulness.
    """
    return share(n_met, n_judged, "replies")


@metric("user_on_goal", title="on goal", judged=True)
def user_on_goal(n_met: int, n_judged: int) -> float:
    """Return the share of the simulated user's replies that pursue its goal.

    Raises:
        ValueError: `n_judged` is 0, or `n_met` is larger.

    Source: section 8.2, goal adherence.
    """
    return share(n_met, n_judged, "replies")


@metric("user_in_environment", title="in environment", judged=True)
def user_in_environment(n_met: int, n_judged: int) -> float:
    """Return the share of the simulated user's replies that claim no ability a user lacks.

    Raises:
        ValueError: `n_judged` is 0, or `n_met` is larger.

    Source: section 8.2, environment adherence.
    """
    return share(n_met, n_judged, "replies")


@metric("user_without_fault", title="user sound", judged=True)
def user_without_fault(n_met: int, n_judged: int) -> float:
    """Return the share of the simulated user's replies that meet all three criteria.

    Raises:
        ValueError: `n_judged` is 0, or `n_met` is larger.

    Source: section 8.2, column All of Table 4.
    """
    return share(n_met, n_judged, "replies")


@metric("user_revised", title="revised", better="lower")
def user_revised(n_revised: int, n_checked: int) -> float:
    """Return the share of the simulated user's replies that needed a revision before delivery.

    Args:
        n_revised: revised replies, 0 to `n_checked`.
        n_checked: replies whose check could be read, 1 and up.

    Raises:
        ValueError: `n_checked` is 0, or `n_revised` is larger.

    Source: section 3.3, self-revision: the simulator's error.
    """
    return share(n_revised, n_checked, "replies")
