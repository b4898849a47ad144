"""A folder of a user's templates: what is read of it, and what each error names."""

from pathlib import Path

import pytest

from schemas.errors import ConfigError
from tasks.benchmarks.templates import ANY, Template, names_in, read_templates, render

KNOWN = {
    "ask": Template("question", ("quiz",), "Please: {question}", needed=("question",)),
    "rate": Template(
        "judge",
        ("quiz",),
        "{answer} {rule}",
        needed=("answer",),
        variants=("long",),
        answer=("score",),
    ),
    "free": Template("judge", ("quiz",), "{answer}", variants=(ANY,), answer=("score",)),
}


def write(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        (folder / f"{name.replace('__', '.')}.md").write_text(text, encoding="utf-8")
    return folder


def test_texts_are_read_without_their_headers(tmp_path: Path) -> None:
    write(
        tmp_path,
        ask="<!-- paper,\nsection 3 -->\n<!-- mine -->\n\nNow: {question}\n\n",
        README="what this is",
    )
    assert read_templates(tmp_path, KNOWN) == {"ask": "Now: {question}"}


def test_variants_and_system_messages_are_read_by_their_names(tmp_path: Path) -> None:
    judged = "Give the score. {answer}"
    names = ("rate", "rate__long", "free__any-name")
    write(
        tmp_path,
        **dict.fromkeys(names, judged),
        rate__system="You judge.",
        rate__long__system="You judge long ones.",
    )
    found = read_templates(tmp_path, KNOWN)
    assert set(found) == {"rate", "rate.long", "free.any-name", "rate.system", "rate.long.system"}


def test_a_text_that_equals_parley_s_own_is_no_other(tmp_path: Path) -> None:
    write(tmp_path, ask=f"{KNOWN['ask'].text}\n")
    assert read_templates(tmp_path, KNOWN) == {}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("aks", "{question}", ["aks.md", "Do you mean ask.md?", "parley list templates"]),
        (
            "ask",
            "{qestion}",
            ["ask.md", "{qestion} is not one of its placeholders", "({question}). Rename it"],
        ),
        (
            "ask",
            "{Question}",
            ["ask.md", "{Question} is not one of its placeholders", "({question})"],
        ),
        ("ask", "Go on.", ["ask.md", "{question} is missing", "Add it"]),
        ("ask", " \n", ["ask.md", "the file is empty", "remove the file"]),
        ("ask__long", "{question}", ["ask.long.md", "no variant 'long'", "Variants: none"]),
        ("ask__system", "{question}", ["ask.system.md", "no variant 'system'"]),
        (
            "rate__short",
            "score {answer}",
            ["rate.short.md", "no variant 'short'", "Variants: long"],
        ),
        ("rate", "score", ["rate.md", "{answer} is missing"]),
        ("rate", "How good is {answer}?", ["rate.md", "Add {form}", "JSON object with score"]),
        (
            "rate__system",
            "You judge {it}.",
            ["rate.system.md", "{it} is not one of its placeholders"],
        ),
    ],
)
def test_an_error_names_the_file_the_placeholder_and_the_remedy(
    tmp_path: Path, name: str, text: str, words: list[str]
) -> None:
    with pytest.raises(ConfigError) as fault:
        read_templates(write(tmp_path, **{name: text}), KNOWN)
    assert [word for word in (str(tmp_path), *words) if word not in str(fault.value)] == []


def test_other_files_and_folders_are_named(tmp_path: Path) -> None:
    for fault, words in (
        (tmp_path, "has no file NAME.md"),
        (tmp_path / "none", "no such folder"),
    ):
        with pytest.raises(ConfigError, match=words):
            read_templates(fault, KNOWN)
    (tmp_path / "ask.md").write_bytes(b"{question} \xff")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_templates(tmp_path, KNOWN)
    (tmp_path / "ask.md").rename(tmp_path / "ask.txt")
    with pytest.raises(
        ConfigError, match=r"ask\.txt: no template has this name\. Do you mean ask\.md\?"
    ):
        read_templates(tmp_path, KNOWN)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{answer}: {"score": {"n": 1}} {}', '{rule}: {"score": {"n": 1}} {}'),
        ('{answer}: {{"score": 1}}', '{rule}: {"score": 1}'),
        (r"{{{answer}}} \frac{{a}}{{b}} {{answer}}", r"{{rule}} \frac{a}{b} {answer}"),
    ],
)
def test_braces_are_literal_or_doubled(text: str, shown: str) -> None:
    """A doubled brace makes the text one of Python's `str.format`.

    Braces in values stay as they are.
    """
    assert render(text, {"answer": "{rule}", "rule": "no"}) == shown
    assert names_in(text) == ("answer",)
