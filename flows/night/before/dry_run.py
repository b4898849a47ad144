"""Estimates the work and cost of a run before anything is started."""

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from schemas.audit import AUDIT_SAMPLE
from schemas.dialog import HistoryPolicy, Role
from schemas.episode import Step, StepKind
from schemas.run import ModelIdentity, Provider, Sampling
from tasks.dialogue.agents import registry as agents
from tasks.judging.rubric import Rubric
from tasks.language.chat_model import Message
from tasks.language.endpoints.endpoint_key import key_variable
from tasks.language.servers.vllm_command import serve_commands
from tasks.language.servers.vllm_settings import VllmSettings
from tasks.planning.plan import RunPlan
from tasks.planning.request import ModelRequest
from tasks.storage.journaling.journal import Unfinished, read_journal
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
    judge_calls: int
    """Judgements on kept dialogues that are not known; one a round, or one a dialogue, on those that are owed; cases of drift."""
    judge_input_tokens: int
    """As if a judge were shown its rubric and the dialogue, up to the turn that it judges, without a shared context."""
    judge_output_tokens: int
    audits_at_most: int | None
    """Passes to audit: none where the setting runs no programs or `audit` is `none`; None for every pass."""
    at_most: bool
    """Dialogues, or an agent's turns, may end early, rubrics may leave rounds out, and dialogues may say the same to a judge:
    calls, tokens and cost are upper bounds then."""
    usd: float | None
    serves: tuple[str, ...]
    """The commands that it would start to serve its models by vLLM, one a replica; PORT stands for a free one."""
    keys_not_set: tuple[tuple[str, str], ...]
    """(variable, model) of each key that the owed episodes and judgements need and the environment lacks."""


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
    judged = _judge_calls(plan, owed)
    costs += [_usd(plan.judges[rubric].request, calls) for rubric, calls in judged.items()]
    judge = sum(judged.values(), Calls())
    known = [cost for cost in costs if cost is not None]
    return Estimate(
        run_id=plan.run_id,
        benchmark=plan.spec.full_setting,
        model=plan.spec.label,
        episodes=len(plan.wanted),
        owed=len(owed),
        **asdict(subject),
        simulator_calls=simulator.calls,
        simulator_input_tokens=simulator.input_tokens,
        simulator_output_tokens=simulator.output_tokens,
        judge_calls=judge.calls,
        judge_input_tokens=judge.input_tokens,
        judge_output_tokens=judge.output_tokens,
        audits_at_most=_audits_at_most(plan),
        at_most=not plan.has_exact_rounds or plan.spec.agent is not None or judge.calls > 0,
        usd=sum(known) if len(known) == len(costs) else None,
        serves=_serves(plan, of_players=bool(owed), of_judges=judged.keys()),
        keys_not_set=_keys_not_set(plan, of_players=bool(owed), of_judges=judged.keys()),
    )


def _audits_at_most(plan: RunPlan) -> int | None:
    if not plan.audits:
        return 0
    return AUDIT_SAMPLE if plan.spec.audit == "sample" else None


def whole_calls(plan: RunPlan, episode: WantedEpisode) -> Iterator[tuple[ModelIdentity, ModelRequest, Calls]]:
    """Requests of an episode to each model, as if nothing of it were kept."""
    yield plan.spec.subject, plan.request.model, _subject_calls(plan, episode, None)
    if plan.spec.simulator is not None and plan.request.simulator is not None:
        yield plan.spec.simulator, plan.request.simulator, _simulator_calls(plan, episode, None)
    for rubric in plan.benchmark.rubrics(plan.spec.setting):
        judge = plan.judges[rubric.name]
        yield judge.judge.judge, judge.request, _judgements_to_come(plan, rubric, episode)


