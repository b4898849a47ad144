"""Settings (the two tracks, and the unchanged golden dialogues), participants and test runs.

Participants are the model under test, and a scripted or simulated user. A scripted user repeats a
golden dialogue, up to its last round or completely. The delivered program is run with each of the
task's test cases.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from schemas.dialog import Dialog, HistoryPolicy, Role, Turn
from schemas.episode import Episode, Step, StopReason
from schemas.problem import Problem
from tasks.benchmarks.contract import TestRun
from tasks.benchmarks.program_runs import extraction_option
from tasks.benchmarks.setting import CastRequest, Options, Setting, own_texts, scripted_cast
from tasks.benchmarks.talk2code.languages import (
    LANGUAGE_OF,
    LANGUAGES,
    case_runs,
    delivery_of,
    program_of,
)
from tasks.benchmarks.talk2code.measures import ENTITIES, EXPERIENCE, USER_LEVEL, quote_dialogue
from tasks.benchmarks.talk2code.options import (
    ENTITY_READINGS,
    ENTITY_SOURCE_OPTIONS,
    LEVEL_OPTIONS,
    SEMANTIC_READINGS,
    TURN_OPTIONS,
    turns_of,
)
from tasks.benchmarks.talk2code.stage import ARCHETYPE, ENTRY_POINT, LANGUAGE, LEVEL, TRAIT
from tasks.benchmarks.talk2code.user.hidden_code import HiddenCode
from tasks.benchmarks.talk2code.user.persona_user import PersonaUser
from tasks.dialogue.chat_subject import PartlyScripted
from tasks.dialogue.engine import Cast, Participant, Stop, Transcript
from tasks.language.markdown_code import ExtractedCode
from tasks.language.prompt import PromptTexts, fill

DIRECT, DIRECT_JUDGED, GOLDEN = "direct", "direct_judged", "golden"
INTERACTIVE, INTERACTIVE_JUDGED, INTERACTIVE_MEASURED = (
    "interactive",
    "interactive_judged",
    "interactive_measured",
)
GOLDEN_MEASURED = "golden_measured"
PROMPTS = PromptTexts("tasks.benchmarks.talk2code", ("direct",))
SIMULATOR_PROMPTS = ("simulator",)
INTERACTIVE_PROMPTS = PromptTexts(
    "tasks.benchmarks.talk2code", ("interactive", *SIMULATOR_PROMPTS, "simulator_again", "declined")
)
MOST_REPLY_TOKENS = 512
"""Maximum tokens of a simulated user's reply, which has one to three sentences."""
INTERACTIVE_METRICS = ("reference_disclosure",)
"""Scores that only the interactive settings have."""
BY_TURN = ("entity_match_density", "semantic_probability")
"""Scores of each reply, in settings that measure entities and meaning."""
_JUDGED_RUBRICS = (EXPERIENCE.name, ENTITIES.name, USER_LEVEL.name)
_DIRECT = Setting(
    name=DIRECT,
    help="code after a golden dialogue without its final code (Direct Generation Track)",
    options=(extraction_option("scoring"),),
    history=HistoryPolicy.REFERENCE,
    prompts=PROMPTS,
)
_INTERACTIVE = Setting(
    name=INTERACTIVE,
    help=(
        "dialogue with a simulated user; the model decides when it delivers (Interactive "
        "Dialogue Track)"
    ),
    options=(*TURN_OPTIONS, extraction_option("episode")),
    needs_simulator=True,
    metrics=INTERACTIVE_METRICS,
    prompts=INTERACTIVE_PROMPTS,
    simulator_prompts=SIMULATOR_PROMPTS,
    simulator_tokens=MOST_REPLY_TOKENS,
)
_INTERACTIVE_JUDGED = replace(
    _INTERACTIVE,
    name=INTERACTIVE_JUDGED,
    help=(
        "interactive, and judges rate the dialogue, list its entities (for entity "
        "consistency EC and entity satisfaction ES) and guess the user's level"
    ),
    options=(*_INTERACTIVE.options, *LEVEL_OPTIONS, *ENTITY_READINGS),
    metrics=(*INTERACTIVE_METRICS, *BY_TURN[:1]),
    rubrics=_JUDGED_RUBRICS,
)
_GOLDEN = Setting(
    name=GOLDEN,
    help=(
        "judges rate the unchanged golden dialogues (reference row of Table 1); no model "
        "writes code"
    ),
    rubrics=_JUDGED_RUBRICS[:1],
    runs_programs=False,
)
SETTINGS = {
    setting.name: setting
    for setting in (
        _DIRECT,
        replace(
            _DIRECT,
            name=DIRECT_JUDGED,
            help="direct, and judges rate each dialogue with the model's answer",
            rubrics=_JUDGED_RUBRICS[:1],
        ),
        _INTERACTIVE,
        _INTERACTIVE_JUDGED,
        replace(
            _INTERACTIVE_JUDGED,
            name=INTERACTIVE_MEASURED,
            help="interactive_judged, and vectors of the replies give semantic consistency (SC) and"
            " semantic satisfaction (SS)",
            options=(*_INTERACTIVE_JUDGED.options, *SEMANTIC_READINGS),
            metrics=(*INTERACTIVE_METRICS, *BY_TURN),
            needs_embedder=True,
        ),
        _GOLDEN,
        replace(
            _GOLDEN,
            name=GOLDEN_MEASURED,
            help="golden with consistency and satisfaction of entities (EC, ES; from a person's"
            " notes or a judge) and of meaning (SC, SS)",
            options=(*ENTITY_READINGS, *SEMANTIC_READINGS, *ENTITY_SOURCE_OPTIONS),
            rubrics=_JUDGED_RUBRICS[:2],
            needs_embedder=True,
            metrics=BY_TURN,
        ),
    )
}


