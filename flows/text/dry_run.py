"""Shows what a night would ask and pay, as text or JSON."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from flows.night.before.dry_run import CHARACTERS_PER_TOKEN, TOKENS_PER_ANSWER, Estimate, estimate
from flows.night.spending import require_prices
from flows.text.results import print_rows
from schemas.night.budget import Budget
from schemas.outside.display import plain_line
from tasks.planning.dataset import reading_once
from tasks.planning.plan import plan_run
from tasks.planning.request import EvaluationRequest
from tasks.storage.home import Home

_OF_SOME = ("simulator calls", "judge calls")
"""Columns that stand there where a run has any."""


def show_dry_run(home: Home, requests: Sequence[EvaluationRequest], budget: Budget | None = None, *, json_output: bool) -> None:
    """Print an estimate for each request.

    Raises:
        ConfigError: the budget needs a price that nobody stated.
    """
    with reading_once():
        require_prices((plan_run(request, home) for request in requests) if budget else (), budget)
        estimates = [estimate(plan_run(request, home)) for request in requests]
    if json_output:
        for one in estimates:
            print(json.dumps(asdict(one)))
        return
    columns = (
        "benchmark",
        "model",
        "episodes",
        "owed",
        "calls",
        "simulator calls",
        "judge calls",
        "input tokens",
        "output tokens",
        "USD",
    )
    rows = [
        (
            e.benchmark,
            e.model,
            e.episodes,
            e.owed,
            e.calls,
            e.simulator_calls,
            e.judge_calls,
            e.input_tokens + e.simulator_input_tokens + e.judge_input_tokens,
            e.output_tokens + e.simulator_output_tokens + e.judge_output_tokens,
            "no price" if e.usd is None else f"{e.usd:.2f}",
        )
        for e in estimates
    ]
    shown = [at for at, column in enumerate(columns) if column not in _OF_SOME or any(row[at] for row in rows)]
    print_rows("Dry run: nothing was started", [columns[at] for at in shown], [[row[at] for at in shown] for row in rows])
    if len(estimates) > 1:
        print(f"In all: {_in_all(estimates)}.")
    print(
        f"{_exactness(estimates)} Tokens assume {CHARACTERS_PER_TOKEN} characters a token and {TOKENS_PER_ANSWER}"
        " tokens an answer (or max_tokens, if less)."
    )
    for line in _audit_lines(estimates):
        print(line)
    for command in dict.fromkeys(command for one in estimates for command in one.serves):
        print(f"starts: {plain_line(command, 2000)}")
    models_of: dict[str, dict[str, None]] = {}
    for variable, model in (pair for one in estimates for pair in one.keys_not_set):
        models_of.setdefault(variable, {})[plain_line(model)] = None
    if models_of:
        print("not set: " + "; ".join(f"{variable} (key of {', '.join(models)})" for variable, models in models_of.items()))


def _audit_lines(estimates: Sequence[Estimate]) -> Iterator[str]:
    """How many passes are audited, for each kind of run."""
    counts = Counter(one.audits_at_most for one in estimates if one.audits_at_most != 0)
    for n, n_runs in counts.items():
        passes = "every passed program" if n is None else f"at most {n} passed programs"
        runs = "the run" if n_runs == len(estimates) == 1 else f"{n_runs} of {len(estimates)} runs"
        yield f"Audit: {passes} of {runs}, each in one or more further sandbox runs (no model is asked)."


def _in_all(estimates: Sequence[Estimate]) -> str:
    calls, spoken = sum(e.calls for e in estimates), sum(e.simulator_calls for e in estimates)
    judged = sum(e.judge_calls for e in estimates)
    priced = [e.usd for e in estimates if e.usd is not None]
    n_unpriced = len(estimates) - len(priced)
    unpriced = f", {n_unpriced} of {len(estimates)} runs without a price" if n_unpriced else ""
    of_judges = f", {judged} of judges" if judged else ""
    return f"{calls} calls and {spoken} of simulators{of_judges}, {sum(priced):.2f} USD{unpriced}"


def _exactness(estimates: Sequence[Estimate]) -> str:
    if not any(e.at_most for e in estimates):
        return "Calls are exact unless one fails."
    return (
        "Calls are exact unless one fails; where dialogues may end early, as if all went to their last round,"
        " an agent's turns to their last request, and a judge were asked about every round of what is not played yet."
    )
