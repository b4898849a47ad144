"""Each verifiable instruction on an answer that follows it and on one that does not."""

from typing import Any

import pytest

from tasks.metrics.verifiable_instructions import VERIFIERS, instruction_following
from tasks.metrics.written_language import language_of, n_sentences, n_words

CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "startend:start_char": ({"letter": "o"}, "  Of course.", "Not so."),
    "startend:start_emoji": ({}, "\U0001f600 hello", "hello \U0001f600"),
    "startend:end_phrase": ({"end_phrase": "That is all."}, 'I went home. THAT IS ALL."', "That is all. Bye."),
    "startend:quotation": ({}, ' "all of it" ', '"only" this'),
    "language:response_language": ({"language": "fr"}, "Le chat est dans la maison", "The cat is in the house"),
    "format:json_format": ({}, '```json\n{"a": 1}\n```', "a: 1"),
    "format:bullet_list": ({"num_bullets": 2}, "* one\n* two", "* one\n* two\n- three"),
    "format:constrained_response": ({"response_options": ["My answer is yes."]}, "My answer is yes.", "Yes."),
    "detectable_format:constrained_response": ({"response_options": ["My answer is no."]}, "My answer is no.", "No."),
    "format:number_highlighted_sections": ({"num_highlights": 2}, "*one* and *two*", "*one* and two"),
    "format:multiple_sections": ({"section_spliter": "Part", "num_sections": 2}, "Part 1\na\nPart 2\nb", "Part 1\na"),
    "format:title": ({}, "<<A walk>>\nIt rained.", "<< >>\nIt rained."),
    "length_constraints:number_sentences": ({"relation": "less than", "num_sentences": 3}, "One. Two!", "One. Two! Three?"),
    "length_constraints:number_words": ({"relation": "at least", "num_words": 3}, "one two three", "one two"),
    "length_constraints:number_paragraphs": ({"num_paragraphs": 2}, "a\n***\nb", "a\n***\nb\n***\nc"),
    "length_constraints:nth_paragraph_first_word": (
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "then"},
        "First this.\n\nThen, that.",
        "Then this.\n\nFirst that.",
    ),
    "keywords:existence": ({"keywords": ["river", "oak"]}, "An OAK by the river", "An oak by the lake"),
    "keywords:frequency": ({"keyword": "oak", "relation": "at least", "frequency": 2}, "oak, oak", "oak"),
    "keywords:forbidden_words": ({"forbidden_words": ["oak"]}, "an oaken door", "an oak door"),
    "keywords:letter_frequency": ({"letter": "z", "let_relation": "less than", "let_frequency": 2}, "a Zoo", "a zigzag"),
    "change_case:capital_letter": ({}, "THE CAT IS IN THE HOUSE", "THE cat IS IN THE HOUSE"),
    "change_case:lowercase": ({}, "the cat is in the house", "The cat is in the house"),
    "change_case:capital_word_frequency": (
        {"capital_relation": "at least", "capital_frequency": 2},
        "BIG and SMALL",
        "BIG and small",
    ),
    "punctuation:no_comma": ({}, "one and two", "one, two"),
    "combination:two_responses": ({}, "one\n******\ntwo", "one\n******\none"),
    "combination:repeat_prompt": ({"prompt_to_repeat": "Why is it so?"}, "why is it so? Because.", "Because."),
    "content:placeholder": ({"num_placeholders": 2}, "[name] of [town]", "[name] of town"),
    "content:postscript": ({"postscript_marker": "P.P.S"}, "Bye.\nP.P.S one more", "Bye."),
}


@pytest.mark.parametrize("name", VERIFIERS)
def test_an_instruction_is_followed_or_not(name: str) -> None:
    arguments, follows, breaks = CASES[name]
    assert (instruction_following(follows, name, arguments), instruction_following(breaks, name, arguments)) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("dance:waltz", {}),
        ("startend:start_char", {}),
        ("startend:start_char", {"letter": None}),
        ("keywords:frequency", {"keyword": "a", "relation": "about", "frequency": 1}),
        ("content:placeholder", {}),
    ],
)
def test_what_cannot_be_verified_has_no_value(name: str, arguments: dict[str, Any]) -> None:
    assert instruction_following("a", name, arguments) is None


def test_a_text_too_short_to_tell_its_language_has_no_value() -> None:
    assert instruction_following("42", "language:response_language", {"language": "en"}) is None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Der Hund ist nicht in dem Haus, und die Katze auch nicht.", "de"),
        ("El perro no está en la casa y el gato tampoco.", "es"),
        ("O cão não está em casa e o gato também não.", "pt"),
        ("Il cane non è nella casa e il gatto non è con lui.", "it"),
        ("Собака в доме.", "ru"),
        ("कुत्ता घर में है।", "hi"),
        ("狗在房子里。", "zh"),
        ("犬は家にいます。", "ja"),
        ("123", None),
    ],
)
def test_a_language_is_told_by_script_and_common_words(text: str, code: str | None) -> None:
    assert language_of(text) == code


def test_sentences_end_with_their_mark_and_not_with_an_abbreviation() -> None:
    assert n_sentences("Dr. Moss came in. Was it late? Yes!") == 3
    assert n_sentences("It has 3.5 parts, e.g. this one") == 1
    assert n_sentences("他来了。你呢？") == 2
    assert n_sentences("") == 0


def test_words_of_chinese_are_its_characters() -> None:
    assert n_words("one two-three") == 3
    assert n_words("我爱 Python 编程") == 5
