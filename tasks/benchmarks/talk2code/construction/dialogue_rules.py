"""Rules that a written dialogue must keep, each with the name under which a broken one is listed (construction, README.md)."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, ValidationError

from schemas.persona import ExpertiseLevel
from tasks.benchmarks.raw_lines import Text
from tasks.benchmarks.talk2code.languages import LANGUAGES, has_code
from tasks.benchmarks.talk2code.user.guidelines import Guideline, guideline_of, terms_in

COVERAGE = 0.2
"""Share of the statement's words that must be said in the end, at least."""
_NO_PROSE = re.compile(r"^\W*>>>.*\n.*$|^\s*(?:import|from) .*$", re.MULTILINE)
"""Examples with their results, and imports: nobody says them in words."""
_LONGEST_TOLD = 80
_SHORTEST_CODE = 20
"""A line of the reference that is shorter, such as `return False`, may stand in a sentence by chance."""
_COMMENTS = ("#", "//", "/*", "*")
_CODE_LINE = re.compile(
    r"^\s*(?:def \w+\(.*\)\s*(?:->.*)?:|(?:async )?function \w+\(.*\)\s*\{|import \w[\w.*]*;?|from \w[\w.]* import .*"
    r"|(?:public|private|static)\b.*\{|(?:for|while|if) ?\(.*\) ?\{|return\b.*;|(?:const|let|var) \w+ ?=.*)\s*$",
    re.MULTILINE,
)
_WORD = re.compile(r"[a-z]{3,}|\d+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_STEM = 5
_COMMON = frozenset(
    [
        "the",
        "and",
        "for",
        "with",
        "that",
        "this",
        "its",
        "are",
        "has",
        "have",
        "was",
        "been",
        "not",
        "but",
        "can",
        "may",
        "should",
        "would",
        "will",
        "each",
        "from",
        "into",
        "one",
        "two",
        "all",
        "any",
        "when",
        "than",
        "then",
        "there",
        "their",
        "they",
        "them",
        "what",
        "which",
        "how",
        "who",
        "whose",
        "our",
        "your",
        "you",
        "his",
        "her",
        "out",
        "get",
        "got",
        "use",
        "let",
        "also",
        "only",
        "just",
        "very",
    ]
)


class _Message(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)

    role: str
    text: Text


class _Written(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)

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
    """What a dialogue is about, and with whom."""

    level: ExpertiseLevel
    persona: str
    language: str
    names: tuple[str, ...]
    """What the user must have named in the end, beside the language."""
    problem: str
    reference: str
    is_vague: bool = False
    """Whether the user knows details from the reference that the statement leaves open."""

    @property
    def disclosed(self) -> str:
        """Return the texts whose words the user discloses."""
        return f"{self.problem}\n{self.reference}" if self.is_vague else self.problem

    @property
    def guideline(self) -> Guideline:
        """How this user talks."""
        return guideline_of(self.level, self.persona)


@dataclass(frozen=True)
class Broken:
    """A rule that is broken: its name, and what is wrong, in words that a writer is shown."""

    reason: str
    detail: str


@dataclass(frozen=True)
class Rounds:
    """What user and assistant say, round by round. The last reply introduces the program and does not hold it."""

    users: tuple[str, ...]
    replies: tuple[str, ...]


def read_rounds(answer: str) -> Rounds | Broken:
    """The dialogue of a writer's answer: JSON, alone or in other text."""
    begin, end = answer.find("{"), answer.rfind("}")
    try:
        written = _Written.model_validate(json.loads(answer[begin : end + 1]))
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        return Broken(
            "unreadable",
            f"The JSON has not the form that was asked for ({where}: {error.errors()[0]['msg']}).",
        )
    except (ValueError, RecursionError):
        return Broken("unreadable", "The answer holds no JSON that can be read.")
    messages = written.messages
    if [message.role for message in messages] != ["user", "assistant"] * (
        len(messages) // 2
    ) or not messages:
        return Broken(
            "no_alternation",
            "User and assistant do not take turns from a first message of the user to a last reply.",
        )
    texts = [message.text.strip() for message in messages]
    return Rounds(tuple(texts[::2]), tuple(texts[1::2]))


def broken_rules(rounds: Rounds, brief: Brief) -> tuple[Broken, ...]:
    """All rules that a dialogue breaks, the gravest first."""
    found = (
        _early_code(rounds, brief),
        _length(rounds, brief),
        _silent(rounds),
        *_disclosure(rounds, brief),
    )
    return tuple(
        broken
        for broken in (*found, _unnamed(rounds, brief), *_vocabulary(rounds, brief))
        if broken is not None
    )


def _early_code(rounds: Rounds, brief: Brief) -> Broken | None:
    lines = {line.strip().rstrip("{ ") for line in brief.reference.splitlines()}
    code = [
        line for line in lines if len(line) >= _SHORTEST_CODE and not line.startswith(_COMMENTS)
    ]
    telling = [line for line in code if not any(name in line for name in brief.names)]
    for text in (*rounds.users, *rounds.replies):
        if has_code(text) or _CODE_LINE.search(text) or any(line in text for line in telling):
            return Broken(
                "early_code",
                f"A message holds code: {_told(text)}. Nobody writes code; the program is put in later.",
            )
    return None


def _length(rounds: Rounds, brief: Brief) -> Broken | None:
    fewest, most = brief.guideline.rounds
    n = len(rounds.users)
    return (
        None
        if fewest <= n <= most
        else Broken("wrong_length", f"The user speaks {n} times, and not {fewest} to {most} times.")
    )


def _silent(rounds: Rounds) -> Broken | None:
    silent = [text for text in rounds.replies[:-1] if "?" not in text]
    return (
        Broken("no_question", f"A reply before the last one asks nothing: {_told(silent[0])}.")
        if silent
        else None
    )


def disclosed(rounds: Rounds, brief: Brief) -> tuple[int, ...]:
    """What was disclosed when each message of the user ends: words of the statement, and the language, that were said by then.

    Words of a vague task's reference count like those of its statement. They may be the user's own, or stand in a reply before:
    to answer a question is to disclose.
    """
    wanted, said, counts = _stems(brief.disclosed) | _stems(brief.language), set[str](), list[int]()
    for user, reply in zip(rounds.users, rounds.replies, strict=True):
        said |= _stems(user)
        counts.append(len(wanted & said))
        said |= _stems(reply)
    return tuple(counts)


def _disclosure(rounds: Rounds, brief: Brief) -> Iterator[Broken]:
    counts, opening = disclosed(rounds, brief), brief.guideline.opening
    if counts[0] > opening * counts[-1]:
        yield Broken(
            "full_opening",
            f"The first message tells too much at once: {_told(rounds.users[0])}. Begin with a vaguer wish.",
        )
    idle = [
        user
        for user, before, after in zip(rounds.users[1:], counts, counts[1:], strict=False)
        if after <= before
    ]
    if idle:
        yield Broken(
            "no_growth", f"A message of the user settles nothing of the task: {_told(idle[0])}."
        )
    prose = _stems(_NO_PROSE.sub("", brief.problem))
    said = _stems("\n".join((*rounds.users, *rounds.replies[:-1])))
    if len(prose & said) < COVERAGE * len(prose):
        yield Broken(
            "undisclosed",
            "Too much of the task is never said: the program could not be written from this dialogue.",
        )


def _unnamed(rounds: Rounds, brief: Brief) -> Broken | None:
    said = "\n".join(rounds.users)
    missing = [
        name
        for name in brief.names
        if not re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", said)
    ]
    called = "|".join(map(re.escape, LANGUAGES[brief.language].tags))
    missing += [brief.language] * (re.search(rf"\b(?:{called})\b", said, re.IGNORECASE) is None)
    return Broken("unnamed", f"The user never names {' and '.join(missing)}.") if missing else None


def _vocabulary(rounds: Rounds, brief: Brief) -> Iterator[Broken]:
    rule, own = (
        brief.guideline,
        re.compile("|".join(re.escape(name) for name in brief.names) or "$^"),
    )
    bound = rounds.users[:-1] if rule.avoids_until_last else rounds.users
    avoided = terms_in(own.sub(" ", "\n".join(bound)), rule.avoids)
    avoided += terms_in(own.sub(" ", "\n".join(rounds.users)), rule.never_says)
    if avoided:
        yield Broken(
            "wrong_vocabulary",
            f"Such a user, of level {brief.level.value}, does not say: {', '.join(avoided)}.",
        )
    used = terms_in("\n".join(rounds.users), rule.uses)
    if len(used) < rule.least_used:
        said = ", ".join(rule.uses[:12])
        yield Broken(
            "wrong_vocabulary",
            f"A user of level {brief.level.value} uses terms of programming, such as {said}.",
        )


def _stems(text: str) -> set[str]:
    """Words and numbers, by their beginnings, so that `rounded` is `rounding`; names are taken apart."""
    words: Sequence[str] = _WORD.findall(_HUMP.sub(" ", text).lower())
    return {word[:_STEM] for word in words if word not in _COMMON}


def _told(text: str) -> str:
    short = " ".join(text.split())
    return repr(short if len(short) <= _LONGEST_TOLD else f"{short[:_LONGEST_TOLD]}…")