def drift_calls(plan: RunPlan) -> Iterator[tuple[ModelIdentity, ModelRequest, Calls]]:
    """What tells the drift of the run's judges, once a night."""
    for rubric in plan.benchmark.rubrics(plan.spec.setting):
        judge = plan.judges[rubric.name]
        for messages in rubric.drift:
            each = _most_tokens(judge.request.sampling)
            yield judge.judge.judge, judge.request, Calls(1, _tokens_of(rubric.asked(messages)), each)


def _judge_calls(plan: RunPlan, owed: Sequence[WantedEpisode]) -> Mapping[str, Calls]:
    """Rubric -> requests to its judge; without rubrics that need none. A judge that is asked is asked what tells drift, too."""
    if not plan.judges or plan.is_finished():
        return {}
    from tasks.driver.judgements_owed import owed_judgements

    rubrics = {rubric.name: rubric for rubric in plan.benchmark.rubrics(plan.spec.setting)}
    each = {name: _most_tokens(judge.request.sampling) for name, judge in plan.judges.items()}
    coming = {name: sum((_judgements_to_come(plan, rubric, one) for one in owed), Calls()) for name, rubric in rubrics.items()}
    for job in owed_judgements(plan):
        coming[job.rubric] += Calls(1, _tokens_of(job.messages), each[job.rubric])
    if not any(calls.calls for calls in coming.values()):
        return {}
    for name, rubric in rubrics.items():
        for messages in rubric.drift:
            coming[name] += Calls(1, _tokens_of(rubric.asked(messages)), each[name])
    return {name: calls for name, calls in coming.items() if calls.calls}


def _judgements_to_come(plan: RunPlan, rubric: Rubric, episode: WantedEpisode) -> Calls:
    """Of a dialogue that is still to be played."""
    each, said = _most_tokens(plan.judges[rubric.name].request.sampling), _tokens(rubric.prompt + rubric.form)
    turns, shown = plan.due(episode.dialog).answered, 0
    asked = _asked(plan, episode)
    scripted, seen = episode.dialog.scripted_answers, list[int]()
    for turn in sorted({*turns, *scripted}):
        shown += asked.get(turn, TOKENS_PER_ANSWER)
        shown += _tokens(scripted[turn]) if turn in scripted else _answer_tokens(plan)
        if turn in turns:
            seen.append(said + shown)
    judged = seen if rubric.scope == "turn" else [said + shown]
    return Calls(len(judged), sum(judged), len(judged) * each)


def _keys_not_set(plan: RunPlan, *, of_players: bool, of_judges: Iterable[str]) -> tuple[tuple[str, str], ...]:
    asked = [(plan.spec.subject, plan.subject), (plan.spec.simulator, plan.simulator)] if of_players else []
    asked += [(plan.judges[rubric].judge.judge, plan.judges[rubric].endpoint) for rubric in of_judges]
    needed = {
        (key_variable(endpoint), identity.label): None
        for identity, endpoint in asked
        if identity is not None and endpoint is not None and identity.provider is Provider.OPENAI
    }
    embedder = plan.spec.embedder if of_players else None
    if embedder is not None and plan.embedder is not None and embedder.provider == "openai":
        needed[key_variable(plan.embedder), embedder.label] = None
    return tuple((name, model) for name, model in needed if name is not None and not os.environ.get(name, "").strip())


def _serves(plan: RunPlan, *, of_players: bool, of_judges: Iterable[str]) -> tuple[str, ...]:
    asked = [plan.spec.subject, plan.spec.simulator] if of_players else []
    needed = (*asked, *(plan.judges[rubric].judge.judge for rubric in of_judges))
    shown: Counter[str] = Counter()
    for who, where, request in plan.models:
        if who in needed and who.provider is Provider.VLLM:
            commands = serve_commands(who, where.path or who.name, request.serve or VllmSettings(), revision=request.revision)
            shown |= Counter(command.shown() for command in commands)
    return tuple(f"{command}  # {n} times" if n > 1 else command for command, n in shown.items())


def _usd(asked: ModelRequest, calls: Calls) -> float | None:
    if asked.usd_per_million_input is None or asked.usd_per_million_output is None:
        return None
    return (calls.input_tokens * asked.usd_per_million_input + calls.output_tokens * asked.usd_per_million_output) / 1e6


