"""What a run would do and cost, said before anything is started."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from schemas.dialog import Role
from tasks.planning.plan import RunPlan, plan_run
from tasks.planning.request import EvaluationRequest
from tasks.storage.home import Home
from tasks.storage.journal import Unfinished, read_journal
from tasks.storage.owed import WantedEpisode

CHARACTERS_PER_TOKEN = 4
TOKENS_PER_ANSWER = 300
"""Assumptions of the estimate, said beside it."""


@dataclass(frozen=True)
class Estimate:
    """`calls` is exact where nothing fails; tokens and cost are rough. `usd` is None where no price is known."""

    run_id: str
    benchmark: str
    model: str
    episodes: int
    owed: int
    calls: int
    input_tokens: int
    output_tokens: int
    usd: float | None


def estimate(plan: RunPlan) -> Estimate:
    """Count what is owed, less what the journal already holds."""
    owed = plan.owed()
    journal = read_journal(plan.home.journal(plan.run_id), [w.episode_id for w in owed])
    calls = tokens_in = 0
    for episode in owed:
        n_calls, n_tokens = _remaining(episode, journal.get(episode.episode_id))
        calls, tokens_in = calls + n_calls, tokens_in + n_tokens
    tokens_out = calls * min(TOKENS_PER_ANSWER, plan.spec.sampling.max_tokens or TOKENS_PER_ANSWER)
    asked = plan.request.model
    usd = None
    if asked.usd_per_million_input is not None and asked.usd_per_million_output is not None:
        usd = (tokens_in * asked.usd_per_million_input + tokens_out * asked.usd_per_million_output) / 1e6
    return Estimate(
        plan.run_id,
        plan.spec.full_setting,
        plan.spec.subject.label,
        len(plan.wanted),
        len(owed),
        calls,
        tokens_in,
        tokens_out,
        usd,
    )


def _remaining(episode: WantedEpisode, begun: Unfinished | None) -> tuple[int, int]:
    answered = sum(step.role is Role.ASSISTANT for step in begun.steps) if begun else 0
    calls = tokens = history = 0
    for turn in (t for t in episode.dialog.turns if t.role is Role.USER):
        history += len(turn.content or "") // CHARACTERS_PER_TOKEN
        if turn.turn > answered:
            calls, tokens = calls + 1, tokens + history
        history += TOKENS_PER_ANSWER
    return calls, tokens


def show_dry_run(home: Home, requests: Sequence[EvaluationRequest], *, json_output: bool) -> None:
    """Print an estimate for each request."""
    estimates = [estimate(plan_run(request, home)) for request in requests]
    if json_output:
        for one in estimates:
            print(json.dumps(asdict(one)))
        return
    from flows.result_table import print_rows

    columns = ("benchmark", "model", "episodes", "owed", "calls", "input tokens", "output tokens", "USD")
    rows = [
        (
            e.benchmark,
            e.model,
            e.episodes,
            e.owed,
            e.calls,
            e.input_tokens,
            e.output_tokens,
            "no price" if e.usd is None else f"{e.usd:.2f}",
        )
        for e in estimates
    ]
    print_rows("Dry run: nothing was started", columns, rows)
    print(
        f"Calls are exact unless one fails. Tokens assume {CHARACTERS_PER_TOKEN} characters a token and {TOKENS_PER_ANSWER}"
        " tokens an answer (or max_tokens, if less)."
    )
