"""The three languages: how an answer's program is found, and how its test cases are run one by one."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from schemas.problem import BASE_INSTRUCTION, SuiteKind
from tasks.benchmarks.contract import TestRun

_BLOCK = re.compile(
    r"^[ \t]*```[ \t]*([\w+#.-]*)[^\n]*\n(.*?)(?:^[ \t]*```[ \t]*$|\Z)", re.DOTALL | re.MULTILINE
)
_PUBLIC_TYPE = re.compile(
    r"^public\s+(?=(?:(?:abstract|final|sealed|strictfp)\s+)*(?:class|interface|enum|record)\b)",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Language:
    """One language of the tasks."""

    name: str
    """As rows name it, and as code blocks are tagged."""
    kind: SuiteKind
    tags: tuple[str, ...]
    """Tags of code blocks that hold it."""
    definition: str
    """Pattern of a function's definition, with NAME for its name."""

    def defines(self, code: str, name: str) -> bool:
        """Whether a program defines a function of that name; to call it, or to speak of it, is not enough."""
        pattern = self.definition.replace("NAME", rf"(?<![\w$.]){re.escape(name)}(?![\w$])")
        return re.search(pattern, code, re.MULTILINE) is not None


LANGUAGES: Mapping[str, Language] = MappingProxyType(
    {
        language.name: language
        for language in (
            Language(
                "python",
                "asserts",
                ("python", "py", "python3"),
                r"\b(?:def|class)\s+NAME|^\s*NAME\s*=(?!=)",
            ),
            Language(
                "java", "java", ("java",), r"[\w>\]]\s+NAME\s*\([^;{}]*\)\s*(?:throws\b[^;{}]*)?\{"
            ),
            Language(
                "javascript",
                "javascript",
                ("javascript", "js", "node"),
                r"\b(?:function\s*\*?|class)\s*NAME|NAME\s*(?:=(?![=>])|:\s*(?:async\s+)?(?:function|\())"
                r"|(?:^|[{};,])\s*(?:(?:static|async)\s+)*NAME\s*\([^;{}]*\)\s*\{",
            ),
        )
    }
)
LANGUAGE_OF: Mapping[SuiteKind, Language] = MappingProxyType(
    {language.kind: language for language in LANGUAGES.values()}
)


def delivered(answer: str, language: Language, entry_point: str) -> str | None:
    """The program that an answer delivers: its first code block that defines the function; None where it delivers none.

    Blocks are tagged with the language or untagged. A block that nothing closes ends with the answer.
    """
    return next(
        (code for code in _blocks(answer, language) if language.defines(code, entry_point)), None
    )


def code_of(answer: str, language: Language, entry_point: str) -> str:
    """The program of an answer that was asked for one: what it delivers, else its first code block, else all of it."""
    found = delivered(answer, language, entry_point)
    return next(_blocks(answer, language), answer) if found is None else found


def without_blocks(text: str) -> str:
    """A text without its code blocks, of any language."""
    return _BLOCK.sub("", text)


def has_code(text: str) -> bool:
    """Whether a text holds a code block, of any language."""
    return _BLOCK.search(text) is not None


def has_block(answer: str, language: Language) -> bool:
    """Tell whether an answer has a code block that is tagged with the language, or untagged."""
    return next(_blocks(answer, language), None) is not None


def _blocks(answer: str, language: Language) -> Iterator[str]:
    known = (*language.tags, "")
    return (match.group(2) for match in _BLOCK.finditer(answer) if match.group(1).lower() in known)


def case_runs(
    turn: int,
    code: str | None,
    cases: tuple[str, ...],
    language: Language,
    reference: str | None = None,
    is_readable: bool = True,
) -> tuple[TestRun, ...]:
    """The programs that decide the cases one by one.

    Python runs them all as tests of one program, each a case of its verdict. Java and JavaScript have one program for each case,
    since such a program has a single end; the case's number is the verdict's instruction.
    """
    if language.kind == "asserts":
        return (
            TestRun(
                turn,
                BASE_INSTRUCTION,
                code,
                cases,
                language.kind,
                reference=reference,
                is_readable=is_readable,
            ),
        )
    program, known = (
        text if text is None or language.kind != "java" else _PUBLIC_TYPE.sub("", text)
        for text in (code, reference)
    )
    return tuple(
        TestRun(
            turn,
            f"case {number}",
            program,
            (_ending(case, language),),
            language.kind,
            reference=known,
            is_readable=is_readable,
        )
        for number, case in enumerate(cases, 1)
    )


def whole_run(code: str, cases: tuple[str, ...], language: Language) -> tuple[str, tuple[str, ...]]:
    """One program that passes where the code passes all cases: (code, tests). It does not tell how many passed."""
    if language.kind == "asserts":
        return code, cases
    blocks = "\n".join(f"{{\n{case}\n}}" for case in cases)
    return _PUBLIC_TYPE.sub("", code) if language.kind == "java" else code, (
        _ending(blocks, language),
    )


def _ending(case: str, language: Language) -> str:
    """What follows the code: a block of its own in JavaScript, the class `Main` in Java."""
    if language.kind == "java":
        return f"\nclass Main {{\n    public static void main(String[] arguments) throws Throwable {{\n{case}\n    }}\n}}\n"
    return f"\n;{{\n{case}\n}}\n"
