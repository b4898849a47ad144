"""Rules for written dialogues. README.md lists them with the names of their violations."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from schemas.dialog import ExpertiseLevel
from tasks.benchmarks.raw_rows import RawModel, Text
from tasks.benchmarks.talk2code.languages import LANGUAGES, has_code
from tasks.benchmarks.talk2code.user.persona_user import Guideline, guideline_of, terms_in

COVERAGE = 0.2
"""Minimum share of the statement's words that the dialogue must contain."""
_NON_PROSE = re.compile(r"^\W*>>>.*\n.*$|^\s*(?:import|from) .*$", re.MULTILINE)
"""Examples with results, and imports, which are not expressed in prose."""
_LONGEST_EXCERPT = 80
_SHORTEST_CODE = 20
"""Minimum length of a reference line to search for: shorter ones, such as `return False`, can occur
in a sentence by chance."""
_COMMENTS = ("#", "//", "/*", "*")
_CODE_LINE = re.compile(
    r"^\s*(?:def \w+\(.*\)\s*(?:->.*)?:|(?:async )?function \w+\(.*\)\s*\{"
    r"|import \w[\w.*]*;?|from \w[\w.]* import .*|(?:public|private|static)\b.*\{"
    r"|(?:for|while|if) ?\(.*\) ?\{|return\b.*;|(?:const|let|var) \w+ ?=.*)\s*$",
    re.MULTILINE,
)
_WORD = re.compile(r"[a-z]{3,}|\d+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_STEM = 5
_COMMON = frozenset(
    (
        *("the", "and", "for", "with", "that", "this", "its", "are", "has", "have", "was"),
        *("been", "not", "but", "can", "may", "should", "would", "will", "each", "from", "into"),
        *("one", "two", "all", "any", "when", "than", "then", "there", "their", "they", "them"),
        *("what", "which", "how", "who", "whose", "our", "your", "you", "his", "her", "out"),
        *("get", "got", "use", "let", "also", "only", "just", "very"),
    )
)


class _Message(RawModel):
    role: str
    text: Text


class _Answer(RawModel):
    messages: list[_Message]


ANSWER_SCHEMA: Mapping[str, object] = {
    "type": "object",
    "properties": {
        "messages": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "role": {"type": "string", "enum": ["user", "assistant"]},
                    "text": {"type": "string"},
                },
                "required": ["role", "text"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["messages"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Brief:
    """Requirements of a dialogue to write: its user, its task, and the names to mention."""

    level: ExpertiseLevel
    persona: str
    language: str
    names: tuple[str, ...]
    """Names that the user must mention, besides the language."""
    problem: str
    reference: str
    is_vague: bool = False
    """True if the user knows details of the reference that the statement omits."""

    @property
    def disclosed_text(self) -> str:
        """Text whose words the user must disclose in the course of the dialogue."""
        return f"{self.problem}\n{self.reference}" if self.is_vague else self.problem

    @property
    def guideline(self) -> Guideline:
        """Guideline for the wording of users of this level and persona."""
        return guideline_of(self.level, self.persona)


@dataclass(frozen=True)
class Violation:
    """Violation of a rule: its name, and an explanation that the writing model is shown."""

    reason: str
    detail: str


@dataclass(frozen=True)
class Rounds:
    """Messages of user and assistant by round. The last reply announces the program without it."""

    users: tuple[str, ...]
    replies: tuple[str, ...]


def read_rounds(answer: str) -> Rounds | Violation:
    """Read the dialogue from the writing model's answer: JSON, alone or within other text."""
    begin, end = answer.find("{"), answer.rfind("}")
    try:
        answer_messages = _Answer.model_validate(json.loads(answer[begin : end + 1]))
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        return Violation(
            "unreadable",
            f"The JSON has not the form that was asked for ({where}: {error.errors()[0]['msg']}).",
        )
    except (ValueError, RecursionError):
        return Violation("unreadable", "The answer holds no JSON that can be read.")
    messages = answer_messages.messages
    if [message.role for message in messages] != ["user", "assistant"] * (
        len(messages) // 2
    ) or not messages:
        return Violation(
            "no_alternation",
            (
                "User and assistant do not take turns from a first message of the user to a last "
                "reply."
            ),
        )
    texts = [message.text.strip() for message in messages]
    return Rounds(tuple(texts[::2]), tuple(texts[1::2]))


def violations(rounds: Rounds, brief: Brief) -> tuple[Violation, ...]:
    """Return all rules that a dialogue violates, the most serious first."""
    dialogue_rules = (
        _early_code(rounds, brief),
        _length(rounds, brief),
        _missing_question(rounds),
        *_disclosure(rounds, brief),
    )
    return tuple(
        violation
        for violation in (
            *dialogue_rules,
            _missing_names(rounds, brief),
            *_vocabulary(rounds, brief),
        )
        if violation is not None
    )


def _early_code(rounds: Rounds, brief: Brief) -> Violation | None:
    lines = {line.strip().rstrip("{ ") for line in brief.reference.splitlines()}
    code = [
        line for line in lines if len(line) >= _SHORTEST_CODE and not line.startswith(_COMMENTS)
    ]
    revealing = [line for line in code if not any(name in line for name in brief.names)]
    for text in (*rounds.users, *rounds.replies):
        if has_code(text) or _CODE_LINE.search(text) or any(line in text for line in revealing):
            return Violation(
                "early_code",
                (
                    f"A message holds code: {_excerpt(text)}. Nobody writes code; the program is "
                    "put in later."
                ),
            )
    return None


def _length(rounds: Rounds, brief: Brief) -> Violation | None:
    fewest, most = brief.guideline.rounds
    n = len(rounds.users)
    return (
        None
        if fewest <= n <= most
        else Violation(
            "wrong_length", f"The user speaks {n} times, and not {fewest} to {most} times."
        )
    )


def _missing_question(rounds: Rounds) -> Violation | None:
    silent_replies = [text for text in rounds.replies[:-1] if "?" not in text]
    return (
        Violation(
            "no_question",
            f"A reply before the last one asks nothing: {_excerpt(silent_replies[0])}.",
        )
        if silent_replies
        else None
    )


def disclosure_counts(rounds: Rounds, brief: Brief) -> tuple[int, ...]:
    """Count the disclosed words of the task after each message of the user.

    These are words of the task statement and of the programming language's name. For a vague task,
    words of the reference program count, too. A word counts from its first mention by user or
    assistant, because answering the assistant's question discloses it.
    """
    task_stems, stems, counts = (
        _stems(brief.disclosed_text) | _stems(brief.language),
        set[str](),
        list[int](),
    )
    for user, reply in zip(rounds.users, rounds.replies, strict=True):
        stems |= _stems(user)
        counts.append(len(task_stems & stems))
        stems |= _stems(reply)
    return tuple(counts)


def _disclosure(rounds: Rounds, brief: Brief) -> Iterator[Violation]:
    counts, opening = disclosure_counts(rounds, brief), brief.guideline.opening
    if counts[0] > opening * counts[-1]:
        yield Violation(
            "full_opening",
            (
                f"The first message tells too much at once: {_excerpt(rounds.users[0])}. Begin "
                "with a vaguer wish."
            ),
        )
    idle_messages = [
        user
        for user, before, after in zip(rounds.users[1:], counts, counts[1:], strict=False)
        if after <= before
    ]
    if idle_messages:
        yield Violation(
            "no_growth",
            f"A message of the user settles nothing of the task: {_excerpt(idle_messages[0])}.",
        )
    statement_stems = _stems(_NON_PROSE.sub("", brief.problem))
    dialogue_stems = _stems("\n".join((*rounds.users, *rounds.replies[:-1])))
    if len(statement_stems & dialogue_stems) < COVERAGE * len(statement_stems):
        yield Violation(
            "undisclosed",
            (
                "Too much of the task is never said: the program could not be written from this "
                "dialogue."
            ),
        )


def _missing_names(rounds: Rounds, brief: Brief) -> Violation | None:
    user_text = "\n".join(rounds.users)
    missing_names = [
        name
        for name in brief.names
        if not re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", user_text)
    ]
    tags = "|".join(map(re.escape, LANGUAGES[brief.language].tags))
    missing_names += [brief.language] * (
        re.search(rf"\b(?:{tags})\b", user_text, re.IGNORECASE) is None
    )
    return (
        Violation("unnamed", f"The user never names {' and '.join(missing_names)}.")
        if missing_names
        else None
    )


def _vocabulary(rounds: Rounds, brief: Brief) -> Iterator[Violation]:
    rule, own_names = (
        brief.guideline,
        re.compile("|".join(re.escape(name) for name in brief.names) or "$^"),
    )
    bound = rounds.users[:-1] if rule.avoids_until_last else rounds.users
    avoided_terms = terms_in(own_names.sub(" ", "\n".join(bound)), rule.avoids)
    avoided_terms += terms_in(own_names.sub(" ", "\n".join(rounds.users)), rule.never_says)
    if avoided_terms:
        yield Violation(
            "wrong_vocabulary",
            f"Such a user, of level {brief.level.value}, does not say: {', '.join(avoided_terms)}.",
        )
    used_terms = terms_in("\n".join(rounds.users), rule.uses)
    if len(used_terms) < rule.least_used:
        examples = ", ".join(rule.uses[:12])
        yield Violation(
            "wrong_vocabulary",
            f"A user of level {brief.level.value} uses terms of programming, such as {examples}.",
        )


def _stems(text: str) -> set[str]:
    """Return the stems of words and numbers, so that `rounded` equals `rounding`.

    Names in camel case are split.
    """
    words: Sequence[str] = _WORD.findall(_HUMP.sub(" ", text).lower())
    return {word[:_STEM] for word in words if word not in _COMMON}


def _excerpt(text: str) -> str:
    short = " ".join(text.split())
    return repr(short if len(short) <= _LONGEST_EXCERPT else f"{short[:_LONGEST_EXCERPT]}…")