def is_interactive(setting: str) -> bool:
    """Return True if the setting has a simulated user."""
    return SETTINGS[setting].needs_simulator


def cast(request: CastRequest) -> Cast:
    """Return the participants of a setting.

    The model under test gets the dialogue, the language and the function's name. It never gets the
    tests or the reference.

    Raises:
        ConfigError: the setting is interactive, and the run has no simulator.
    """
    if request.setting in (DIRECT, DIRECT_JUDGED):
        subject = InstructedSubject(
            request.subject_participant(HistoryPolicy.REFERENCE),
            instruction(request.dialog, PROMPTS["direct"]),
        )
    elif is_interactive(request.setting):
        return _interactive(request)
    else:
        subject = PartlyScripted(request.subject_participant(), golden_answers(request.dialog))
    return scripted_cast(subject, own_texts(request.dialog, request.options))


def _interactive(request: CastRequest) -> Cast:
    """Return the participants of an interactive dialogue.

    The golden dialogue provides the first message and the persona. Only the simulator gets the
    problem and the reference.
    """
    labels, turns = dict(request.dialog.labels), turns_of(request.options)
    language, entry_point = LANGUAGES[labels[LANGUAGE]], labels[ENTRY_POINT]
    opening = next(turn for turn in request.dialog.turns if turn.role is Role.USER)
    alone = replace(request, dialog=request.dialog.model_copy(update={"turns": (opening,)}))
    task = instruction(request.dialog, INTERACTIVE_PROMPTS["interactive"], turns=str(turns))
    user = PersonaUser(
        opening=opening.content or "",
        model=request.user_model,
        sampling=SETTINGS[request.setting].simulated(request.simulator_sampling, request.sampling),
        prompt=partial(simulator_prompt, labels),
        retry_prompt=INTERACTIVE_PROMPTS["simulator_again"],
        refusal=INTERACTIVE_PROMPTS["declined"],
        hidden_code=HiddenCode(
            request.problem.reference_code, language, entry_point, request.problem.prompt
        ),
        is_delivery=lambda answer: (
            delivery_of(answer, language, entry_point, request.options) is not None
        ),
        turns=turns,
    )
    # One more than the model's replies, so that the user ends the dialogue, not the limit.
    return Cast(
        subject=InstructedSubject(alone.subject_participant(), task),
        counterpart=user,
        max_turns=turns + 1,
    )


