"""Estimates the work and cost of a run before anything is started."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

from flows.night.preflight.earlier_usage import Calls, Origin, Usage, judge_usage, measured_by_plan
from flows.night.preflight.estimated_cost import Asked, estimated_costs, unknown_hours
from flows.night.preflight.memory_builds import known_talks, talk_calls, turns_to_build
from flows.night.spending import sends_nothing
from schemas.audit import AUDIT_SAMPLE
from schemas.dialog import HistoryPolicy, Role
from schemas.episode import Step, StepKind
from schemas.night.cost import sum_usd, sum_usd_hourly
from schemas.run import Sampling
from tasks.dialogue.agents import registry as agents
from tasks.dialogue.agents.repository.agents import STEPS
from tasks.judging.rubric import Rubric
from tasks.language.chat_model import Message
from tasks.language.endpoints.extra_headers import secret_variables
from tasks.language.providers import registry
from tasks.language.providers.contract import ServeRequest
from tasks.planning.plan import RunPlan
from tasks.storage.journaling.journal import Unfinished, read_journal
from tasks.storage.wanted import WantedEpisode

CHARACTERS_PER_TOKEN = 4
TOKENS_PER_ANSWER = 300
TOKENS_PER_OBSERVATION = 400
"""Assumptions of the estimate, printed beside it. An observation is what a tool adds to an agent's next request."""


@dataclass(frozen=True)
class Estimate:
    """`calls` are the subject's, tokens too; `usd` and `usd_hourly` are of all models together (`schemas.night.cost`)."""

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
    judge_calls: int
    """Judgements on kept dialogues that are not known; one a round, or one a dialogue, on those that are owed; cases of drift."""
    judge_input_tokens: int
    """As if a judge were shown its rubric and the dialogue, up to the turn that it judges, without a shared context."""
    judge_output_tokens: int
    audits_at_most: int | None
    """Passes to audit: none where the setting runs no programs or `audit` is `none`; None for every pass."""
    at_most: bool
    """Dialogues, or an agent's turns, may end early, rubrics may leave rounds out, and dialogues may say the same to a judge:
    calls, tokens and cost are those of usual dialogues then (`usual`), and not exact."""
    usd: float | None
    """Cost of tokens; None where a price is unknown, and where all models cost by the hour alone."""
    usd_hourly: float | None
    """Cost of model servers; None where the hours of one are unknown, and where no server has a price."""
    hours_unknown: tuple[str, ...]
    """Models that cost by the hour, of which no earlier run tells how long their servers stand ready."""
    learned_from: Origin | None
    """What the earlier runs whose dialogues are the measure have in common with this run; None where tokens are assumed."""
    serves: tuple[str, ...]
    """The commands that it would start to serve its models by vLLM, one a replica; PORT stands for a free one."""
    keys_not_set: tuple[tuple[str, str], ...]
    """(variable, model) of each key that the owed episodes and judgements need and the environment lacks."""


