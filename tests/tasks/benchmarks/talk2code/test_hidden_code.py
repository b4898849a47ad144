"""The reference is found in a user's words, however it is written, and prose about it is no part of
it.
"""

import re

import pytest

from schemas.dialog import Role
from tasks.benchmarks.talk2code.languages import LANGUAGE_OF, LANGUAGES
from tasks.benchmarks.talk2code.stage import ENTRY_POINT
from tasks.benchmarks.talk2code.user.hidden_code import MOST_DISCLOSED, HiddenCode, body_of
from tests.tasks.benchmarks.talk2code.played import STREAK, dialogue, sample

PROBLEMS = [problem.problem_id for problem in sample().problems]


def hidden_of(problem_id: str) -> HiddenCode:
    problem = next(problem for problem in sample().problems if problem.problem_id == problem_id)
    dialog = next(dialog for dialog in sample().dialogs if dialog.problem_id == problem_id)
    language = LANGUAGE_OF[problem.instructions[0].suite.kind]
    return HiddenCode(
        problem.reference_code, language, dict(dialog.labels)[ENTRY_POINT], problem.prompt
    )


def renamed(hidden: HiddenCode) -> str:
    """The reference with other names for its own variables."""
    own = (
        "best|current|amount|cups|goal|total|line|lines|discount|made|word|start|order|orders|sorted|parts|first"
        "|allowed|isAllowed|time|times"
    )
    return re.sub(rf"\b(?:{own})\b(?!['\"(])", lambda match: f"v_{match[0][:3]}", hidden.reference)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_whole_reference_is_found_in_every_form(name: str) -> None:
    hidden = hidden_of(name)
    inside = body_of(hidden.reference, hidden.language, hidden.entry_point)
    mark = "#" if hidden.language.name == "python" else "//"
    forms = {
        "fenced": f"Take this:\n```\n{hidden.reference}\n```\nThat is all.",
        "bare": f"Do it like this. {hidden.reference}",
        "body": f"```{hidden.language.name}\n{inside}\n```",
        "renamed": f"It's so:\n{renamed(hidden)}",
        "packed": f"So: {' '.join(hidden.reference.split())}",
        "in quotes": f'Like this:\n"""\n{hidden.reference}\n"""',
        "commented": "\n".join(f"{mark} {line}" for line in hidden.reference.splitlines()),
    }
    if hidden.language.name == "python":
        del forms["packed"]
    shares = {form: hidden.disclosed_share((text,)) for form, text in forms.items()}
    assert {form: share for form, share in shares.items() if share < 0.95} == {}
    assert all(hidden.fault(text) for text in forms.values())


@pytest.mark.parametrize("name", PROBLEMS)
def test_lines_that_are_told_one_a_round_add_up(name: str) -> None:
    hidden = hidden_of(name)
    told = [
        f"The next thing is `{line.strip()}`."
        for line in hidden.reference.splitlines()
        if line.strip()
    ]
    shares = [hidden.disclosed_share(told[:n]) for n in range(len(told) + 1)]
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert shares[-1] > 0.7
    assert not any(
        hidden.fault(text, told[:n])
        for n, text in enumerate(told)
        if shares[n + 1] < MOST_DISCLOSED
    )


@pytest.mark.parametrize("name", PROBLEMS)
def test_what_golden_users_say_is_no_disclosure(name: str) -> None:
    hidden = hidden_of(name)
    for dialog in (dialog for dialog in sample().dialogs if dialog.problem_id == name):
        said = [turn.content or "" for turn in dialog.turns if turn.role is Role.USER]
        assert hidden.disclosed_share(said) == 0
        assert not any(hidden.fault(text, said[:n]) for n, text in enumerate(said))


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        (
            "def ok(x):\n    if x > 0:\n        return True\n    else:\n        return False\n",
            "It should return True if x is greater than 0, otherwise return False.",
        ),
        (
            "def ok(a, b):\n    return max(a, b) if a else min(a, b)\n",
            "Don't use max or min (they're slow), if a, b are given.",
        ),
        (
            (
                "import math\nfrom typing import List\n\ndef ok(x):\n    return math.floor(x / 2 "
                "+ 1)\n"
            ),
            "import math\nfrom typing import List",
        ),
        (
            "def ok(x):\n    return [a + 1 for a in x if a % 2 == 0]\n",
            "So ok([1, 2, 3]) gives [3], and `ok([])` gives [].",
        ),
        (
            "def ok(x, y=1):\n    return [a + y for a in x]\n",
            "Call it ok(x, y=1), so: def ok(x, y=1):",
        ),
    ],
)
def test_prose_imports_examples_and_the_signature_are_no_disclosure(
    reference: str, text: str
) -> None:
    hidden = HiddenCode(reference, LANGUAGE_OF["asserts"], "ok")
    assert hidden.disclosed_share((text,)) == 0
    assert hidden.fault(text) is None


