"""Instructions that a program can verify (IFEval; MT-Eval's recollection; Multi-IF).

`VERIFIERS` maps the names that the data use to functions.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from tasks.metrics.registry import metric
from tasks.metrics.written_language import language_of, n_sentences, n_words

Arguments = Mapping[str, Any]
_PLACEHOLDERS = ("num_placeholders", "num_placeholder", "number_placeholders")
_CONTRACTION = re.compile(r"('s|'m|'d|'ll|'re|'ve|n't)\b", re.IGNORECASE)
"""Endings that count as separate words: `LIFE'S` is two words."""
_LONGEST_EMOJI = 20
"""Upper bound of the characters in one emoji."""
CODE_OF = {
    "English": "en",
    "Spanish": "es",
    "Portuguese": "pt",
    "Arabic": "ar",
    "Hindi": "hi",
    "French": "fr",
    "Russian": "ru",
    "German": "de",
    "Japanese": "ja",
    "Italian": "it",
    "Bengali": "bn",
    "Ukrainian": "uk",
    "Thai": "th",
    "Urdu": "ur",
    "Tamil": "ta",
    "Telugu": "te",
    "Bulgarian": "bg",
    "Korean": "ko",
    "Polish": "pl",
    "Hebrew": "he",
    "Persian": "fa",
    "Vietnamese": "vi",
    "Nepali": "ne",
    "Swahili": "sw",
    "Kannada": "kn",
    "Marathi": "mr",
    "Gujarati": "gu",
    "Punjabi": "pa",
    "Malayalam": "ml",
    "Finnish": "fi",
    "Chinese": "zh",
}
"""Name -> code of IFEval's languages and of Chinese. The data use either form."""
ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
"""Allowed answers of IFEval's `constrained_response`, whose data have no arguments."""


@metric("instruction_following", version=2, title="instructions")
def instruction_following(answer: str, instruction: str, arguments: Arguments) -> float | None:
    """Return 1 if the answer follows a verifiable instruction, else 0.

    Args:
        answer: the model's answer.
        instruction: for example `startend:start_char` or `keywords:existence`.
        arguments: arguments of the instruction.

    Returns:
        0 for a blank answer; None for an unknown instruction or language, and for missing
        arguments.

    Source: IFEval section 2; Multi-IF's checks outside English; UniDial-EvalKit,
    `instruction_following`.
    """
    verify = VERIFIERS.get(instruction)
    if verify is None:
        return None
    try:
        is_followed = verify(answer, arguments)
    except (AttributeError, KeyError, TypeError, StopIteration):
        return None
    return None if is_followed is None else float(is_followed and bool(answer.strip()))


@metric("instruction_following_loose", title="instructions, loose")
def instruction_following_loose(
    answer: str, instruction: str, arguments: Arguments
) -> float | None:
    """Return 1 if the answer, or a loosened version of it, follows the instruction, else 0.

    Eight versions are tried: the first line, the last line, both or neither removed; each with and
    without asterisks. The arguments are those of `instruction_following`.

    Returns:
        The highest value of the eight versions; None if `instruction_following` returns None for
        all of them.

    Source: IFEval section 3.1, loose accuracy; Multi-IF.
    """
    lines = answer.split("\n")
    parts = (
        answer,
        *("\n".join(remaining).strip() for remaining in (lines[1:], lines[:-1], lines[1:-1])),
    )
    values = [
        instruction_following(reading, instruction, arguments)
        for part in parts
        for reading in (part, part.replace("*", ""))
    ]
    return max((value for value in values if value is not None), default=None)


def _relation(count: float, relation: str, wanted: float) -> bool | None:
    results = {
        "less than": count < wanted,
        "at least": count >= wanted,
        "more than": count > wanted,
    }
    return results.get(relation)


def _start_char(text: str, arguments: Arguments) -> bool:
    return text.strip().lower().startswith(arguments["letter"].lower())


def _start_emoji(text: str, arguments: Arguments) -> bool:
    import emoji

    return any(
        match["match_start"] == 0 for match in emoji.emoji_list(text.strip()[:_LONGEST_EMOJI])
    )


def _end_phrase(text: str, arguments: Arguments) -> bool:
    return text.strip().strip('"').lower().endswith(arguments["end_phrase"].strip().lower())


def _language(text: str, arguments: Arguments) -> bool | None:
    """Return True if the text is in the language that the arguments name; None if it is unknown.

    As in IFEval, a text without letters of any language passes.
    """
    wanted = arguments["lang"] if "lang" in arguments else arguments["language"]
    code = CODE_OF.get(wanted, wanted)
    return language_of(text) in (code, None) if code in CODE_OF.values() else None


def _json_format(text: str, arguments: Arguments) -> bool:
    inner = re.sub(r"^```(json)?|```$", "", text.strip(), flags=re.IGNORECASE).strip()
    try:
        json.loads(inner)
    except (ValueError, RecursionError):
        return False
    return True


def _bullet_list(text: str, arguments: Arguments) -> bool:
    stars, dashes = (re.findall(p, text, re.MULTILINE) for p in (r"^\s*\*[^\*].*$", r"^\s*-.*$"))
    count, wanted = len(stars) + len(dashes), arguments["num_bullets"]
    return count == wanted if wanted else count > 0


def _number_sentences(text: str, arguments: Arguments) -> bool | None:
    return _relation(n_sentences(text), arguments["relation"], arguments["num_sentences"])


def _number_words(text: str, arguments: Arguments) -> bool | None:
    return _relation(n_words(text), arguments["relation"], arguments["num_words"])


def _existence(text: str, arguments: Arguments) -> bool:
    return all(re.search(re.escape(word), text, re.IGNORECASE) for word in arguments["keywords"])


