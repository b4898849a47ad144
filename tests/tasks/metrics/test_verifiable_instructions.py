"""Each verifiable instruction on an answer that follows it and on one that does not."""

from typing import Any

import pytest

from tasks.metrics.verifiable_instructions import (
    VERIFIERS,
    instruction_following,
    instruction_following_loose,
)
from tasks.metrics.written_language import language_of, n_sentences, n_words

CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "startend:start_char": ({"letter": "o"}, "  Of course.", "Not so."),
    "startend:start_emoji": ({}, "\U0001f600 hello", "hello \U0001f600"),
    "startend:end_phrase": (
        {"end_phrase": "That is all."},
        'I went home. THAT IS ALL."',
        "That is all. Bye.",
    ),
    "startend:quotation": ({}, ' "all of it" ', '"only" this'),
    "language:response_language": (
        {"language": "fr"},
        "Le chat est dans la maison",
        "The cat is in the house",
    ),
    "format:json_format": ({}, '```json\n{"a": 1}\n```', "a: 1"),
    "format:bullet_list": ({"num_bullets": 2}, "* one\n* two", "* one\n* two\n- three"),
    "format:constrained_response": (
        {"response_options": ["My answer is yes."]},
        "My answer is yes.",
        "Yes.",
    ),
    "detectable_format:constrained_response": (
        {},
        "So: My answer is maybe. Why?",
        "My answer is unknown.",
    ),
    "format:number_highlighted_sections": (
        {"num_highlights": 2},
        "*one* and *two*",
        "*one* and two",
    ),
    "format:multiple_sections": (
        {"section_spliter": "Part", "num_sections": 2},
        "Part 1\na\nPart 2\nb",
        "Part 1\na",
    ),
    "format:title": ({}, "<<A walk>>\nIt rained.", "<< >>\nIt rained."),
    "length_constraints:number_sentences": (
        {"relation": "less than", "num_sentences": 3},
        "One. Two!",
        "One. Two! Three?",
    ),
    "length_constraints:number_words": (
        {"relation": "at least", "num_words": 3},
        "one two three",
        "one two",
    ),
    "length_constraints:number_paragraphs": (
        {"num_paragraphs": 2},
        "a\n***\nb",
        "a\n***\nb\n***\nc",
    ),
    "length_constraints:nth_paragraph_first_word": (
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "then"},
        "First this.\n\nThen, that.",
        "Then this.\n\nFirst that.",
    ),
    "keywords:existence": (
        {"keywords": ["river", "oak"]},
        "An OAK by the river",
        "An oak by the lake",
    ),
    "keywords:frequency": (
        {"keyword": "oak", "relation": "at least", "frequency": 2},
        "oak, oak",
        "oak",
    ),
    "keywords:forbidden_words": ({"forbidden_words": ["oak"]}, "an oaken door", "an oak door"),
    "keywords:letter_frequency": (
        {"letter": "z", "let_relation": "less than", "let_frequency": 2},
        "a Zoo",
        "a zigzag",
    ),
    "change_case:capital_letter": ({}, "THE CAT IS IN THE HOUSE", "THE cat IS IN THE HOUSE"),
    "change_case:lowercase": ({}, "the cat is in the house", "The cat is in the house"),
    "change_case:capital_word_frequency": (
        {"capital_relation": "at least", "capital_frequency": 3},
        "BIG cats' LIFE'S",
        "BIG and small",
    ),
    "punctuation:no_comma": ({}, "one and two", "one, two"),
    "combination:two_responses": ({}, "one\n******\ntwo", "one\n******\none"),
    "combination:repeat_prompt": (
        {"prompt_to_repeat": "Why is it so?"},
        "why is it so? Because.",
        "Because.",
    ),
    "content:placeholder": ({"num_placeholders": 2}, "[name] of [town]", "[name] of town"),
    "content:postscript": ({"postscript_marker": "P.P.S"}, "Bye.\nP.P.S one more", "Bye."),
}


@pytest.mark.parametrize("name", VERIFIERS)
def test_an_instruction_is_followed_or_not(name: str) -> None:
    arguments, follows, breaks = CASES[name]
    assert (
        instruction_following(follows, name, arguments),
        instruction_following(breaks, name, arguments),
    ) == (1.0, 0.0)


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