@pytest.mark.parametrize(
    "statement",
    [
        "You create an array where a[i] = i * i - i + 1.",
        'def ok(n):\n    """\n    An array where a[i] = i * i - i + 1.\n    """\n',
        "/**\n * You create an array where a[i] = i * i - i + 1.\n */",
    ],
)
def test_code_of_the_statement_is_no_secret(statement: str) -> None:
    """HumanEval/147's statement says `a[i] = i * i - i + 1`, in a docstring.

    A docstring was one text to the lexer, so a user could not repeat the task's own formula.
    """
    reference = (
        "def ok(n):\n    a = [i * i - i + 1 for i in range(1, n + 1)]\n    return sum(v % 3 == 0 "
        "for v in a)\n"
    )
    line = "Each is `i * i - i + 1`, as I said."
    assert HiddenCode(reference, LANGUAGE_OF["asserts"], "ok").disclosed_share((line,)) > 0
    assert (
        HiddenCode(reference, LANGUAGE_OF["asserts"], "ok", statement).disclosed_share((line,)) == 0
    )


def test_a_program_of_the_user_s_own_hands_the_code_over() -> None:
    hidden = hidden_of(dialogue(STREAK)[0].problem_id)
    assert (
        hidden.fault("```python\ndef longest_streak(c, g):\n    return len(c)\n```")
        == "it holds a program"
    )
    assert hidden.fault("```\nlongest_streak([8], 8)\nlongest_streak([], 8)\n```") is None


def test_a_repeated_line_counts_once() -> None:
    hidden = hidden_of(dialogue(STREAK)[0].problem_id)
    line = "`best = max(best, current)`"
    assert hidden.disclosed_share((line, line, line)) == hidden.disclosed_share((line,))


def test_a_reference_of_one_line_is_sought_as_a_whole() -> None:
    hidden = HiddenCode("def one(x): return x[0] + 1", LANGUAGE_OF["asserts"], "one")
    assert hidden.fault("Write one(), please: it returns the first and 1 more.") is None
    assert hidden.fault("So: def one(a):\n  return a[0] + 1") is not None


def test_what_is_left_of_a_refused_reply_holds_no_code() -> None:
    hidden = hidden_of(dialogue(STREAK)[0].problem_id)
    reply = (
        f"Yes, it is.\n```python\n{hidden.reference}```\nfor amount in cups:\n  return best\nDo "
        "it so."
    )
    assert hidden.without_code(reply) == "Yes, it is.\n\nDo it so."


@pytest.mark.parametrize(
    ("language", "reference"),
    [
        (
            "java",
            'class IsUpper {\n    /**\n     * Convert a text.\n     * > isUpper("a")\n     */\n'
            "    public static String isUpper(String text) {\n"
            '        return text.strip().toUpperCase() + "!";\n    }\n}\n',
        ),
        (
            "javascript",
            "// isUpper(text) {\nfunction isUpper(text) {\n  // isUpper(x) {\n"
            "  return text.trim().toUpperCase() + '!';\n}\n",
        ),
    ],
)
def test_examples_in_a_comment_are_no_part_of_the_body(language: str, reference: str) -> None:
    """They were taken for the signature, so that the rest of the comment counted as code.

    In the Java programs of MBXP, up to half of the body was prose.
    """
    hidden = HiddenCode(reference, LANGUAGES[language], "isUpper")
    assert len(hidden.body) == 12
    line = next(line for line in reference.splitlines() if "return" in line)
    assert hidden.disclosed_share((line,)) == 1
