"""Option that selects how an answer's program is extracted."""

from collections.abc import Iterable
from typing import Literal

from tasks.benchmarks.setting import Option, Options
from tasks.language.markdown_code import ExtractedCode, entry_points, paper_code, python_code

EXTRACTION, FIRST_BLOCK, MARKDOWN = "extraction", "first_block", "markdown"


def extraction_option(affects: Literal["episode", "scoring"]) -> Option:
    """Return the extraction option of a setting.

    Args:
        affects: `episode` if participants read programs during the dialogue.
    """
    return Option(
        name=EXTRACTION,
        values=(FIRST_BLOCK, MARKDOWN),
        default=FIRST_BLOCK,
        affects=affects,
        help="how to extract the program of an answer: the first code block, as the papers' scripts"
        " do, or with a Markdown parser the last block that defines the entry point, else the"
        " longest block. The default is markdown in new runs of models, else first_block",
        new_runs=MARKDOWN,
    )


def reads_markdown(options: Options) -> bool:
    """Return True if programs are extracted with the Markdown parser."""
    return options.get(EXTRACTION) == MARKDOWN


def python_program(
    answer: str, options: Options, reference: str, tests: Iterable[str]
) -> ExtractedCode:
    """Return the Python program of an answer, extracted according to the run's option.

    Args:
        answer: Text of the answer.
        options: Options of the run.
        reference: Reference code of the task. The names that it defines and `tests` use are the
            entry points.
        tests: Texts of the tests.
    """
    if not reads_markdown(options):
        return paper_code(answer)
    return python_code(answer, entry_points(reference, tuple(tests)))
