"""The three programming languages: extraction of an answer's program, and runs of test cases."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from schemas.problem import BASE_INSTRUCTION, SuiteKind
from tasks.benchmarks.contract import TestRun
from tasks.benchmarks.program_runs import reads_markdown
from tasks.benchmarks.setting import Options
from tasks.language.markdown_code import (
    PYTHON_TAGS,
    ExtractedCode,
    delivered_code,
    is_python,
    markdown_code,
)

_BLOCK = re.compile(
    r"^[ \t]*```[ \t]*([\w+#.-]*)[^\n]*\n(.*?)(?:^[ \t]*```[ \t]*$|\Z)", re.DOTALL | re.MULTILINE
)
_PUBLIC_TYPE = (
    r"public\s+(?=(?:(?:abstract|final|sealed|strictfp)\s+)*(?:class|interface|enum|record)\b)"
)


@dataclass(frozen=True)
class Language:
    """Programming language of tasks."""

    name: str
    """Name in rows, and tag of code blocks."""
    kind: SuiteKind
    tags: tuple[str, ...]
    """Tags of code blocks in this language."""
    definition: str
    """Pattern of a function's definition; NAME stands for the function's name."""

    def defines(self, code: str, name: str) -> bool:
        """Return True if a program defines a function of that name; a call is not enough."""
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
                r"\b(?:function\s*\*?|class)\s*NAME"
                r"|NAME\s*(?:=(?![=>])|:\s*(?:async\s+)?(?:function|\())"
                r"|(?:^|[{};,])\s*(?:(?:static|async)\s+)*NAME\s*\([^;{}]*\)\s*\{",
            ),
        )
    }
)
LANGUAGE_OF: Mapping[SuiteKind, Language] = MappingProxyType(
    {language.kind: language for language in LANGUAGES.values()}
)


def delivered_program(answer: str, language: Language, entry_point: str) -> str | None:
    """Return the first code block of an answer that defines the function; None if there is none.

    Blocks are untagged or tagged with the language. An unterminated block ends with the answer.
    """
    return next(
        (code for code in _blocks(answer, language) if language.defines(code, entry_point)), None
    )


def code_of(answer: str, language: Language, entry_point: str) -> str:
    """Return the program of an answer to a request for code.

    This is the delivered program, else the first code block, else the complete answer.
    """
    program = delivered_program(answer, language, entry_point)
    return next(_blocks(answer, language), answer) if program is None else program


def without_blocks(text: str) -> str:
    """Return a text without its code blocks of any language."""
    return _BLOCK.sub("", text)


def has_code(text: str) -> bool:
    """Return True if a text contains a code block of any language."""
    return _BLOCK.search(text) is not None


def has_block(answer: str, language: Language) -> bool:
    """Return True if an answer has a code block that is untagged or tagged with the language."""
    return next(_blocks(answer, language), None) is not None


def _blocks(answer: str, language: Language) -> Iterator[str]:
    tags = (*language.tags, "")
    return (match.group(2) for match in _BLOCK.finditer(answer) if match.group(1).lower() in tags)


def case_runs(
    turn: int,
    program: ExtractedCode | None,
    cases: tuple[str, ...],
    language: Language,
    reference: str | None = None,
) -> tuple[TestRun, ...]:
    """Return the test runs that decide each case separately.

    In Python all cases are tests of one program, and its verdict lists them. In Java and JavaScript
    a program has a single outcome, so each case has its own program, and the case's number is the
    instruction of the verdict.
    """
    if language.kind == "asserts":
        return (
            TestRun.of(turn, BASE_INSTRUCTION, program, cases, language.kind, reference=reference),
        )
    if language.kind == "java":
        reference = reference and _without_public(reference)
        program = program and replace(program, code=_without_public(program.code))
    return tuple(
        TestRun.of(
            turn,
            f"case {number}",
            program,
            (_program_end(case, language),),
            language.kind,
            reference=reference,
        )
        for number, case in enumerate(cases, 1)
    )


def combined_run(
    code: str, cases: tuple[str, ...], language: Language
) -> tuple[str, tuple[str, ...]]:
    """Return (code, tests) of one program that passes exactly if all cases pass.

    Its outcome does not show how many cases pass (`case_runs` does).
    """
    if language.kind == "asserts":
        return code, cases
    blocks = "\n".join(f"{{\n{case}\n}}" for case in cases)
    return _without_public(code) if language.kind == "java" else code, (
        _program_end(blocks, language),
    )


def _without_public(code: str) -> str:
    """Return Java code in which no outermost type is public: the file has another name.

    A code block may be indented as a whole.
    """
    margins = (line[: -len(line.lstrip())] for line in code.splitlines() if line.strip())
    margin = min(margins, key=len, default="")
    return re.sub(f"^{margin}{_PUBLIC_TYPE}", margin, code, flags=re.MULTILINE)


def _program_end(case: str, language: Language) -> str:
    """Return the text after the code: a block in JavaScript, the class `Main` in Java."""
    if language.kind == "java":
        return (
            f"\nclass Main {{\n    public static void main(String[] arguments) throws Throwable "
            f"{{\n{case}\n    }}\n}}\n"
        )
    return f"\n;{{\n{case}\n}}\n"


def delivery_of(answer: str, language: Language, entry_point: str, options: Options) -> str | None:
    """Return the program that an answer delivers; None if no code block defines the function."""
    if not reads_markdown(options):
        return delivered_program(answer, language, entry_point)
    return delivered_code(answer, _tags(language), [partial(_defines, language, entry_point)])


def program_of(
    answer: str, language: Language, entry_point: str, options: Options
) -> ExtractedCode:
    """Return the program of an answer to a request for code."""
    is_program = partial(_is_program, language, entry_point)
    if reads_markdown(options):
        return markdown_code(
            answer, _tags(language), [partial(_defines, language, entry_point)], is_program
        )
    code = code_of(answer, language, entry_point)
    return ExtractedCode(
        code, has_block(answer, language) or not answer.strip() or is_program(answer)
    )


def _tags(language: Language) -> frozenset[str]:
    return frozenset(language.tags) | (
        PYTHON_TAGS if language.name == "python" else frozenset[str]()
    )


def _defines(language: Language, entry_point: str, code: str) -> bool:
    return language.defines(code, entry_point)


def _is_program(language: Language, entry_point: str, text: str) -> bool:
    return language.defines(text, entry_point) and (language.name != "python" or is_python(text))
