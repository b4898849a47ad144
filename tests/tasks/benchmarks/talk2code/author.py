"""A mechanical author: what a model would write for `parley build talk2code-dialogues`, made of the
question alone.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from schemas.dialog import ExpertiseLevel
from tasks.benchmarks.talk2code.user.persona_user import guideline_of, terms_in

_WORD = re.compile(r"[A-Za-z]{4,}")
_IMPORTS = re.compile(r"^(?:from|import) .*$", re.MULTILINE)
REFERENCES: Mapping[str, str] = {
    "java": """class Quad {
    public static Integer quad(Integer n) {
        return Math.max(0, Math.min(100, 4 * n));
    }
}
""",
    "javascript": """function quad(n) {
    return Math.max(0, Math.min(100, 4 * n));
}
""",
}
"""Language -> a program for `quad` that passes; the author knows no other."""
WRONG = "function quad(n) {\n    return 4 * n;\n}\n"


def answer(messages: Sequence[Mapping[str, Any]]) -> str:
    """A reference, or a dialogue that keeps all rules but for two users.

    The hobbyist writes code at first, and is put right. The senior developer says everything at
    once, whatever is said of it.
    """
    asked, is_first = messages[0]["content"], len(messages) == 1
    if "This Python program does what is wanted" in asked:
        return _reference(asked, is_first)
    dialogue = _dialogue(asked)
    if "The user (hobbyist" in asked and is_first:
        dialogue[1]["text"] += "\n```python\npass\n```"
    if "The user (senior developer" in asked:
        dialogue[0]["text"] = " ".join(
            message["text"] for message in dialogue if message["role"] == "user"
        )
    return json.dumps({"messages": dialogue})


def _reference(asked: str, is_first: bool) -> str:
    """JavaScript's fails at first."""
    language = _between(asked, "a program in ", ":")
    code = WRONG if is_first and language == "javascript" else REFERENCES[language]
    return f"```{language}\n{code}```" if "defines `quad`" in asked else "I do not know."


def _dialogue(asked: str) -> list[dict[str, str]]:
    level = ExpertiseLevel(re.findall(r"The user \([^,]*, (\w+)\)", asked)[0])
    language = _between(asked, "in the end, a program in ", ":")
    names = re.findall(r"`([\w$]+)`", _between(asked, "exactly as they stand here: ", "\n"))
    statement = _between(asked, "<task>\n", "\n</task>")
    known = dict.fromkeys(_WORD.findall(_IMPORTS.sub("", statement)))
    words = [word for word in known if not terms_in(word, guideline_of(level).avoids)]
    third = -(-len(words) // 3)
    told = [" ".join(words[place : place + third]) for place in (0, third, 2 * third)]
    users = ["I want help with a small thing.", *(f"So: {text}." for text in told)]
    users[-1] += f" It returns what I said, in {language}: {', '.join(names)}."
    said = [
        ({"role": "user", "text": user}, {"role": "assistant", "text": "What else is wanted?"})
        for user in users
    ]
    said[-1][1]["text"] = "Here it is."
    return [dict(message) for pair in said for message in pair]


def _between(text: str, before: str, after: str) -> str:
    return text.split(before, 1)[1].split(after, 1)[0]