@pytest.mark.parametrize("name", VERIFIERS)
@pytest.mark.parametrize("answer", ["", " \n "])
def test_a_blank_answer_follows_nothing(name: str, answer: str) -> None:
    assert instruction_following(answer, name, CASES[name][0]) == 0.0
    assert instruction_following_loose(answer, name, CASES[name][0]) == 0.0


@pytest.mark.parametrize(
    ("answer", "loose"),
    [
        ("Sure, here it is:\nOne and two", 1.0),  # without its first line
        ("One and two\nIs this all right, then?", 1.0),  # without its last
        ("So, then:\nOne and two\nAgreed, all?", 1.0),  # without both
        ("One, two\nthree, four\nfive, six", 0.0),
        ("Here,", 0.0),  # what is left is blank
    ],
)
def test_the_loose_reading_leaves_out_lines(answer: str, loose: float) -> None:
    assert instruction_following(answer, "punctuation:no_comma", {}) == 0.0
    assert instruction_following_loose(answer, "punctuation:no_comma", {}) == loose


def test_the_loose_reading_leaves_out_asterisks() -> None:
    arguments = {"end_phrase": "That is all."}
    assert instruction_following("**That is all.**", "startend:end_phrase", arguments) == 0.0
    assert instruction_following_loose("**That is all.**", "startend:end_phrase", arguments) == 1.0


@pytest.mark.parametrize("arguments", [{"language": "Klingon"}, {"language": None}, {}])
def test_an_unknown_language_has_no_value(arguments: dict[str, Any]) -> None:
    answer = "The cat is in the house"
    assert instruction_following(answer, "language:response_language", arguments) is None
    assert instruction_following_loose(answer, "language:response_language", arguments) is None


def test_a_text_without_letters_is_in_every_language_as_ifeval_has_it() -> None:
    assert instruction_following("42", "language:response_language", {"language": "en"}) == 1.0


CHINESE = "我每天早上都在公园里跑步。你呢？我们一起去吧！"
JAPANESE = "私は毎朝公園で走っています。あなたはどうですか？"
HINDI = "मैं हर सुबह पार्क में दौड़ता हूँ। तुम क्या करते हो? चलो साथ चलते हैं।"
THAI = "ฉันวิ่งในสวนสาธารณะทุกเช้า\nคุณชอบออกกำลังกายไหม"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Der Hund ist nicht in dem Haus, und die Katze auch nicht.", "de"),
        ("El perro no está en la casa y el gato tampoco.", "es"),
        ("O cão não está em casa e o gato também não.", "pt"),
        ("Il cane non è nella casa e il gatto non è con lui.", "it"),
        ("Tôi chạy bộ trong công viên mỗi buổi sáng.", "vi"),
        ("Кучето не е в къщата, нито пък котката.", "bg"),
        ("Я бегаю в парке каждое утро.", "ru"),
        (HINDI, "hi"),
        (CHINESE, "zh"),
        (JAPANESE, "ja"),
        (THAI, "th"),
        ("123", None),
    ],
)
def test_a_language_is_identified_the_same_way_each_time(text: str, code: str | None) -> None:
    found = set()
    for _ in range(5):
        language_of.cache_clear()
        found.add(language_of(text))
    assert found == {code}


def test_sentences_end_with_their_mark_and_not_with_an_abbreviation() -> None:
    assert n_sentences("Dr. Moss came in. Was it late? Yes!") == 3
    assert n_sentences("It has 3.5 parts, e.g. this one") == 1
    assert n_sentences("") == 0


@pytest.mark.parametrize(
    ("text", "sentences", "words"),
    [(CHINESE, 3, 20), (JAPANESE, 2, 22), (HINDI, 3, 23), (THAI, 2, 11)],
)
def test_sentences_and_words_of_other_scripts(text: str, sentences: int, words: int) -> None:
    assert (n_sentences(text), n_words(text)) == (sentences, words)


def test_words_of_chinese_are_its_characters_emoji_and_words_of_other_scripts() -> None:
    assert n_words("one two-three") == 3
    assert n_words(f"{CHINESE} Python 3.12 \U0001f600") == 20 + 3
