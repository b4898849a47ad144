"""Estimate of the requests for a run's episodes and judgements, scaled to earlier usage."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from flows.night.preflight.earlier_usage import (
    CHARACTERS_PER_TOKEN,
    Calls,
    RoleRequests,
    Usage,
    judge_usage,
    measured_by_plan,
    once_per_plan,
    talk_calls,
)
from schemas.dialog import Dialog, HistoryPolicy, Role
from schemas.episode import SCRIPTED, Episode, Step, StepKind, StopReason
from schemas.run import Sampling
from tasks.benchmarks.advanced import JudgeRequest
from tasks.dialogue.agents.registry import AGENTS
from tasks.dialogue.agents.repository.agents import STEPS
from tasks.judging.rubric import Rubric
from tasks.language.chat_model import Message
from tasks.planning.participants.models import sends_nothing
from tasks.planning.plan import RunPlan
from tasks.storage.journaling.dialogue_calls import Unfinished
from tasks.storage.run_rows import WantedEpisode

_EPISODE_FIELDS = ("episode_id", "problem_id", "dialog_id", "row_digest", "sample", "seed")
TOKENS_PER_ANSWER = 300
TOKENS_PER_OBSERVATION = 400
"""Numbers that the estimate assumes if nothing was measured. They are printed with it.

An observation is the tool output that an agent's next request contains.
"""


def whole_calls(
    plan: RunPlan, episode: WantedEpisode, talks: Mapping[str, int]
) -> Iterator[RoleRequests]:
    """Yield the requests of an episode to each model, assuming that no answer is stored.

    Args:
        plan: Plan of the run.
        episode: The episode.
        talks: result of `turns_to_build` for all episodes.
    """
    yield from player_requests(
        plan, subject_calls(plan, episode, None, talks), simulator_calls(plan, episode, None)
    )
    for rubric in plan.benchmark.rubrics(plan.spec.setting):
        yield judge_requests(
            plan, rubric.name, _judgements(plan, rubric, _tokens_to_judge(plan, rubric, episode))
        )


def drift_calls(plan: RunPlan) -> Iterator[RoleRequests]:
    """Yield the requests that measure the drift of the run's judges, once a night."""
    for rubric in plan.benchmark.rubrics(plan.spec.setting):
        yield judge_requests(plan, rubric.name, _drift_calls(plan, rubric))


def player_requests(plan: RunPlan, subject: Calls, simulator: Calls) -> Iterator[RoleRequests]:
    """Yield the requests of the subject, then those of the simulator if there is one."""
    calls = {"subject": subject, "simulator": simulator}
    for model in plan.models:
        if model.role in calls:
            yield RoleRequests(model, calls[model.role])


def judge_requests(plan: RunPlan, rubric: str, calls: Calls) -> RoleRequests:
    """Return the requests to the judge of a rubric."""
    return RoleRequests(plan.judges[rubric], calls)


def judge_calls(plan: RunPlan, pending: Sequence[WantedEpisode]) -> tuple[Mapping[str, Calls], int]:
    """Return the requests to each rubric's judge, and the number of dialogues.

    Rubrics without requests are left out. A judge that gets any request also gets the requests that
    measure drift.
    """
    if not plan.judges or plan.is_finished():
        return {}, 0
    from tasks.driver.judging import pending_judgements

    rubrics = {rubric.name: rubric for rubric in plan.benchmark.rubrics(plan.spec.setting)}
    coming = {
        name: sum(
            (
                _judgements(plan, rubric, _tokens_to_judge(plan, rubric, episode))
                for episode in pending
            ),
            Calls(),
        )
        for name, rubric in rubrics.items()
    }
    jobs = pending_judgements(plan)
    for job in jobs:
        coming[job.rubric] += _judgement(plan, job.rubric, _tokens_of(job.messages))
    if not any(calls.calls for calls in coming.values()):
        return {}, 0
    for name, rubric in rubrics.items():
        coming[name] += _drift_calls(plan, rubric)
    n_kept = len({(job.problem_id, job.dialog_id, job.sample) for job in jobs})
    return {name: calls for name, calls in coming.items() if calls.calls}, len(pending) + n_kept


