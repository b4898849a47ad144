"""How the program of an answer is found: an option of every setting that runs programs of chat answers."""

from collections.abc import Iterable
from typing import Literal

from tasks.benchmarks.setting import Option, Options
from tasks.language.markdown_code import ExtractedCode, entry_points, paper_code, python_code

EXTRACTION, FIRST_BLOCK, MARKDOWN = "extraction", "first_block", "markdown"


def extraction_option(affects: Literal["episode", "scoring"]) -> Option:
    """Return the option of a setting.

    Args:
        affects: `episode` where seats read programs while the dialogue goes on.
    """
    return Option(
        name=EXTRACTION,
        values=(FIRST_BLOCK, MARKDOWN),
        default=FIRST_BLOCK,
        affects=affects,
        help="program of an answer: the first block, as the papers' scripts find it; or by a Markdown parser the last block that"
        " defines the entry point, else the longest. New runs of models that are asked take markdown, all others first_block",
        new_runs=MARKDOWN,
    )


def reads_markdown(options: Options) -> bool:
    """Tell whether programs are found by the Markdown parser."""
    return options.get(EXTRACTION) == MARKDOWN


def python_program(
    answer: str, options: Options, reference: str, tests: Iterable[str]
) -> ExtractedCode:
    """Return the Python program of an answer by the run's option.

    Args:
        reference: the task's reference code. The names that it defines and `tests` use are the entry points.
    """
    if not reads_markdown(options):
        return paper_code(answer)
    return python_code(answer, entry_points(reference, tuple(tests)))
