"""Simulated user: a model that plays a persona, knows the reference, and hides its code.

A persona (Programming User Taxonomy) is a YAML file. `guidelines.yaml` has guidelines for the
wording of users by level and persona, which the paper calls Manual Dialogue Curation. Prompts and
rules for written dialogues use the guidelines.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import yaml
from pydantic import Field, ValidationError

from schemas.base import Frozen
from schemas.dialog import ExpertiseLevel, Persona, Role
from schemas.episode import Step, StopReason
from schemas.errors import ModelUnavailable, SourceUnreadable
from schemas.run import Sampling
from tasks.benchmarks.raw_rows import Text
from tasks.benchmarks.talk2code.user.hidden_code import HiddenCode
from tasks.dialogue.engine import Stop, Transcript
from tasks.language.chat_model import (
    ChatModel,
    Completion,
    Message,
    Messages,
    Unreadable,
    ask_simulator,
    spent,
    with_follow_up,
)
from tasks.language.prompt import fill

FOLDER = "personas"
SUFFIX = ".yaml"
BUILT = ".persona.yaml"


class PersonaFile(Frozen):
    """Content of a persona's file."""

    level: ExpertiseLevel
    background: Text
    communication_style: Text
    request_types: Text
    cognitive_tendencies: Text
    interaction_expectations: Text

    def persona(self, name: str) -> Persona:
        """Return the persona with this name, its traits in the order of the fields."""
        traits = self.model_dump(exclude={"level"})
        return Persona(persona_id=name, level=self.level, traits=tuple(traits.items()))


@cache
def bundled_personas() -> Mapping[str, Persona]:
    """Return the paper's six archetypes, two of each level."""
    return _read((files("tasks.benchmarks.talk2code") / FOLDER).iterdir())


def personas_of(source: Path) -> Mapping[str, Persona]:
    """Return the bundled personas and those of the data, which override bundled ones of equal name.

    The files of the data's personas are in its subfolder `personas`, or in its folder itself as
    `NAME.persona.yaml`, where a build writes them.

    Raises:
        SourceUnreadable: a file is not a valid persona.
    """
    data_folder = source if source.is_dir() else source.parent
    folder = data_folder / FOLDER
    built_personas = {
        name: _persona(name, file)
        for file in sorted(data_folder.glob(f"*{BUILT}"))
        if (name := file.name.removesuffix(BUILT))
    }
    return {
        **bundled_personas(),
        **built_personas,
        **(_read(folder.iterdir()) if folder.is_dir() else {}),
    }


def persona_file(persona: Persona) -> tuple[str, str]:
    """Return name and text of a persona's file, which `personas_of` finds in the data's folder."""
    text = yaml.safe_dump(
        {"level": persona.level.value, **dict(persona.traits)}, sort_keys=False, allow_unicode=True
    )
    return f"{persona.persona_id}{BUILT}", text


def _read(files: Iterable[Traversable]) -> dict[str, Persona]:
    persona_files = sorted(
        (file for file in files if file.name.endswith(SUFFIX)), key=lambda file: file.name
    )
    return {
        (name := file.name.removesuffix(SUFFIX)): _persona(name, file) for file in persona_files
    }


def _persona(name: str, file: Traversable) -> Persona:
    try:
        return PersonaFile.model_validate(yaml.safe_load(file.read_text(encoding="utf-8"))).persona(
            name
        )
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValidationError) as error:
        fields = ", ".join(PersonaFile.model_fields)
        raise SourceUnreadable(
            f"persona {file}: {str(error).splitlines()[0]}. The file must have the fields {fields}"
        ) from None


FILE = "guidelines.yaml"


class Guideline(Frozen):
    """Guideline for users of a level or a persona."""

    rounds: tuple[int, int]
    """Minimum and maximum number of the user's messages."""
    opening: float = Field(gt=0, lt=1)
    """Maximum share of all disclosed words that the first message may contain."""
    guidance: str
    avoids: tuple[str, ...]
    """Terms that the user does not use."""
    avoids_until_last: bool = False
    """True if the last message, which states names that tests call, may contain `avoids` terms."""
    never_says: tuple[str, ...] = ()
    """Terms that the persona does not use in any message."""
    uses: tuple[str, ...] = ()
    """Terms of which the user uses at least `least_used`."""
    least_used: int = 0
    """Minimum number of terms from `uses`."""


class _File(Frozen):
    levels: Mapping[ExpertiseLevel, Guideline]
    personas: Mapping[str, tuple[str, ...]]


@cache
def _file() -> _File:
    return _File.model_validate(yaml.safe_load(guideline_text()))