def _drift_calls(plan: RunPlan, rubric: Rubric) -> Calls:
    shown = [_tokens_of(rubric.with_form(messages)) for messages in rubric.drift]
    return _judgements(plan, rubric, shown)


def _judgement(plan: RunPlan, rubric: str, assumed_tokens: float) -> Calls:
    """Return the calls of one judgement with this many assumed tokens."""
    usage, sampling = judge_usage(plan, rubric), plan.judges[rubric].request.sampling
    return Calls(
        1, assumed_tokens * _input_ratio(plan, rubric, usage), _output_tokens(sampling, usage)
    )


def _judgements(plan: RunPlan, rubric: Rubric, shown: Iterable[int]) -> Calls:
    """Return the calls of judgements, given the assumed tokens of each."""
    return sum((_judgement(plan, rubric.name, tokens) for tokens in shown), Calls())


def _tokens_to_judge(plan: RunPlan, rubric: Rubric, episode: WantedEpisode) -> Sequence[int]:
    """Return the input tokens of each judgement, if the dialogue has its usual length.

    The benchmark writes the prompts of these judgements, as it does for a finished dialogue. They
    have no turns of a shared context.
    """
    judging = plan.benchmark.judging
    if judging is None or sends_nothing(plan.judges[rubric.name]):
        return ()
    request = JudgeRequest(
        rubric=rubric.name,
        problem=plan.problems[episode.problem_id],
        dialog=plan.dialog(episode),
        episode=_assumed_episode(plan, episode),
        options=plan.options,
    )
    return [_tokens_of(rubric.with_form(run.messages)) for run in judging.judge_runs(request)]


def _assumed_episode(plan: RunPlan, episode: WantedEpisode) -> Episode:
    """Return a dialogue of the usual length, with placeholders for texts that are not known."""
    spec, scripted = plan.spec, plan.dialog(episode).scripted_answers
    texts, steps = _user_texts(plan, episode), list[Step]()
    for turn in sorted({*_answered_rounds(plan, episode), *scripted}):
        message = texts.get(turn) or _placeholder(TOKENS_PER_ANSWER)
        answer = scripted[turn] if turn in scripted else _placeholder(_answer_tokens(plan))
        labels = (SCRIPTED,) if turn in scripted else ()
        steps.append(Step(turn=turn, role=Role.USER, content=message))
        steps.append(Step(turn=turn, role=Role.ASSISTANT, content=answer, labels=labels))
    return Episode(
        run_id=plan.run_id,
        benchmark=spec.benchmark,
        model=spec.label,
        setting=spec.setting,
        dataset_version=spec.dataset_version,
        **{name: getattr(episode, name) for name in _EPISODE_FIELDS},
        attempt=1,
        stop_reason=StopReason.FINISHED,
        started_at="",
        finished_at="",
        steps=tuple(steps),
    )


def _placeholder(tokens: float) -> str:
    return "text" * round(tokens)


def _user_texts(plan: RunPlan, episode: WantedEpisode) -> Mapping[int, str]:
    """Return the user message of each round whose message is in the dialog."""
    texts = plan.benchmark.play.user_texts(plan.dialog(episode), plan.options)
    rounds = [turn.turn for turn in plan.dialog(episode).turns if turn.role is Role.USER]
    return dict(zip(rounds, texts, strict=True))


def _rounds(plan: RunPlan, episode: WantedEpisode) -> int:
    """Return the usual number of rounds of the dialogue, or the exact number if it is known."""
    due, measured = plan.due(episode), measured_by_plan(plan)
    if due.is_exact:
        return due.rounds
    usual = due.usual
    if measured is not None and measured.answers is not None:
        usual = max(1, round(measured.answers))
    return due.rounds if usual is None else min(usual, due.rounds)


def _answered_rounds(plan: RunPlan, episode: WantedEpisode) -> Sequence[int]:
    """Return the rounds that the model under test answers if the dialogue has its usual length."""
    return plan.due(episode).answered[: _rounds(plan, episode)]