def estimate(plan: RunPlan) -> Estimate:
    """Count the owed requests, without answers that the journal already holds."""
    owed = plan.owed()
    journal = read_journal(plan.home.journal(plan.run_id), owed.ids.to_pylist())
    subject = simulator = Calls()
    talks = turns_to_build(plan, owed, known_talks(plan))
    for episode in owed:
        begun = journal.get(episode.episode_id)
        subject += _subject_calls(plan, episode, begun, talks)
        simulator += _simulator_calls(plan, episode, begun)
    judged, n_judged = _judge_calls(plan, owed)
    judge = sum(judged.values(), Calls())
    costs = [
        *estimated_costs(plan, _players(plan, subject, simulator), len(owed)),
        *estimated_costs(
            plan, (_judge(plan, rubric, calls) for rubric, calls in judged.items()), n_judged
        ),
    ]
    measured = measured_by_plan(plan)
    return Estimate(
        run_id=plan.run_id,
        benchmark=plan.spec.full_setting,
        model=plan.spec.label,
        episodes=len(plan.wanted),
        owed=len(owed),
        calls=subject.calls,
        input_tokens=round(subject.input_tokens),
        output_tokens=round(subject.output_tokens),
        simulator_calls=simulator.calls,
        simulator_input_tokens=round(simulator.input_tokens),
        simulator_output_tokens=round(simulator.output_tokens),
        judge_calls=judge.calls,
        judge_input_tokens=round(judge.input_tokens),
        judge_output_tokens=round(judge.output_tokens),
        audits_at_most=_audits_at_most(plan),
        at_most=not plan.has_exact_rounds or plan.spec.agent is not None or judge.calls > 0,
        usd=sum_usd(cost for _, cost in costs),
        usd_hourly=sum_usd_hourly(cost for _, cost in costs),
        hours_unknown=unknown_hours(costs),
        learned_from=measured.origin if measured else None,
        serves=_serves(plan, of_players=bool(owed), of_judges=judged.keys()),
        keys_not_set=_keys_not_set(plan, of_players=bool(owed), of_judges=judged.keys()),
    )


def _audits_at_most(plan: RunPlan) -> int | None:
    if not plan.audits:
        return 0
    return AUDIT_SAMPLE if plan.spec.audit == "sample" else None


def whole_calls(plan: RunPlan, episode: WantedEpisode, talks: Mapping[str, int]) -> Iterator[Asked]:
    """Yield the requests of an episode to each model, as if nothing of it were kept.

    Args:
        talks: `turns_to_build` of all episodes.
    """
    yield from _players(
        plan, _subject_calls(plan, episode, None, talks), _simulator_calls(plan, episode, None)
    )
    for rubric in plan.benchmark.rubrics(plan.spec.setting):
        yield _judge(plan, rubric.name, _judgements_to_come(plan, rubric, episode))


def drift_calls(plan: RunPlan) -> Iterator[Asked]:
    """Yield the requests that tell the drift of the run's judges, once a night."""
    for rubric in plan.benchmark.rubrics(plan.spec.setting):
        yield _judge(plan, rubric.name, _drift_calls(plan, rubric))


def _players(plan: RunPlan, subject: Calls, simulator: Calls) -> Iterator[Asked]:
    yield Asked("subject", plan.spec.subject, plan.request.model, subject)
    if plan.spec.simulator is not None and plan.request.simulator is not None:
        yield Asked("simulator", plan.spec.simulator, plan.request.simulator, simulator)


def _judge(plan: RunPlan, rubric: str, calls: Calls) -> Asked:
    return Asked("judge", plan.judges[rubric].judge.judge, plan.judges[rubric].request, calls)


def _judge_calls(plan: RunPlan, owed: Sequence[WantedEpisode]) -> tuple[Mapping[str, Calls], int]:
    """Rubric -> requests to its judge, without rubrics that need none; and of how many dialogues.

    A judge that is asked is asked what tells drift, too.
    """
    if not plan.judges or plan.is_finished():
        return {}, 0
    from tasks.driver.judging import owed_judgements

    rubrics = {rubric.name: rubric for rubric in plan.benchmark.rubrics(plan.spec.setting)}
    coming = {
        name: sum((_judgements_to_come(plan, rubric, one) for one in owed), Calls())
        for name, rubric in rubrics.items()
    }
    jobs = owed_judgements(plan)
    for job in jobs:
        coming[job.rubric] += _judgement(plan, job.rubric, _tokens_of(job.messages))
    if not any(calls.calls for calls in coming.values()):
        return {}, 0
    for name, rubric in rubrics.items():
        coming[name] += _drift_calls(plan, rubric)
    n_kept = len({(job.problem_id, job.dialog_id, job.sample) for job in jobs})
    return {name: calls for name, calls in coming.items() if calls.calls}, len(owed) + n_kept