def _asked(plan: RunPlan, episode: WantedEpisode) -> Mapping[int, int]:
    """Round -> tokens of the user's message, where the dialog has it."""
    texts = plan.benchmark.play.user_texts(episode.dialog, plan.options)
    rounds = [turn.turn for turn in episode.dialog.turns if turn.role is Role.USER]
    return {turn: _tokens(text) for turn, text in zip(rounds, texts, strict=True)}


def _rounds(plan: RunPlan, episode: WantedEpisode) -> int:
    return plan.due(episode.dialog).rounds


def _is_answer(step: Step) -> bool:
    return step.role is Role.ASSISTANT and step.kind is StepKind.MESSAGE


def _said(begun: Unfinished | None, role: Role) -> int:
    return sum(step.role is role and step.kind is StepKind.MESSAGE for step in begun.steps) if begun else 0


def _subject_calls(plan: RunPlan, episode: WantedEpisode, begun: Unfinished | None) -> Calls:
    """One call for each round without an answer. The setting says how much of the past it is shown."""
    policy = plan.benchmark.setting(plan.spec.setting).history
    sees_none = policy is HistoryPolicy.LAST_CODE_AND_FEEDBACK
    asked = _asked(plan, episode)
    scripted, generated = episode.dialog.scripted_answers, plan.due(episode.dialog).answered
    answered = {step.turn for step in begun.steps if _is_answer(step)} if begun else set[int]()
    history, each = plan.context_length(episode.dialog) // CHARACTERS_PER_TOKEN, _answer_tokens(plan)
    due = Calls() if answered else _context_calls(plan, episode, history, each)
    n = _calls_per_turn(plan)
    for n_before, turn in enumerate(sorted({*generated, *scripted})):
        new = asked.get(turn, _reply_tokens(plan, episode, holds_all=sees_none))
        if turn in generated and turn not in answered:
            due += Calls(n, n * (history + new), n * each)
        if not sees_none and not (policy is HistoryPolicy.FIRST_ROUND and n_before):
            history += new + (_tokens(scripted[turn]) if turn in scripted else each)
    return due


def _context_calls(plan: RunPlan, episode: WantedEpisode, tokens: int, each: int) -> Calls:
    """What an agent asks of the talk before the dialogue: each round by itself."""
    asked = 0 if plan.spec.agent is None else agents.load(plan.spec.agent.name).calls_per_context_round
    n = asked * math.ceil(episode.dialog.context_turns / 2)
    return Calls(n, asked * tokens, n * each)


def _calls_per_turn(plan: RunPlan) -> int:
    return 1 if plan.spec.agent is None else agents.load(plan.spec.agent.name).calls_per_turn


def _answer_tokens(plan: RunPlan) -> int:
    """Tokens of an answer of subject or simulator: `max_tokens` bounds both."""
    return _most_tokens(plan.spec.sampling)


def _most_tokens(sampling: Sampling) -> int:
    return min(TOKENS_PER_ANSWER, sampling.max_tokens or TOKENS_PER_ANSWER)


def _reply_tokens(plan: RunPlan, episode: WantedEpisode, *, holds_all: bool) -> int:
    """Tokens of a reply to the subject: feedback; problem and last code too, where the reply is all that the subject sees."""
    if not holds_all:
        return TOKENS_PER_ANSWER
    first = next(iter(_asked(plan, episode).values()))
    return first + _answer_tokens(plan) + TOKENS_PER_ANSWER


def _simulator_calls(plan: RunPlan, episode: WantedEpisode, begun: Unfinished | None) -> Calls:
    """One call for each round, from the second on, that is not begun yet."""
    setting = plan.benchmark.setting(plan.spec.setting)
    if not setting.needs_simulator or plan.spec.simulator is None:
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


def _tokens_of(messages: Iterable[Message]) -> int:
    return sum(_tokens(message.content) for message in messages)
