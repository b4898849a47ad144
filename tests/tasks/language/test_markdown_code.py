"""The program in an answer, by a Markdown parser: the forms that models give their code in, and
another parser's fences.
"""

import random
from collections.abc import Iterator

import pytest
from commonmark import Parser

from tasks.language.markdown_code import (
    entry_points,
    fenced_blocks,
    paper_code,
    python_code,
)

F = "def f(x):\n    return x\n"
INDENTED = "   def f(x):\n       return x\n"
FORMS = {
    "py": f"```py\n{F}```",
    "python3": f"```python3\n{F}```",
    "Python": f"```Python\n{F}```",
    "version": f"```python3.11 title=a\n{F}```",
    "attributes": f"``` {{.python .numberLines}}\n{F}```",
    "file": f"```python:main.py\n{F}```",
    "windows": f"```python\n{F}```".replace("\n", "\r\n"),
    "untagged": f"Here it is:\n\n```\n{F}```\nDone.",
    "tildes": f"~~~python\n{F}~~~",
    "other tag": f"```code\n{F}```",
    "in a list": (
        f"1. The function:\n\n   ```python\n{INDENTED}   ```\n\n2. Its use:\n\n   ```python\n   "
        "f(3)\n   ```\n"
    ),
    "badly indented in a list": f"1. The function:\n   ```python\n{F}   ```\nThat is all.\n",
    "four spaces": "Look:\n\n    ```python\n    def f(x):\n        return x\n    ```\n",
    "quoted": "> ```python\n> def f(x):\n>     return x\n> ```\n",
    "after a tag of HTML": f"<details>\n```python\n{F}```\n</details>\n",
    "unterminated": f"```python\n{F}",
    "stray closing fence": f"```python\n{F}```\n```\n",
    "closing fence alone": f"{F}```",
    "opened by the prompt": f"{F}```\nIt returns its argument.\n",
    "longer fence": f"````python\n{F}````",
    "last is final": (
        f"A draft:\n```python\ndef f(x):\n    return 0\n```\nBetter:\n```python\n{F}```"
    ),
    "use comes last": (
        f"```python\n{F}```\nFor example:\n```python\nprint(f(3))  # longer than the program "
        "itself\n```"
    ),
    "output comes last": f"```python\n{F}```\nwhich prints\n```text\n3\n```",
    "no fence": F,
}


@pytest.mark.parametrize("form", FORMS)
def test_the_program_is_found_in_each_form(form: str) -> None:
    found = python_code(FORMS[form], ("f",))
    assert (found.code.replace("\r\n", "\n"), found.is_readable) == (F, True)


def test_the_papers_rule_reads_few_of_them_and_says_so() -> None:
    read = {
        form for form, answer in FORMS.items() if paper_code(answer).code.replace("\r\n", "\n") == F
    }
    assert read == {
        *(
            "windows",
            "after a tag of HTML",
            "stray closing fence",
            "longer fence",
            "use comes last",
        ),
        *("output comes last", "no fence"),
    }
    assert not paper_code(FORMS["py"]).is_readable
    assert not paper_code(FORMS["untagged"]).is_readable
    assert paper_code(F).is_readable
    assert paper_code("").is_readable


def test_without_a_name_the_longest_block_is_the_program_and_tagged_ones_come_first() -> None:
    answer = (
        f"```python\nf(1)\n```\n```py\n{F}```\n```\na long text that some program has printed, "
        "which is no program\n```"
    )
    assert python_code(answer).code == F
    assert python_code("```\na\n```\n```\nbb\n```\n```\ncc\n```").code == "cc\n"


def test_a_fence_in_a_docstring_ends_no_block() -> None:
    code = 'def f(x):\n    """Return x.\n\n    ```\n    f(1)\n    ```\n    """\n    return x\n'
    assert python_code(f"```python\n{code}```", ("f",)).code == code


def test_all_names_are_wanted_before_any() -> None:
    both = "class A:\n    pass\n\n\ndef f():\n    return A()\n"
    assert (
        python_code(f"```python\n{both}```\n```python\ndef f():\n    pass\n```", ("A", "f")).code
        == both
    )
    assert (
        python_code("```python\nf: int = 1\n```\n```python\nf == 2\n```", ("A", "f")).code
        == "f: int = 1\n"
    )


@pytest.mark.parametrize(
    "answer", ["I cannot help with that.", "```bash\npip install x\n```", "def f(:\n  return"]
)
def test_an_answer_without_a_program_is_unreadable(answer: str) -> None:
    assert not python_code(answer, ("f",)).is_readable


def test_entry_points_are_what_the_tests_name_else_the_first_definition() -> None:
    helper, rest = (
        "def helper():\n    pass\n",
        "async def main():\n    pass\n\n\nclass Box:\n    def put(self):\n        pass\n",
    )
    reference = f"import re\n\n\n{helper}\n\n{rest}"
    assert entry_points(reference, ("assert Box().put() == main()",)) == ("main", "Box")
    assert entry_points(reference, ("tests/test_a.py::test_put",)) == ("helper",)
    assert entry_points("    def method(self):\n        return 1\n", ()) == ("method",)
    assert entry_points("", ("x",)) == ()


PIECES = (
    *(
        "Some words.\n",
        "\n",
        "\n\n",
        "- item\n",
        "  - inner\n",
        "1. first\n",
        "   more\n",
        "10) ten\n",
        "> quoted\n",
        "> > twice\n",
    ),
    *(
        "```python\n",
        "```py\n",
        "```\n",
        "````\n",
        "~~~\n",
        "~~~~ python x\n",
        "  ```\n",
        "   ```python\n",
        "    ```\n",
        "\t```\n",
    ),
    *(
        "> ```\n",
        "- ```python\n",
        "  x = 1\n",
        "def f():\n",
        "    return 1\n",
        "\treturn 2\n",
        "# Title\n",
        "---\n",
        "`code`\n",
        "``` a`b\n",
    ),
    *(
        "x = 1\r\n",
        "```python\r\n",
        "```\r\n",
        "* * *\n",
        "Title\n===\n",
        "text ```\n",
        "```python {.a}\n",
        "+ x\n\n      deep\n",
    ),
)


def texts(n: int) -> Iterator[str]:
    """Documents made of pieces that Markdown reads differently by what stands around them; always
    the same ones.
    """
    drawn = random.Random(35)
    for _ in range(n):
        pieces = drawn.choices(PIECES, k=drawn.randint(1, 14))
        yield "".join(pieces)[: None if drawn.random() < 0.8 else -1]


def test_fences_are_those_of_another_parser() -> None:
    n_blocks = 0
    for text in texts(800):
        tree = Parser().parse(text)
        fenced = [
            node
            for node, entering in tree.walker()
            if entering and node.t == "code_block" and node.is_fenced
        ]
        expected = [
            node.literal.rstrip("\n") for node in fenced
        ]  # of a block that the text's end closes it adds a line
        assert [block.code.rstrip("\n") for block in fenced_blocks(text)] == expected, text
        n_blocks += len(expected)
    assert n_blocks > 900