def _drift_calls(plan: RunPlan, rubric: Rubric) -> Calls:
    return sum(
        (
            _judgement(plan, rubric.name, _tokens_of(rubric.asked(messages)))
            for messages in rubric.drift
        ),
        Calls(),
    )


def _judgement(plan: RunPlan, rubric: str, told: float) -> Calls:
    """One judgement, of so many tokens by assumption."""
    usage, sampling = judge_usage(plan, rubric), plan.judges[rubric].request.sampling
    return Calls(1, told * _input_ratio(plan, rubric, usage), _output_tokens(sampling, usage))


def _judgements_to_come(plan: RunPlan, rubric: Rubric, episode: WantedEpisode) -> Calls:
    """Judgements of a dialogue that is still to be played."""
    shown = _tokens_to_judge(plan, rubric, episode)
    return sum((_judgement(plan, rubric.name, told) for told in shown), Calls())


def _tokens_to_judge(plan: RunPlan, rubric: Rubric, episode: WantedEpisode) -> Sequence[float]:
    """Tokens that each judgement is shown, by assumption."""
    said = _tokens(rubric.prompt + rubric.form)
    if sends_nothing(plan.judges[rubric.name].judge.judge, plan.judges[rubric.name].request):
        return ()
    turns, shown = _answered(plan, episode), 0.0
    asked = _asked(plan, episode)
    scripted, seen = plan.dialog(episode).scripted_answers, list[float]()
    for turn in sorted({*turns, *scripted}):
        shown += asked.get(turn, TOKENS_PER_ANSWER)
        shown += _tokens(scripted[turn]) if turn in scripted else _answer_tokens(plan)
        if turn in turns:
            seen.append(said + shown)
    return seen if rubric.scope == "turn" else [said + shown]


def _keys_not_set(
    plan: RunPlan, *, of_players: bool, of_judges: Iterable[str]
) -> tuple[tuple[str, str], ...]:
    asked = (
        [(plan.spec.subject, plan.subject), (plan.spec.simulator, plan.simulator)]
        if of_players
        else []
    )
    asked += [
        (plan.judges[rubric].judge.judge, plan.judges[rubric].endpoint) for rubric in of_judges
    ]
    needed = {
        (name, identity.label): None
        for identity, endpoint in asked
        if identity is not None and endpoint is not None
        for name in registry.load(identity.provider).secret_variables(endpoint)
    }
    embedder = plan.spec.embedder if of_players else None
    if embedder is not None and plan.embedder is not None and embedder.is_hosted:
        needed |= {(name, embedder.label): None for name in secret_variables(plan.embedder)}
    return tuple((name, model) for name, model in needed if not os.environ.get(name, "").strip())


def _serves(plan: RunPlan, *, of_players: bool, of_judges: Iterable[str]) -> tuple[str, ...]:
    asked = [plan.spec.subject, plan.spec.simulator] if of_players else []
    needed = (*asked, *(plan.judges[rubric].judge.judge for rubric in of_judges))
    shown: Counter[str] = Counter()
    for who, where, request in plan.models:
        commands = registry.load(who.provider).serve_commands
        if who in needed and commands is not None:
            shown |= Counter(
                commands(ServeRequest(who, where, request.serve, request.revision, plan.home.logs))
            )
    return tuple(f"{command}  # {n} times" if n > 1 else command for command, n in shown.items())


def _asked(plan: RunPlan, episode: WantedEpisode) -> Mapping[int, int]:
    """Round -> tokens of the user's message, where the dialog has it."""
    dialog = plan.dialog(episode)
    texts = plan.benchmark.play.user_texts(dialog, plan.options)
    rounds = [turn.turn for turn in dialog.turns if turn.role is Role.USER]
    return {turn: _tokens(text) for turn, text in zip(rounds, texts, strict=True)}