def _is_answer(step: Step) -> bool:
    return step.role is Role.ASSISTANT and step.kind is StepKind.MESSAGE


def subject_calls(
    plan: RunPlan, episode: WantedEpisode, begun: Unfinished | None, talks: Mapping[str, int]
) -> Calls:
    """Return the requests that the subject is expected to make in a dialogue.

    These are the requests for each round without an answer, and those that build the agent's memory
    of an earlier conversation.
    """
    if sends_nothing(plan.models[0]):
        return Calls()
    measured = measured_by_plan(plan)
    due = _scale_input(
        _assumed_subject(plan, episode, begun),
        _input_ratio(plan, "subject", measured.subject if measured else None),
    )
    is_begun = begun is not None and any(map(_is_answer, begun.steps))
    return due if is_begun else due + talk_calls(plan, episode, talks, _answer_tokens(plan))


def _assumed_subject(
    plan: RunPlan, episode: WantedEpisode, begun: Unfinished | None = None
) -> Calls:
    """Return the calls that the subject will make: one for each round without an answer.

    The dialogue or else the setting defines how much history a request contains.
    """
    dialog = plan.dialog(episode)
    policy = (
        plan.benchmark.play.history(dialog, plan.options)
        or plan.benchmark.setting(plan.spec.setting).history
    )
    sees_none = policy is HistoryPolicy.LAST_CODE_AND_FEEDBACK
    texts = _user_texts(plan, episode)
    shown_answers, generated = _shown_answers(dialog, policy), _answered_rounds(plan, episode)
    done_turns = {step.turn for step in begun.steps if _is_answer(step)} if begun else set[int]()
    history = plan.context_length(dialog) // CHARACTERS_PER_TOKEN
    each, due = _answer_tokens(plan), Calls()
    n, observed = _calls_per_turn(plan, len(generated))
    for n_before, turn in enumerate(sorted({*generated, *dialog.scripted_answers})):
        reply = _reply_tokens(plan, episode, holds_all=sees_none)
        new = _tokens(texts[turn]) if turn in texts else reply
        if turn in generated and turn not in done_turns:
            within = n * (n - 1) // 2 * (each + observed) if observed else 0
            due += Calls(n, n * (history + new) + within, n * each)
        if not sees_none and not (policy is HistoryPolicy.FIRST_ROUND and n_before):
            answer_tokens = n * (each + observed) if observed else each
            if turn in shown_answers:
                answer_tokens = _tokens(shown_answers[turn])
            is_shown = not n_before or policy is not HistoryPolicy.UPSTREAM_V0
            history += new + (answer_tokens if is_shown else 0)
    return due


def _shown_answers(dialog: Dialog, policy: HistoryPolicy) -> Mapping[int, str]:
    """Return the answers in later prompts that are known before the dialogue, by round."""
    if policy is not HistoryPolicy.REFERENCE:
        return dialog.scripted_answers
    answers = {
        turn.turn: turn.content if turn.reference is None else turn.reference
        for turn in dialog.turns
        if turn.role is Role.ASSISTANT
    }
    return {turn: answer for turn, answer in answers.items() if answer is not None}


def _calls_per_turn(plan: RunPlan, n_turns: int) -> tuple[int, int]:
    """Return the requests per turn, and the tool output tokens in each next request (or 0)."""
    if plan.spec.agent is None:
        return 1, 0
    agent, measured = AGENTS.load(plan.spec.agent.name), measured_by_plan(plan)
    if agent.usual_calls is None:
        return agent.calls_per_turn, 0
    most = int(agent.options_of(plan.spec.agent).get(STEPS, agent.usual_calls))
    usual = agent.usual_calls if measured is None or measured.calls is None else measured.calls
    return max(1, round(min(usual, most) / max(1, n_turns))), TOKENS_PER_OBSERVATION


def _scale_input(calls: Calls, ratio: float) -> Calls:
    return replace(calls, input_tokens=calls.input_tokens * ratio)


