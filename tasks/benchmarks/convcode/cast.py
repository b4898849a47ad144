"""Participants: a subject that writes programs, and an environment or script with feedback."""

from functools import partial

from schemas.dialog import HistoryPolicy
from schemas.episode import ExecutionFeedback, Feedback, FeedbackSetting, VerbalFeedback
from schemas.problem import BASE_INSTRUCTION
from schemas.verdict import ProgramVerdict
from tasks.benchmarks.convcode.settings import (
    ALL_PASS,
    COVERAGE,
    GROUND_TRUTH_PROMPTS,
    LIVE,
    PROMPTS,
    STATIC,
    Coverage,
    compilation_text,
    compose,
    execution_text,
    expert_prompt,
    feedback_turns,
    novice_prompt,
    settings,
)
from tasks.benchmarks.convcode.stage import code_of
from tasks.benchmarks.setting import CastRequest, own_texts, scripted_cast
from tasks.dialogue.engine import Cast
from tasks.dialogue.reviewed_subject import CodingSubject
from tasks.dialogue.simulated_feedback import (
    FeedbackEnvironment,
    FixedFeedback,
    Observation,
    SimulatedFeedback,
)
from tasks.language.prompt import fill

HISTORY = HistoryPolicy.LAST_CODE_AND_FEEDBACK


def cast(request: CastRequest) -> Cast:
    """Return the participants of a setting's dialogue.

    The subject learns about the tests only from its feedback. The reference code enters only an
    expert's prompt, except in the setting that shows it to the subject.

    Raises:
        ConfigError: The setting has verbal feedback, but there is no simulator.
    """
    if request.setting in STATIC:
        return _static(request)
    return _live(request, LIVE[request.setting])


def _static(request: CastRequest) -> Cast:
    """Return the participants of a dialogue whose user messages are recorded.

    The first message is the problem, the others are feedback on the previous code.
    """
    texts = own_texts(request.dialog, request.options)
    if dict(request.dialog.labels).get("iteration") == "0":
        texts = tuple(fill(PROMPTS["initial"], problem=text) for text in texts)
    return scripted_cast(request.subject_participant(HISTORY), texts)


def _live(request: CastRequest, feedback: FeedbackSetting) -> Cast:
    problem, turns = request.problem, feedback_turns(request.setting, request.options)
    suite, code = (
        problem.instruction(BASE_INSTRUCTION).suite,
        partial(code_of, problem, request.options),
    )
    subject = CodingSubject(
        chat=request.subject_participant(HISTORY),
        programs=request.programs,
        suite=suite,
        code_of=code,
        recompile=partial(_recompile, problem.prompt),
    )
    environment = FeedbackEnvironment(
        opening=fill(PROMPTS["initial"], problem=problem.prompt),
        turns=turns,
        code_of=code,
        observe=partial(_observe, coverage=_coverage(request, feedback), tests=suite.tests),
        compose=partial(compose, problem.prompt),
        speaker=_speaker(request, feedback),
        speaks_without_error=feedback.verbal
        in (VerbalFeedback.EXPERT, VerbalFeedback.GROUND_TRUTH),
    )
    # One more turn than possible rounds, so that the environment ends the dialogue and not the
    # limit.
    return Cast(subject=subject, counterpart=environment, max_turns=turns + 2)


def _recompile(problem_prompt: str, code: str, compile_error: str) -> str:
    return compose(problem_prompt, code, Feedback(compilation=compile_error.rstrip("\n")))


def _coverage(request: CastRequest, feedback: FeedbackSetting) -> Coverage | None:
    if feedback.execution is ExecutionFeedback.NONE:
        return None
    if feedback.execution is ExecutionFeedback.FULL:
        return "full"
    return (
        "first_three_tests"
        if request.options[COVERAGE] == "first_three_tests"
        else "upstream_first_three_methods"
    )


def _observe(
    report: ProgramVerdict, coverage: Coverage | None, tests: tuple[str, ...]
) -> Observation:
    """Return the compiler's and the tests' messages that the setting shows."""
    failures = None if coverage is None else execution_text(report, coverage, tests)
    return Observation(
        feedback=Feedback(
            compilation=compilation_text(report),
            execution=None if coverage is None else failures or ALL_PASS,
        ),
        shows_error=report.compile_error is not None or failures is not None,
    )


def _speaker(
    request: CastRequest, feedback: FeedbackSetting
) -> SimulatedFeedback | FixedFeedback | None:
    if feedback.verbal is VerbalFeedback.NONE:
        return None
    if feedback.verbal is VerbalFeedback.GROUND_TRUTH:
        right = request.problem.reference_code.strip("\n")
        return FixedFeedback(fill(GROUND_TRUTH_PROMPTS["ground_truth"], reference=right))
    problem, is_expert = request.problem, feedback.verbal is VerbalFeedback.EXPERT
    return SimulatedFeedback(
        model=request.user_model,
        sampling=settings()[request.setting].simulated(
            request.simulator_sampling, request.sampling
        ),
        prompt=partial(expert_prompt, problem.prompt, problem.reference_code)
        if is_expert
        else partial(novice_prompt, problem.prompt),
        writes_code=not is_expert,
    )