def _rounds(plan: RunPlan, episode: WantedEpisode) -> int:
    """Rounds of a usual dialogue, or those that it has where they are exact."""
    due, measured = plan.due(episode), measured_by_plan(plan)
    if due.is_exact:
        return due.rounds
    usual = (
        due.usual
        if measured is None or measured.answers is None
        else max(1, round(measured.answers))
    )
    return due.rounds if usual is None else min(usual, due.rounds)


def _answered(plan: RunPlan, episode: WantedEpisode) -> Sequence[int]:
    """Rounds that the model under test answers in a usual dialogue."""
    return plan.due(episode).answered[: _rounds(plan, episode)]


def _is_answer(step: Step) -> bool:
    return step.role is Role.ASSISTANT and step.kind is StepKind.MESSAGE


def _said(begun: Unfinished | None, role: Role) -> int:
    return (
        sum(step.role is role and step.kind is StepKind.MESSAGE for step in begun.steps)
        if begun
        else 0
    )


def _subject_calls(
    plan: RunPlan, episode: WantedEpisode, begun: Unfinished | None, talks: Mapping[str, int]
) -> Calls:
    """The calls of each round without an answer, and those that build the memory of a talk."""
    if sends_nothing(plan.spec.subject, plan.request.model):
        return Calls()
    measured = measured_by_plan(plan)
    due = _scaled(
        _assumed_subject(plan, episode, begun),
        _input_ratio(plan, "subject", measured.subject if measured else None),
    )
    is_begun = begun is not None and any(map(_is_answer, begun.steps))
    return due if is_begun else due + talk_calls(plan, episode, talks, _answer_tokens(plan))


def _assumed_subject(
    plan: RunPlan, episode: WantedEpisode, begun: Unfinished | None = None
) -> Calls:
    """The calls of each round without an answer. The setting says how much of the past it is shown."""
    if sends_nothing(plan.spec.subject, plan.request.model):
        return Calls()
    policy = plan.benchmark.setting(plan.spec.setting).history
    sees_none = policy is HistoryPolicy.LAST_CODE_AND_FEEDBACK
    asked, dialog = _asked(plan, episode), plan.dialog(episode)
    scripted, generated = dialog.scripted_answers, _answered(plan, episode)
    answered = {step.turn for step in begun.steps if _is_answer(step)} if begun else set[int]()
    history, each, due = (
        plan.context_length(dialog) // CHARACTERS_PER_TOKEN,
        _answer_tokens(plan),
        Calls(),
    )
    n, observed = _calls_per_turn(plan, len(generated))
    for n_before, turn in enumerate(sorted({*generated, *scripted})):
        new = asked.get(turn, _reply_tokens(plan, episode, holds_all=sees_none))
        if turn in generated and turn not in answered:
            within = n * (n - 1) // 2 * (each + observed) if observed else 0
            due += Calls(n, n * (history + new) + within, n * each)
        if not sees_none and not (policy is HistoryPolicy.FIRST_ROUND and n_before):
            said = (
                _tokens(scripted[turn])
                if turn in scripted
                else n * (each + observed)
                if observed
                else each
            )
            history += new + said
    return due


def _calls_per_turn(plan: RunPlan, n_turns: int) -> tuple[int, int]:
    """Requests of a turn, and tokens that a tool adds to the next one; 0 where an agent has no tools."""
    if plan.spec.agent is None:
        return 1, 0
    agent, measured = agents.load(plan.spec.agent.name), measured_by_plan(plan)
    if agent.usual_calls is None:
        return agent.calls_per_turn, 0
    most = int(agent.options_of(plan.spec.agent).get(STEPS, agent.usual_calls))
    usual = agent.usual_calls if measured is None or measured.calls is None else measured.calls
    return max(1, round(min(usual, most) / max(1, n_turns))), TOKENS_PER_OBSERVATION


def _scaled(calls: Calls, ratio: float) -> Calls:
    return replace(calls, input_tokens=calls.input_tokens * ratio)


