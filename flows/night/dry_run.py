"""Estimates the work and cost of a run before anything is started."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from schemas.dialog import HistoryPolicy, Role
from schemas.display import plain_line
from schemas.run import Provider
from tasks.language.endpoint_key import key_variable
from tasks.planning.plan import RunPlan, plan_run
from tasks.planning.request import EvaluationRequest, ModelRequest
from tasks.storage.home import Home
from tasks.storage.journal import Unfinished, read_journal
from tasks.storage.owed import WantedEpisode

CHARACTERS_PER_TOKEN = 4
TOKENS_PER_ANSWER = 300
"""Assumptions of the estimate, printed beside it."""


@dataclass(frozen=True)
class Calls:
    """Requests to one model with their tokens."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: "Calls") -> "Calls":
        return Calls(self.calls + other.calls, self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens)


@dataclass(frozen=True)
class Estimate:
    """`calls` are the subject's, tokens too; `usd` is for all models together, None where no price of one is known."""

    run_id: str
    benchmark: str
    model: str
    episodes: int
    owed: int
    calls: int
    input_tokens: int
    output_tokens: int
    simulator_calls: int
    simulator_input_tokens: int
    simulator_output_tokens: int
    at_most: bool
    """Dialogues may end before their last round: calls, tokens and cost are upper bounds then."""
    usd: float | None
    keys_not_set: tuple[tuple[str, str], ...]
    """(variable, model) of each key that the owed episodes need and the environment lacks."""


def estimate(plan: RunPlan) -> Estimate:
    """Count the owed requests, without answers that the journal already holds."""
    owed = plan.owed()
    journal = read_journal(plan.home.journal(plan.run_id), [w.episode_id for w in owed])
    subject = simulator = Calls()
    for episode in owed:
        begun = journal.get(episode.episode_id)
        subject += _subject_calls(plan, episode, begun)
        simulator += _simulator_calls(plan, episode, begun)
    costs = [_usd(plan.request.model, subject)]
    if plan.request.simulator is not None and plan.spec.simulator is not None:
        costs.append(_usd(plan.request.simulator, simulator))
    known = [cost for cost in costs if cost is not None]
    return Estimate(
        run_id=plan.run_id,
        benchmark=plan.spec.full_setting,
        model=plan.spec.subject.label,
        episodes=len(plan.wanted),
        owed=len(owed),
        **asdict(subject),
        simulator_calls=simulator.calls,
        simulator_input_tokens=simulator.input_tokens,
        simulator_output_tokens=simulator.output_tokens,
        at_most=not plan.has_exact_rounds,
        usd=sum(known) if len(known) == len(costs) else None,
        keys_not_set=_keys_not_set(plan) if owed else (),
    )


def _keys_not_set(plan: RunPlan) -> tuple[tuple[str, str], ...]:
    models = ((plan.spec.subject, plan.subject), (plan.spec.simulator, plan.simulator))
    needed = {
        (key_variable(endpoint), identity.label): None
        for identity, endpoint in models
        if identity is not None and endpoint is not None and identity.provider is Provider.OPENAI
    }
    return tuple((name, model) for name, model in needed if name is not None and not os.environ.get(name, "").strip())


def _usd(asked: ModelRequest, calls: Calls) -> float | None:
    if asked.usd_per_million_input is None or asked.usd_per_million_output is None:
        return None
    return (calls.input_tokens * asked.usd_per_million_input + calls.output_tokens * asked.usd_per_million_output) / 1e6


def _rounds(plan: RunPlan, episode: WantedEpisode) -> int:
    return plan.due(episode.dialog).rounds


def _said(begun: Unfinished | None, role: Role) -> int:
    return sum(step.role is role for step in begun.steps) if begun else 0


def _subject_calls(plan: RunPlan, episode: WantedEpisode, begun: Unfinished | None) -> Calls:
    """One call for each round without an answer. The setting says how much of the past it is shown."""
    keeps_all = plan.benchmark.setting(plan.spec.setting).history is not HistoryPolicy.LAST_CODE_AND_FEEDBACK
    scripted = {turn.turn: _tokens(turn.content or "") for turn in episode.dialog.turns if turn.role is Role.USER}
    answered, history, due, each = _said(begun, Role.ASSISTANT), 0, Calls(), _answer_tokens(plan)
    for turn in range(1, _rounds(plan, episode) + 1):
        new = scripted.get(turn, _reply_tokens(plan, episode, holds_all=not keeps_all))
        if turn > answered:
            due += Calls(1, history + new, each)
        if keeps_all:
            history += new + each
    return due


