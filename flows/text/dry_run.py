"""Shows what a night would ask and pay, as text or JSON."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from flows.night.preflight.dry_run import (
    CHARACTERS_PER_TOKEN,
    TOKENS_PER_ANSWER,
    Estimate,
    estimate,
)
from flows.night.preflight.earlier_usage import Origin
from flows.night.preflight.missing_packages import skipped_line
from flows.night.spending import require_prices
from flows.text.results import print_rows
from schemas.night.budget import Budget
from schemas.outside.display import plain_line
from tasks.planning.dataset import reading_once
from tasks.planning.plan import plan_run
from tasks.planning.request import EvaluationRequest
from tasks.storage.home import Home

_OF_SOME = ("simulator calls", "judge calls", "USD by the hour")
"""Columns that stand there where a run has any."""


def show_dry_run(
    home: Home,
    requests: Sequence[EvaluationRequest],
    budget: Budget | None = None,
    *,
    json_output: bool,
) -> None:
    """Print an estimate for each request.

    Raises:
        ConfigError: the budget needs a price that nobody stated.
    """
    with reading_once():
        require_prices((plan_run(request, home) for request in requests) if budget else (), budget)
        found = [
            (estimate(plan), plan.skipped)
            for plan in (plan_run(request, home) for request in requests)
        ]
    estimates = [one for one, _ in found]
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
        "USD by the hour",
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
            *usd_cells(e.usd, e.usd_hourly, e.hours_unknown),
        )
        for e in estimates
    ]
    shown = [
        at
        for at, column in enumerate(columns)
        if column not in _OF_SOME or any(row[at] for row in rows)
    ]
    print_rows(
        "Dry run: nothing was started",
        [columns[at] for at in shown],
        [[row[at] for at in shown] for row in rows],
    )
    if len(estimates) > 1:
        print(f"In all: {_in_all(estimates)}.")
    print(f"{_exactness(estimates)} {tokens_line(estimates)}")
    for line in (
        *hours_lines(estimates),
        *_audit_lines(estimates),
        *dict.fromkeys(skipped_line(skipped) for _, skipped in found if skipped),
    ):
        print(line)
    for command in dict.fromkeys(command for one in estimates for command in one.serves):
        print(f"starts: {plain_line(command, 2000)}")
    models_of: dict[str, dict[str, None]] = {}
    for variable, model in (pair for one in estimates for pair in one.keys_not_set):
        models_of.setdefault(variable, {})[plain_line(model)] = None
    if models_of:
        print(
            "not set: "
            + "; ".join(
                f"{variable} (key of {', '.join(models)})" for variable, models in models_of.items()
            )
        )


def usd_cells(
    usd: float | None, usd_hourly: float | None, hours_unknown: Sequence[str]
) -> tuple[str, str]:
    """Return an estimate's cost as text: that of tokens, and that of server hours, which is empty where no server has a price."""
    by_hour = "unknown" if hours_unknown else "" if usd_hourly is None else usd_text(usd_hourly)
    return "no price" if usd is None else usd_text(usd), by_hour


def usd_text(usd: float) -> str:
    """Return an amount to the cent, a smaller one with two digits: only nothing is shown as 0.00."""
    return f"{usd:.2f}" if usd == 0 or usd >= 0.01 else f"{usd:.2g}"


_ALIKE: Mapping[Origin, str] = {
    "model": "the same model and setting",
    "setting": "the same setting",
    "benchmark": "the same benchmark",
}


def tokens_line(estimates: Sequence[Estimate]) -> str:
    """Return a sentence about what the estimated tokens are made of."""
    counts = Counter(one.learned_from for one in estimates)
    learned = [
        f"{alike} ({n} of {len(estimates)} runs)"
        for origin, alike in _ALIKE.items()
        if (n := counts[origin])
    ]
    sentences = [f"Tokens are as in earlier dialogues of {', '.join(learned)}."] if learned else []
    if counts[None]:
        runs = f" of the other {counts[None]} runs" if learned else ""
        sentences.append(
            f"Tokens{runs} assume {CHARACTERS_PER_TOKEN} characters a token and {TOKENS_PER_ANSWER}"
            " tokens an answer (or max_tokens, if less)."
        )
    return " ".join(sentences)


def hours_lines(estimates: Sequence[Estimate]) -> Iterator[str]:
    """Yield a line about the models whose hours are unknown, if there are any."""
    if models := list(dict.fromkeys(model for one in estimates for model in one.hours_unknown)):
        shown = ", ".join(plain_line(model) for model in models)
        yield f"Hours of {shown} are unknown: no finished run of this benchmark tells how long its server is needed."


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
    of_judges = f", {judged} of judges" if judged else ""
    parts = [f"{calls} call{'' if calls == 1 else 's'} and {spoken} of simulators{of_judges}"]
    priced = [e.usd for e in estimates if e.usd is not None]
    hourly = [e.usd_hourly for e in estimates if e.usd_hourly is not None]
    n_unpriced = sum(
        e.usd is None and e.usd_hourly is None and not e.hours_unknown for e in estimates
    )
    n_unknown = sum(bool(e.hours_unknown) for e in estimates)
    parts += [f"{usd_text(sum(priced))} USD"] if priced else []
    parts += [f"{usd_text(sum(hourly))} USD by the hour"] if hourly else []
    parts += [f"{n_unpriced} of {len(estimates)} runs without a price"] if n_unpriced else []
    parts += [f"{n_unknown} of {len(estimates)} runs with unknown hours"] if n_unknown else []
    return ", ".join(parts)


def _exactness(estimates: Sequence[Estimate]) -> str:
    if not any(e.at_most for e in estimates):
        return "Calls are exact unless one fails."
    return (
        "Calls are exact unless one fails; where dialogues may end early, they are those of usual dialogues: as this home's"
        " episodes were, else as the benchmark states. A judge is counted for every round of what is not played yet."
    )
