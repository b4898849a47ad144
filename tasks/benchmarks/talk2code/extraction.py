"""Extraction of an answer's program, by the run's option `extraction`."""

from functools import partial

from tasks.benchmarks.extraction import reads_markdown
from tasks.benchmarks.setting import Options
from tasks.benchmarks.talk2code.languages import Language, code_of, delivered_program, has_block
from tasks.language.markdown_code import (
    PYTHON_TAGS,
    ExtractedCode,
    delivered_code,
    is_python,
    markdown_code,
)


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