_ratios: WeakKeyDictionary[RunPlan, dict[str, float]] = WeakKeyDictionary()


def _input_ratio(plan: RunPlan, name: str, usage: Usage | None) -> float:
    """Measured tokens of requests by assumed ones, over all wanted dialogues: for the parts of prompts that nobody can assume.

    Args:
        name: subject, simulator, or a rubric.
    """
    if usage is None or usage.input_tokens is None:
        return 1.0
    known = _ratios.setdefault(plan, {})
    if name not in known:
        assumed = _assumed_in_all(plan, name)
        known[name] = (
            usage.input_tokens * assumed.calls / assumed.input_tokens
            if assumed.input_tokens
            else 1.0
        )
    return known[name]


def _assumed_in_all(plan: RunPlan, name: str) -> Calls:
    rubrics = {rubric.name: rubric for rubric in plan.benchmark.rubrics(plan.spec.setting)}
    if name in rubrics:
        shown = [told for one in plan.wanted for told in _tokens_to_judge(plan, rubrics[name], one)]
        return Calls(len(shown), sum(shown))
    assumed = _assumed_subject if name == "subject" else _assumed_simulator
    return sum((assumed(plan, one) for one in plan.wanted), Calls())


def _output_tokens(sampling: Sampling, usage: Usage | None) -> float:
    """Tokens of an answer: as measured, else by assumption; `max_tokens` bounds them."""
    each = TOKENS_PER_ANSWER if usage is None else usage.output_tokens
    return min(each, sampling.max_tokens or each)


def _answer_tokens(plan: RunPlan) -> float:
    """Tokens of an answer of the subject."""
    measured = measured_by_plan(plan)
    return _output_tokens(plan.spec.sampling, measured.subject if measured else None)


def _reply_tokens(plan: RunPlan, episode: WantedEpisode, *, holds_all: bool) -> float:
    """Tokens of a reply to the subject: feedback; problem and last code too, where the reply is all that the subject sees."""
    if not holds_all:
        return TOKENS_PER_ANSWER
    first = next(iter(_asked(plan, episode).values()))
    return first + _answer_tokens(plan) + TOKENS_PER_ANSWER


def _simulator_calls(plan: RunPlan, episode: WantedEpisode, begun: Unfinished | None) -> Calls:
    measured = measured_by_plan(plan)
    ratio = _input_ratio(plan, "simulator", measured.simulator if measured else None)
    return _scaled(_assumed_simulator(plan, episode, begun), ratio)


def _assumed_simulator(
    plan: RunPlan, episode: WantedEpisode, begun: Unfinished | None = None
) -> Calls:
    """One call for each round, from the second on, that is not begun yet."""
    setting = plan.benchmark.setting(plan.spec.setting)
    simulator, request = plan.spec.simulator, plan.request.simulator
    if (
        not setting.needs_simulator
        or simulator is None
        or request is None
        or sends_nothing(simulator, request)
    ):
        return Calls()
    opened = max(1, _said(begun, Role.USER))
    due = max(0, _rounds(plan, episode) - opened)
    told = sum(_tokens(setting.prompts[name]) for name in setting.simulator_prompts)
    problem = plan.problems[episode.problem_id]
    own, measured = plan.spec.simulator_sampling, measured_by_plan(plan)
    sampling = setting.simulated(own, plan.spec.sampling) if own else plan.spec.sampling
    each = _output_tokens(sampling, measured.simulator if measured else None)
    shown = _tokens(problem.prompt) + _tokens(problem.reference_code) + each + TOKENS_PER_ANSWER
    n = due * setting.simulator_calls
    return Calls(n, due * told + n * shown, n * each)


def _tokens(text: str) -> int:
    return len(text) // CHARACTERS_PER_TOKEN


def _tokens_of(messages: Iterable[Message]) -> int:
    return sum(_tokens(message.content) for message in messages)
