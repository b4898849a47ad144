"""Participants: an agent in a workspace or a model that answers with a patch, and the user."""

from tasks.benchmarks.dialogue_swebench.issue_user import IssueUser
from tasks.benchmarks.dialogue_swebench.settings import FIRST_QUERY, PROMPTS, SETTINGS, revises
from tasks.benchmarks.dialogue_swebench.stage import PERSONA_TEXT
from tasks.benchmarks.setting import CastRequest, own_texts
from tasks.dialogue.engine import Cast

MOST_ROUNDS, MOST_STEPS = 101, 2000
"""Limits of rounds and steps, which the agents' own limit of 100 steps never reaches."""


def cast(request: CastRequest) -> Cast:
    """Return the participants of a setting.

    Only the user sees the issue. Neither participant sees the tests or the reference patch.

    Raises:
        ConfigError: The setting needs a simulator for the agent, and there is none.
    """
    is_alone = request.setting == FIRST_QUERY
    model = request.simulator if request.make_subject is None or is_alone else request.user_model
    user = IssueUser(
        opening=own_texts(request.dialog, request.options)[0],
        persona=dict(request.dialog.labels)[PERSONA_TEXT],
        model=None if is_alone else model,
        prompts=PROMPTS,
        sampling=SETTINGS[request.setting].simulated(request.simulator_sampling, request.sampling),
        revises=revises(request.setting),
        unavailable=PROMPTS["unavailable"] if is_alone else None,
        ends_with_diff=request.make_subject is None,
    )
    return Cast(
        subject=request.subject_participant(),
        counterpart=user,
        max_turns=MOST_ROUNDS,
        max_steps=MOST_STEPS,
    )