def guideline_of(level: ExpertiseLevel, persona: str = "") -> Guideline:
    """Return the guideline of a level, with the terms that a persona never says."""
    return (
        _file().levels[level].model_copy(update={"never_says": _file().personas.get(persona, ())})
    )


def guideline_text() -> str:
    """Return the text of the file, which is part of a build's id."""
    return (files("tasks.benchmarks.talk2code") / FILE).read_text(encoding="utf-8")


def terms_in(text: str, terms: tuple[str, ...]) -> tuple[str, ...]:
    """Return the terms that a text contains as words, ignoring case and endings.

    For example, `integers` contains the term `integer`.
    """
    return tuple(term for term in terms if _pattern(term).search(text))


@cache
def _pattern(term: str) -> re.Pattern[str]:
    spaced = r"\s+".join(map(re.escape, term.split()))
    ending = r"(?:s|es|d|ed|ing)?(?!\w)" if term[-1].isalnum() else ""
    return re.compile(rf"(?<![\w.]){spaced}{ending}", re.IGNORECASE)


TRIES = 3
WORDINGS, LEAKS = "wordings", "wordings_with_code"
"""Labels of a simulated reply: the number of drafts, and how many of them disclosed the code."""
_NAME = "User:"


@dataclass(frozen=True)
class PersonaUser:
    """Simulated user who sends an opening, then replies until the assistant delivers.

    The dialogue also ends when the assistant has used all its replies. A draft that discloses the
    code is rejected, and the model writes another. After `TRIES` rejected drafts, the last one is
    sent without the code. If nothing remains, `refusal` is sent.
    """

    opening: str
    model: ChatModel
    sampling: Sampling
    prompt: Callable[[Transcript], str]
    """Function that returns the prompt for the next reply."""
    retry_prompt: str
    """Prompt for another draft. Placeholder: reason."""
    refusal: str
    hidden_code: HiddenCode
    is_delivery: Callable[[str], bool]
    """Return True if the assistant's answer delivers the program."""
    turns: int
    """Maximum number of the assistant's replies, 1 and up."""

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """Return the user's message of round `transcript.turn`, or the end of the dialogue.

        Raises:
            ModelUnavailable: the simulator gave no usable reply. The model under test is not to
                blame.
        """
        if transcript.turn == 1:
            return Step(turn=1, role=Role.USER, content=self.opening)
        if self.is_delivery(transcript.messages[-1].content):
            return Stop(StopReason.FINISHED)
        if transcript.turn > self.turns:
            return Stop(StopReason.TURN_LIMIT)
        return await self._reply(transcript)

    async def _reply(self, transcript: Transcript) -> Step:
        first = (Message(Role.USER, self.prompt(transcript)),)
        earlier = transcript.texts(Role.USER)
        request = transcript.request(first, self.sampling)

        def repair_messages(answer: str, reason: str) -> Messages:
            return with_follow_up(first, answer, fill(self.retry_prompt, reason=reason))

        result = await ask_simulator(
            self.model, request, repair_messages, partial(self._read_reply, earlier), tries=TRIES
        )
        text = (
            result.value
            if result.value is not None
            else self._without_code(transcript, result.answers)
        )
        n_leaks = sum(
            self.hidden_code.fault(answer.content, earlier) is not None for answer in result.answers
        )
        return Step(
            turn=transcript.turn,
            role=Role.USER,
            content=text,
            **result.cost,
            labels=((WORDINGS, str(len(result.answers))), (LEAKS, str(n_leaks))),
        )

    def _read_reply(self, earlier: Sequence[str], answer: str) -> str:
        text = answer.strip().removeprefix(_NAME).strip()
        if not text:
            raise Unreadable("it is empty")
        if fault := self.hidden_code.fault(text, earlier):
            raise Unreadable(fault)
        return text

    def _without_code(self, transcript: Transcript, answers: tuple[Completion, ...]) -> str:
        """Return the last rejected draft without its code.

        Raises ModelUnavailable if all drafts are empty.
        """
        wordings = [answer.content for answer in answers if answer.content.strip()]
        if not wordings:
            raise ModelUnavailable(
                f"simulator {self.model.identity.label}: {len(answers)} replies in round "
                f"{transcript.turn} of "
                f"{transcript.problem.problem_id} are empty (finish reason of the last:"
                f" {answers[-1].finish_reason or 'none'}). Name a simulator with a longer context",
                n_calls=spent(answers).n_calls,
            )
        return (
            self.hidden_code.without_code(wordings[-1], transcript.texts(Role.USER)) or self.refusal
        )
