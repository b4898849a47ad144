"""A text's language, by script and by the commonest words; its sentences and words. Nothing is downloaded for it."""

import re

_SCRIPTS = {
    "ja": r"[\u3040-\u30ff]",
    "ko": r"[\uac00-\ud7af]",
    "zh": r"[\u3400-\u9fff]",
    "hi": r"[\u0900-\u097f]",
    "ar": r"[\u0600-\u06ff]",
    "th": r"[\u0e00-\u0e7f]",
    "ru": r"[\u0400-\u04ff]",
}
"""In order: a Japanese text has Chinese characters, too."""
_COMMON = {
    "en": "the of and to in is that it for was with as are be this on not you have by from or an at which",
    "es": "el la los las de que y en un una es por con para se no lo como más su del al pero muy",
    "fr": "le la les de des et est un une que dans pour qui en du au pas ce sur avec il elle sont ne",
    "pt": "o os as de que e em um uma é por com para se não do da no na dos das mais como foi",
    "it": "il lo gli le di che e è un una per con non del della nel si sono da al alla più come ma",
    "de": "der die das und ist nicht ein eine zu den mit von auf für im dem des sich es auch als an wird",
}
_SHARE = 0.2
"""Of a text's letters that make its script; of its words that make its language, half of this."""
_END = re.compile(r"[.!?…]+[\"'”’)\]]*(?=\s|$)")
_EAST_END = re.compile(r"[。！？!?．]+")
_ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|etc|vs|mr|mrs|ms|dr|prof|st|no|fig|[a-z])\.$", re.IGNORECASE)


def language_of(text: str) -> str | None:
    """Two letters of the language; None where the text is too short or too mixed to tell."""
    letters = [sign for sign in text if sign.isalpha()]
    if not letters:
        return None
    joined = "".join(letters)
    for code, script in _SCRIPTS.items():
        if len(re.findall(script, joined)) >= _SHARE * len(joined):
            return code
    words = re.findall(r"[^\W\d_]+", text.lower())
    counts = {code: sum(word in common.split() for word in words) for code, common in _COMMON.items()}
    best = max(counts, key=lambda code: counts[code])
    tied = sum(count == counts[best] for count in counts.values()) > 1
    return None if tied or counts[best] < max(1, _SHARE / 2 * len(words)) else best


def n_sentences(text: str) -> int:
    """Sentences: parts that end with a mark of punctuation, and a last part without one. An abbreviation ends none."""
    code = language_of(text)
    if code in ("zh", "ja"):
        return sum(bool(part.strip()) for line in text.splitlines() for part in _EAST_END.split(line))
    if code == "hi":
        return sum(bool(part.strip()) for part in re.split(r"[।!?]+", text))
    count, begin = 0, 0
    for mark in _END.finditer(text):
        sentence = text[begin : mark.end()].strip()
        if mark.group() == "." and _ABBREVIATION.search(sentence):
            continue
        count, begin = count + bool(re.search(r"\w", sentence)), mark.end()
    return count + bool(re.search(r"\w", text[begin:]))


def n_words(text: str) -> int:
    """Words; in Chinese and Japanese, characters, and words of other scripts between them."""
    if language_of(text) not in ("zh", "ja"):
        return len(re.findall(r"\w+", text))
    eastern = r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
    return len(re.findall(eastern, text)) + len(re.findall(r"\w+", re.sub(eastern, " ", text)))