@once_per_plan
def _input_ratio(plan: RunPlan, name: str, usage: Usage | None) -> float:
    """Return measured input tokens divided by assumed ones, over all wanted dialogues.

    The ratio covers the parts of prompts that cannot be assumed.

    Args:
        plan: Plan of the run.
        name: "subject", "simulator", or the name of a rubric.
        usage: Measured usage, if any.
    """
    if usage is None or usage.input_tokens is None:
        return 1.0
    assumed = _assumed_in_all(plan, name)
    if not assumed.input_tokens:
        return 1.0
    return usage.input_tokens * assumed.calls / assumed.input_tokens


def _assumed_in_all(plan: RunPlan, name: str) -> Calls:
    rubrics = {rubric.name: rubric for rubric in plan.benchmark.rubrics(plan.spec.setting)}
    if name in rubrics:
        shown = [
            tokens
            for episode in plan.wanted
            for tokens in _tokens_to_judge(plan, rubrics[name], episode)
        ]
        return Calls(len(shown), sum(shown))
    assumed = _assumed_subject if name == "subject" else _assumed_simulator
    return sum((assumed(plan, episode) for episode in plan.wanted), Calls())


def _output_tokens(sampling: Sampling, usage: Usage | None) -> float:
    """Return the tokens of an answer: measured or else assumed, at most `max_tokens`."""
    each = TOKENS_PER_ANSWER if usage is None else usage.output_tokens
    return min(each, sampling.max_tokens or each)


def _answer_tokens(plan: RunPlan) -> float:
    """Return the tokens of one answer of the subject."""
    measured = measured_by_plan(plan)
    return _output_tokens(plan.spec.sampling, measured.subject if measured else None)


def _reply_tokens(plan: RunPlan, episode: WantedEpisode, *, holds_all: bool) -> float:
    """Return the number of tokens of a reply to the subject.

    A reply is feedback. If the subject gets no history (`holds_all`), the reply also contains the
    problem and the last code.
    """
    if not holds_all:
        return TOKENS_PER_ANSWER
    first = next(iter(_user_texts(plan, episode).values()))
    return _tokens(first) + _answer_tokens(plan) + TOKENS_PER_ANSWER


def simulator_calls(plan: RunPlan, episode: WantedEpisode, begun: Unfinished | None) -> Calls:
    """Return the simulator's calls for rounds that have not begun, scaled to measured tokens."""
    measured = measured_by_plan(plan)
    ratio = _input_ratio(plan, "simulator", measured.simulator if measured else None)
    return _scale_input(_assumed_simulator(plan, episode, begun), ratio)


def _assumed_simulator(
    plan: RunPlan, episode: WantedEpisode, begun: Unfinished | None = None
) -> Calls:
    """Return one call for each round, from the second on, that has not begun."""
    setting = plan.benchmark.setting(plan.spec.setting)
    simulator = next((model for model in plan.models if model.role == "simulator"), None)
    if not setting.needs_simulator or simulator is None or sends_nothing(simulator):
        return Calls()
    steps = begun.steps if begun else ()
    n_begun = sum(step.role is Role.USER and step.kind is StepKind.MESSAGE for step in steps)
    due = max(0, _rounds(plan, episode) - max(1, n_begun))
    prompt_tokens = sum(_tokens(setting.prompts[name]) for name in setting.simulator_prompts)
    problem = plan.problems[episode.problem_id]
    own, measured = plan.spec.simulator_sampling, measured_by_plan(plan)
    sampling = setting.simulated(own, plan.spec.sampling) if own else plan.spec.sampling
    each = _output_tokens(sampling, measured.simulator if measured else None)
    shown = _tokens(problem.prompt) + _tokens(problem.reference_code) + each + TOKENS_PER_ANSWER
    n = due * setting.simulator_calls
    return Calls(n, due * prompt_tokens + n * shown, n * each)


def _tokens(text: str) -> int:
    return len(text) // CHARACTERS_PER_TOKEN


def _tokens_of(messages: Iterable[Message]) -> int:
    return sum(_tokens(message.content) for message in messages)