def simulator_prompt(labels: dict[str, str], transcript: Transcript) -> str:
    """Return the prompt for the simulator's next reply: persona, task, reference and dialogue."""
    traits = [
        (name.removeprefix(TRAIT), text) for name, text in labels.items() if name.startswith(TRAIT)
    ]
    return fill(
        INTERACTIVE_PROMPTS["simulator"],
        archetype=labels[ARCHETYPE].replace("_", " "),
        level=labels[LEVEL],
        traits="\n".join(f"- {name.replace('_', ' ')}: {text}" for name, text in traits),
        problem=transcript.problem.prompt,
        reference=transcript.problem.reference_code.strip("\n"),
        dialogue=quote_dialogue(transcript.messages),
    )


def golden_answers(dialog: Dialog) -> dict[int, str]:
    """Return round -> golden reply; the last one contains the code."""
    return {turn.turn: turn.content or "" for turn in dialog.turns if turn.role is Role.ASSISTANT}


def instruction(dialog: Dialog, prompt: str, **values: str) -> str:
    """Fill a prompt that names the expected language and function."""
    labels = dict(dialog.labels)
    return fill(prompt, language=labels[LANGUAGE], entry_point=labels[ENTRY_POINT], **values)


@dataclass(frozen=True)
class InstructedSubject:
    """Participant that gets an instruction, which the other participant does not see."""

    participant: Participant
    text: str

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """Let `participant` speak with the instruction as the first system message.

        Exceptions that `participant` raises are not caught.
        """
        instruction = Turn(turn=1, role=Role.SYSTEM, content=self.text)
        dialog = transcript.dialog.model_copy(
            update={"turns": (instruction, *transcript.dialog.turns)}
        )
        return await self.participant.speak(replace(transcript, dialog=dialog))


def test_runs(
    problem: Problem, dialog: Dialog, episode: Episode, options: Mapping[str, str]
) -> tuple[TestRun, ...]:
    """Return the test runs of the program from the round in which it is due.

    The runs' `code` is None if there is no program.
    """
    suite = problem.instructions[0].suite
    language = LANGUAGE_OF[suite.kind]
    if is_interactive(episode.setting):
        turn, code = delivery(dialog, episode, options)
        program = None if code is None else ExtractedCode(code)
    else:
        turn = last_round(dialog)
        answer, entry_point = episode.answer(turn), dict(dialog.labels)[ENTRY_POINT]
        program = None if answer is None else program_of(answer, language, entry_point, options)
    return case_runs(turn, program, suite.tests, language, problem.reference_code)


def delivery(dialog: Dialog, episode: Episode, options: Options) -> tuple[int, str | None]:
    """Return the program that an interactive dialogue delivered, and its round.

    Without a program, the code is None, and the round is the last one, or the first without an
    answer if the dialogue was cut off.
    """
    labels = dict(dialog.labels)
    answers = [step for step in episode.messages if step.role is Role.ASSISTANT]
    for answer in answers:
        if code := delivery_of(
            answer.content, LANGUAGES[labels[LANGUAGE]], labels[ENTRY_POINT], options
        ):
            return answer.turn, code
    last = max((answer.turn for answer in answers), default=0)
    return (last if episode.stop_reason is StopReason.TURN_LIMIT else last + 1), None


def last_round(dialog: Dialog) -> int:
    """Return the round of the golden dialogue in which the code is due."""
    return max(turn.turn for turn in dialog.turns)


def gold_answer(problem: Problem, turn: int) -> str:
    """Return the reference in a code block of its language, the same in every round."""
    return (
        f"```{LANGUAGE_OF[problem.instructions[0].suite.kind].name}\n{problem.reference_code}\n```"
    )
