"""Dialogues with a user about code: Dialogue-SWEBench (sections 3.4, 6 to 8) and Talk2Code.

Each metric is a pure function of one dialogue. The means over dialogues are the papers' figures.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from tasks.metrics.registry import Metric, metric, share


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


@metric("dialogue_turns", title="turns", better=None, ends=(0.0, math.inf))
def dialogue_turns(n_messages: int) -> float:
    """Return the number of messages from the agent to the user, without its final message.

    Raises:
        ValueError: the number is negative.

    Source: Table 1, # Turns.
    """
    return _count(n_messages)


@metric("agent_steps", title="steps", better=None, ends=(0.0, math.inf))
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


@metric("information_seeking", title="asks", better=None, judged=True, ends=(0.0, math.inf))
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


def _of_replies(name: str, title: str, what: str, source: str) -> Metric[[int, int], float]:
    def of_replies(n_met: int, n_judged: int) -> float:
        return share(n_met, n_judged, "replies")

    of_replies.__doc__ = f"""Return the share of the simulated user's replies that {what}.

    Raises:
        ValueError: `n_judged` is 0, or `n_met` is larger.

    Source: section 8.2, {source}.
    """
    return metric(name, title=title, judged=True)(of_replies)


user_faithful = _of_replies(
    "user_faithful", "faithful", "are faithful to the issue", "faithfulness"
)
"""A faithful reply adheres to the issue's intent and knowledge."""
user_on_goal = _of_replies("user_on_goal", "on goal", "pursue its goal", "goal adherence")
user_in_environment = _of_replies(
    "user_in_environment",
    "in environment",
    "claim no ability a user lacks",
    "environment adherence",
)
user_without_fault = _of_replies(
    "user_without_fault", "user sound", "meet all three criteria", "column All of Table 4"
)


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


LOWEST, HIGHEST = 1.0, 5.0


@metric("test_case_pass_rate", title="TP")
def pass_rate(n_passed: int, n_cases: int) -> float:
    """Return the share of the test cases that the delivered program passes.

    Args:
        n_passed: 0 to `n_cases`.
        n_cases: 1 and up.

    Returns:
        Ratio in [0, 1].

    Raises:
        ValueError: `n_cases` is 0, or `n_passed` is larger.

    Source: Talk2Code eq. 1, for one dialogue; the table's value is the mean over dialogues.
    """
    return share(n_passed, n_cases, "test cases passed")


@metric("success_rate", title="SR")
def success_rate(n_passed: int, n_cases: int) -> float:
    """Return 1 if the delivered program passes all test cases, else 0.

    Args:
        n_passed: 0 to `n_cases`.
        n_cases: 1 and up.

    Returns:
        1.0 or 0.0.

    Raises:
        ValueError: `n_cases` is 0, or `n_passed` is larger.

    Source: Talk2Code eq. 2, the label s_i.
    """
    return float(pass_rate(n_passed, n_cases) == 1)


def _rating(name: str, title: str) -> Metric[[float], float]:
    @metric(name, title=title, judged=True, ends=(LOWEST, HIGHEST))
    def rating(value: float) -> float:
        """Return a judge's rating of one dimension of the dialogue, 1 (very poor) to 5 (excellent).

        Raises:
            ValueError: the rating is outside 1 to 5.

        Source: Talk2Code, Evaluation Metrics Design, subjective evaluation.
        """
        if not LOWEST <= value <= HIGHEST:
            raise ValueError(f"rating {value!r}: a dimension is rated from 1 to 5")
        return value

    return rating


RATINGS: Mapping[str, Metric[[float], float]] = MappingProxyType(
    {
        "QD": _rating("question_design", "QD"),
        "CL": _rating("cognitive_load", "CL"),
        "IF": _rating("interaction_fluency", "IF"),
        "UA": _rating("user_adaptability", "UA"),
        "CE": _rating("communication_efficiency", "CE"),
        "LS": _rating("learning_support", "LS"),
    }
)
"""Dimension of the rubric -> its metric. 5 is always best; for CL, 5 is a light cognitive load."""


@metric("interaction_experience", title="Avg", judged=True, ends=(LOWEST, HIGHEST))
def interaction_experience(ratings: Sequence[float]) -> float:
    """Return the mean rating over the six dimensions of one dialogue.

    Args:
        ratings: one for each dimension, each in [1, 5].

    Returns:
        Mean in [1, 5].

    Raises:
        ValueError: the number of ratings is not six.

    Source: Talk2Code Table 1, column Avg.
    """
    if len(ratings) != len(RATINGS):
        raise ValueError(f"{len(ratings)} ratings: the mean needs one for each of six dimensions")
    return sum(ratings) / len(ratings)


@metric("delivery_rate", title="delivered")
def delivery_rate(delivered: bool) -> float:
    """Return 1 if the model delivered a program within its replies, else 0.

    Returns:
        1.0 or 0.0.

    Source: Talk2Code, Settings: each model must complete the interaction within 10 turns.
    """
    return float(delivered)


@metric("user_leakage", title="user leaks", better=None)
def user_leakage(n_leaks: int, n_wordings: int) -> float:
    """Return the share of the simulated user's drafts that contained the program.

    Such a draft is rejected and never reaches the model.

    Args:
        n_leaks: 0 to `n_wordings`.
        n_wordings: drafts that the simulator wrote, repetitions included; 1 and up.

    Returns:
        Ratio in [0, 1].

    Raises:
        ValueError: `n_wordings` is 0, or `n_leaks` is larger.

    Source: ours. The paper's simulator knows the reference answer, and the paper does not report
    how much of the answer it reveals.
    """
    return share(n_leaks, n_wordings, "wordings of a message leak")


@metric("reference_disclosure", version=2, title="disclosed", better=None)
def reference_disclosure(share: float) -> float:
    """Return the share of the reference's body that all messages of the simulated user contain.

    Args:
        share: share of the body's tokens; all names count as equal.

    Returns:
        Ratio in [0, 1].

    Raises:
        ValueError: `share` is outside 0 to 1.

    Source: ours. The paper's simulator knows the reference answer, and the paper does not report
    how much of the answer it reveals.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"{share!r} of the reference is disclosed: a share lies between 0 and 1")
    return share


@metric("level_kept", title="level kept", better=None, judged=True)
def level_kept(judged_level: str, level: str) -> float:
    """Return 1 if a judge assigns the simulated user's messages to the persona's level, else 0.

    The judge reads only the user's messages.

    Args:
        judged_level: the level that the judge named.
        level: the persona's level.

    Returns:
        1.0 or 0.0.

    Source: ours. The paper assigns personas to its simulator and reports no check of them.
    """
    return float(judged_level == level)
