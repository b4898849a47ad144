"""Output of `--dry-run`: calls and cost of a night, as text or JSON."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict

import pyarrow as pa

from flows.night.invocation import check_night
from flows.night.preflight.assumed_requests import CHARACTERS_PER_TOKEN, TOKENS_PER_ANSWER
from flows.night.preflight.checks import check_machine
from flows.night.preflight.dry_run import Estimate, estimate
from flows.night.preflight.earlier_usage import Origin
from flows.text.records import print_rows
from schemas.errors import ParleyError, RunsFailed
from schemas.night.budget import Budget
from schemas.outside.display import plain_line
from tasks.planning.dataset import files_lines
from tasks.planning.plan import RunPlan, plan_night
from tasks.planning.request import EvaluationRequest
from tasks.storage.home import Home

_COLUMNS: Mapping[str, Callable[[Estimate], object]] = {
    "benchmark": lambda e: e.benchmark,
    "model": lambda e: e.model,
    "episodes": lambda e: e.episodes,
    "pending": lambda e: e.pending,
    "calls": lambda e: e.calls,
    "simulator calls": lambda e: e.simulator_calls,
    "judge calls": lambda e: e.judge_calls,
    "input tokens": lambda e: e.input_tokens + e.simulator_input_tokens + e.judge_input_tokens,
    "output tokens": lambda e: e.output_tokens + e.simulator_output_tokens + e.judge_output_tokens,
    "USD": lambda e: "no price" if e.usd is None else usd_text(e.usd),
    "USD by the hour": lambda e: (
        "unknown" if e.hours_unknown else "" if e.usd_hourly is None else usd_text(e.usd_hourly)
    ),
}
"""Heading of each column, and the function that returns its cell."""
_OPTIONAL = ("simulator calls", "judge calls", "USD by the hour")
"""Columns that are printed only if a run has a value."""


def show_dry_run(
    home: Home,
    requests: Sequence[EvaluationRequest],
    budget: Budget | None = None,
    *,
    telemetry: str | None = None,
    json_output: bool,
) -> list[RunPlan]:
    """Print an estimate for each request, and return the plans.

    Episodes that several runs share are counted once.

    Raises:
        ConfigError: see `check_night`.
        ParleyError: this machine lacks something that a run needs. The estimates are printed.
    """
    plans = plan_night(requests, home)
    unfinished = [plan for plan in plans if not plan.is_finished()]
    if unfinished:
        check_night(home, plans, budget, telemetry)
    estimates, counted = list[Estimate](), pa.chunked_array([], pa.string())
    for plan in plans:
        estimates.append(estimate(plan, counted))
        counted = pa.chunked_array([*counted.chunks, *plan.wanted.ids.chunks])
    _print_estimates(plans, estimates, json_output=json_output)
    faults = dict[str, ParleyError]()
    for plan in unfinished:
        try:
            check_machine(plan)
        except ParleyError as error:
            faults[plan.request.title] = error
    if len(plans) == len(faults) == 1:
        raise next(iter(faults.values()))
    if faults:
        raise RunsFailed("; ".join(f"{run} would fail: {error}" for run, error in faults.items()))
    return plans


def _print_estimates(
    plans: Sequence[RunPlan], estimates: Sequence[Estimate], *, json_output: bool
) -> None:
    if json_output:
        for plan_estimate in estimates:
            fields = asdict(plan_estimate)
            fields["owed"] = fields.pop("pending")  # the key that scripts read
            print(json.dumps(fields))
        return
    columns = {
        name: cell
        for name, cell in _COLUMNS.items()
        if name not in _OPTIONAL or any(map(cell, estimates))
    }
    rows = [[cell(each) for cell in columns.values()] for each in estimates]
    print_rows("Dry run: nothing was started", list(columns), rows)
    if len(estimates) > 1:
        print(f"Total: {_total(estimates)}.")
    print(f"{_exactness(estimates)} {tokens_line(estimates)}")
    for line in (
        *hours_lines(estimates),
        *_audit_lines(estimates),
        *files_lines((p.benchmark.name, p.staged) for p in plans if p.request.benchmark.data),
        *dict.fromkeys(plan.skipped.skipped_line for plan in plans if plan.skipped),
    ):
        print(line)
    for command in dict.fromkeys(command for each in estimates for command in each.serves):
        print(f"would start: {plain_line(command, 2000)}")
    _print_missing_keys(estimates)


def _print_missing_keys(estimates: Sequence[Estimate]) -> None:
    models_of: dict[str, dict[str, None]] = {}
    for variable, model in (pair for each in estimates for pair in each.keys_not_set):
        models_of.setdefault(variable, {})[plain_line(model)] = None
    if models_of:
        keys = (f"{variable} (for {', '.join(models)})" for variable, models in models_of.items())
        print(f"API keys not set: {'; '.join(keys)}")


def usd_text(usd: float) -> str:
    """Return an amount rounded to cents, or to two significant digits if it is below one cent."""
    return f"{usd:.2f}" if usd == 0 or usd >= 0.01 else f"{usd:.2g}"


_ORIGINS: Mapping[Origin, str] = {
    "model": "the same model and setting",
    "setting": "the same setting",
    "benchmark": "the same benchmark",
}


def tokens_line(estimates: Sequence[Estimate]) -> str:
    """Return a sentence about the source of the token estimates."""
    counts = Counter(each.learned_from for each in estimates)
    origins = [
        f"{origin_text} ({n} of {len(estimates)} runs)"
        for origin, origin_text in _ORIGINS.items()
        if (n := counts[origin])
    ]
    sentences = (
        [f"Token estimates come from earlier dialogues of {', '.join(origins)}."] if origins else []
    )
    if counts[None]:
        runs = f" of the other {counts[None]} runs" if origins else ""
        sentences.append(
            f"Token estimates{runs} assume {CHARACTERS_PER_TOKEN} characters per token and"
            f" {TOKENS_PER_ANSWER} tokens per answer (or max_tokens, if less)."
        )
    return " ".join(sentences)


def hours_lines(estimates: Sequence[Estimate]) -> Iterator[str]:
    """Yield a line that names the models with unknown server hours, if there are any."""
    unknown = dict.fromkeys(model for each in estimates for model in each.hours_unknown)
    if unknown:
        names = ", ".join(plain_line(model) for model in unknown)
        yield f"Server hours of {names} are unknown, because no run of this benchmark is finished."


def _audit_lines(estimates: Sequence[Estimate]) -> Iterator[str]:
    """Yield a line about the audited passes for each group of runs with the same number of them."""
    counts = Counter(each.audits_at_most for each in estimates if each.audits_at_most != 0)
    for n, n_runs in counts.items():
        passes = "every passed program" if n is None else f"at most {n} passed programs"
        runs = "the run" if n_runs == len(estimates) == 1 else f"{n_runs} of {len(estimates)} runs"
        yield (
            f"Audit: {passes} of {runs}. Each audit takes one or more sandbox runs and no model"
            " calls."
        )


def _total(estimates: Sequence[Estimate]) -> str:
    calls = sum(e.calls for e in estimates)
    roles = {
        "simulator": sum(e.simulator_calls for e in estimates),
        "judge": sum(e.judge_calls for e in estimates),
    }
    parts = [f"{calls} call{'' if calls == 1 else 's'}"]
    parts += [f"{n} {role} call{'' if n == 1 else 's'}" for role, n in roles.items() if n]
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
    exact = "The number of calls is exact unless a call fails."
    if not any(e.at_most for e in estimates):
        return exact
    return (
        f"{exact} Dialogues that can end early are estimated: from earlier episodes in this home,"
        " or else from the benchmark's description. Judge calls assume that every round is played."
    )