def _answer_tokens(plan: RunPlan) -> int:
    """Tokens of an answer of subject or simulator: `max_tokens` bounds both."""
    return min(TOKENS_PER_ANSWER, plan.spec.sampling.max_tokens or TOKENS_PER_ANSWER)


def _reply_tokens(plan: RunPlan, episode: WantedEpisode, *, holds_all: bool) -> int:
    """Tokens of a reply to the subject: feedback; problem and last code too, where the reply is all that the subject sees."""
    if not holds_all:
        return TOKENS_PER_ANSWER
    first = next(turn.content or "" for turn in episode.dialog.turns if turn.role is Role.USER)
    return _tokens(first) + _answer_tokens(plan) + TOKENS_PER_ANSWER


def _simulator_calls(plan: RunPlan, episode: WantedEpisode, begun: Unfinished | None) -> Calls:
    """One call for each round, from the second on, that is not begun yet."""
    setting = plan.benchmark.setting(plan.spec.setting)
    if not setting.needs_simulator:
        return Calls()
    opened = max(1, _said(begun, Role.USER))
    due = max(0, _rounds(plan, episode) - opened)
    told = sum(_tokens(setting.prompts[name]) for name in setting.simulator_prompts)
    problem = plan.problems[episode.dialog.problem_id]
    each = _answer_tokens(plan)
    shown = _tokens(problem.prompt) + _tokens(problem.reference_code) + each + TOKENS_PER_ANSWER
    return Calls(due, due * (told + shown), due * each)


def _tokens(text: str) -> int:
    return len(text) // CHARACTERS_PER_TOKEN


def show_dry_run(home: Home, requests: Sequence[EvaluationRequest], *, json_output: bool) -> None:
    """Print an estimate for each request."""
    estimates = [estimate(plan_run(request, home)) for request in requests]
    if json_output:
        for one in estimates:
            print(json.dumps(asdict(one)))
        return
    from flows.text.results import print_rows

    columns = ("benchmark", "model", "episodes", "owed", "calls", "simulator calls", "input tokens", "output tokens", "USD")
    rows = [
        (
            e.benchmark,
            e.model,
            e.episodes,
            e.owed,
            e.calls,
            e.simulator_calls,
            e.input_tokens + e.simulator_input_tokens,
            e.output_tokens + e.simulator_output_tokens,
            "no price" if e.usd is None else f"{e.usd:.2f}",
        )
        for e in estimates
    ]
    print_rows("Dry run: nothing was started", columns, rows)
    if len(estimates) > 1:
        print(f"In all: {_in_all(estimates)}.")
    print(
        f"{_exactness(estimates)} Tokens assume {CHARACTERS_PER_TOKEN} characters a token and {TOKENS_PER_ANSWER}"
        " tokens an answer (or max_tokens, if less)."
    )
    models_of: dict[str, dict[str, None]] = {}
    for variable, model in (pair for one in estimates for pair in one.keys_not_set):
        models_of.setdefault(variable, {})[plain_line(model)] = None
    if models_of:
        print("not set: " + "; ".join(f"{variable} (key of {', '.join(models)})" for variable, models in models_of.items()))


def _in_all(estimates: Sequence[Estimate]) -> str:
    calls, spoken = sum(e.calls for e in estimates), sum(e.simulator_calls for e in estimates)
    priced = [e.usd for e in estimates if e.usd is not None]
    n_unpriced = len(estimates) - len(priced)
    unpriced = f", {n_unpriced} of {len(estimates)} runs without a price" if n_unpriced else ""
    return f"{calls} calls and {spoken} of simulators, {sum(priced):.2f} USD{unpriced}"


def _exactness(estimates: Sequence[Estimate]) -> str:
    if not any(e.at_most for e in estimates):
        return "Calls are exact unless one fails."
    return "Calls are exact unless one fails; where dialogues may end early, as if all went to their last round."