def _keyword_frequency(text: str, arguments: Arguments) -> bool | None:
    count = len(re.findall(re.escape(arguments["keyword"]), text, re.IGNORECASE))
    return _relation(count, arguments["relation"], arguments["frequency"])


def _forbidden_words(text: str, arguments: Arguments) -> bool:
    return not any(
        re.search(rf"\b{re.escape(word)}\b", text, re.IGNORECASE)
        for word in arguments["forbidden_words"]
    )


def _letter_frequency(text: str, arguments: Arguments) -> bool | None:
    return _relation(
        text.lower().count(arguments["letter"].lower()),
        arguments["let_relation"],
        arguments["let_frequency"],
    )


def _is_english(text: str) -> bool:
    return language_of(text) in ("en", None)


def _capital_letter(text: str, arguments: Arguments) -> bool:
    return text.isupper() and _is_english(text)


def _lowercase(text: str, arguments: Arguments) -> bool:
    return text.islower() and _is_english(text)


def _capital_words(text: str, arguments: Arguments) -> bool | None:
    words = re.findall(r"[\w'-]+", _CONTRACTION.sub(r" \1", text))
    return _relation(
        sum(word.isupper() for word in words),
        arguments["capital_relation"],
        arguments["capital_frequency"],
    )


def _no_comma(text: str, arguments: Arguments) -> bool:
    return "," not in text


def _two_responses(text: str, arguments: Arguments) -> bool:
    parts = [part.strip() for part in text.split("******")]
    inner = [part for place, part in enumerate(parts) if part or 0 < place < len(parts) - 1]
    return len(inner) == 2 and all(inner) and inner[0] != inner[1]


def _placeholder(text: str, arguments: Arguments) -> bool:
    wanted = next(arguments[name] for name in _PLACEHOLDERS if name in arguments)
    return len(re.findall(r"\[.*?\]", text)) >= wanted


def _constrained_response(text: str, arguments: Arguments) -> bool:
    return any(option in text.strip() for option in arguments.get("response_options") or ANSWERS)


def _number_paragraphs(text: str, arguments: Arguments) -> bool:
    parts = re.split(r"\s?\*\*\*\s?", text)
    inner = [part for place, part in enumerate(parts) if part.strip() or 0 < place < len(parts) - 1]
    return len(inner) == arguments["num_paragraphs"] and all(part.strip() for part in inner)


def _nth_paragraph(text: str, arguments: Arguments) -> bool:
    parts = [part.strip() for part in text.split("\n\n") if part.strip()]
    wanted = arguments["nth_paragraph"]
    if len(parts) != arguments["num_paragraphs"] or not 1 <= wanted <= len(parts):
        return False
    first = re.match(r"[^.,?!'\"\s]*", parts[wanted - 1].split()[0].lstrip("'\""))
    return first is not None and first.group().lower() == arguments["first_word"].lower()


def _postscript(text: str, arguments: Arguments) -> bool:
    marker = arguments["postscript_marker"].lower()
    patterns = {"p.p.s": r"\s*p\.\s?p\.\s?s.*$", "p.s.": r"\s*p\.\s?s\..*$"}
    return (
        re.search(patterns.get(marker, rf"\s*{re.escape(marker)}.*$"), text.lower(), re.MULTILINE)
        is not None
    )


def _highlights(text: str, arguments: Arguments) -> bool:
    single, double = re.findall(r"\*[^\n\*]*\*", text), re.findall(r"\*\*[^\n\*]*\*\*", text)
    return (
        sum(bool(part.strip("*").strip()) for part in (*single, *double))
        >= arguments["num_highlights"]
    )


def _sections(text: str, arguments: Arguments) -> bool:
    return (
        len(re.split(rf"\s?{re.escape(arguments['section_spliter'])}\s?\d+\s?", text)) - 1
        >= arguments["num_sections"]
    )


def _title(text: str, arguments: Arguments) -> bool:
    return any(title.strip("<>").strip() for title in re.findall(r"<<[^\n]+>>", text))


def _repeat_prompt(text: str, arguments: Arguments) -> bool:
    return text.strip().lower().startswith(arguments["prompt_to_repeat"].strip().lower())


def _quotation(text: str, arguments: Arguments) -> bool:
    whole = text.strip()
    return len(whole) > 1 and (whole[0], whole[-1]) in (('"', '"'), ("“", "”"), ("「", "」"))


VERIFIERS: Mapping[str, Callable[[str, Arguments], bool | None]] = {
    "startend:start_char": _start_char,
    "startend:start_emoji": _start_emoji,
    "startend:end_phrase": _end_phrase,
    "startend:quotation": _quotation,
    "language:response_language": _language,
    "format:json_format": _json_format,
    "format:bullet_list": _bullet_list,
    "format:constrained_response": _constrained_response,
    "format:number_highlighted_sections": _highlights,
    "format:multiple_sections": _sections,
    "format:title": _title,
    "detectable_format:constrained_response": _constrained_response,
    "length_constraints:number_sentences": _number_sentences,
    "length_constraints:number_words": _number_words,
    "length_constraints:number_paragraphs": _number_paragraphs,
    "length_constraints:nth_paragraph_first_word": _nth_paragraph,
    "keywords:existence": _existence,
    "keywords:frequency": _keyword_frequency,
    "keywords:forbidden_words": _forbidden_words,
    "keywords:letter_frequency": _letter_frequency,
    "change_case:capital_letter": _capital_letter,
    "change_case:lowercase": _lowercase,
    "change_case:capital_word_frequency": _capital_words,
    "punctuation:no_comma": _no_comma,
    "combination:two_responses": _two_responses,
    "combination:repeat_prompt": _repeat_prompt,
    "content:placeholder": _placeholder,
    "content:postscript": _postscript,
}
