"""Language of a text, and its sentences and words as Multi-IF counts them. Nothing is downloaded for it.

langdetect names the language, as in IFEval's own checks. It draws n-grams at random; a fixed seed and a fixed order of its
profiles make it deterministic here.
"""

import re
from functools import lru_cache
from pathlib import Path

import emoji
from langdetect.detector_factory import PROFILES_DIRECTORY, DetectorFactory
from langdetect.lang_detect_exception import LangDetectException

_CHINESE = ("zh-cn", "zh-tw")
_IDEOGRAPHIC = ("zh", "ja")
"""Languages that put no space between words, and whose marks end a sentence without a space after them."""
_SEED = 0
_END = re.compile(r"[.!?…]+[\"'”’)\]]*(?=\s|$)")
_EASTERN_SENTENCE = re.compile(r"[^!?。.！？．\n]+[!?。.！？．\n]?")
_HINDI_END = re.compile(r"(?<=[।!?])\s*")
_ABBREVIATION = re.compile(
    r"\b(?:e\.g|i\.e|etc|vs|mr|mrs|ms|dr|prof|st|no|fig|[a-z])\.$", re.IGNORECASE
)
_WORD = re.compile(r"\w+")
_EASTERN_CHARACTER = re.compile(r"[\u4e00-\u9fff\u3400-\u4dbf\u3040-\u30ff\uac00-\ud7af]")
_EASTERN_PUNCTUATION = str.maketrans(
    "", "", "\\.!?．/_,{}<>:;$%^&*(+\"'—！，。？、`~@#￥…（）：；《》“”)[]»〔〕-「」"
)


@lru_cache(maxsize=1)
def _factory() -> DetectorFactory:
    factory = DetectorFactory()
    profiles = sorted(
        path for path in Path(PROFILES_DIRECTORY).iterdir() if not path.name.startswith(".")
    )
    factory.load_json_profile([path.read_text(encoding="utf-8") for path in profiles])
    factory.set_seed(_SEED)
    return factory


@lru_cache(maxsize=256)
def language_of(text: str) -> str | None:
    """Return the two letters of the language; None for a text without letters of any language."""
    detector = _factory().create()
    detector.append(text)
    try:
        found = detector.detect()
    except LangDetectException:
        return None
    return "zh" if found in _CHINESE else found


def n_sentences(text: str) -> int:
    """Count sentences.

    Hindi ends a sentence with a danda, Chinese and Japanese with each mark, Thai where pythainlp says so and at each line's end.
    Elsewhere a sentence ends with marks before a space, unless an abbreviation does; a last part without a mark is one, too.
    """
    language = language_of(text)
    if language == "th":
        from pythainlp.tokenize import sent_tokenize  # half a second, which few texts need

        return sum(len(sent_tokenize(line)) for line in text.splitlines())
    if language == "hi":
        return sum(bool(part.strip()) for part in _HINDI_END.split(text))
    if language in _IDEOGRAPHIC:
        return sum(len(_EASTERN_SENTENCE.findall(line.strip())) for line in text.splitlines())
    return _n_spaced_sentences(text)


def _n_spaced_sentences(text: str) -> int:
    count, begin = 0, 0
    for mark in _END.finditer(text):
        sentence = text[begin : mark.end()].strip()
        if mark.group() == "." and _ABBREVIATION.search(sentence):
            continue
        count, begin = count + bool(_WORD.search(sentence)), mark.end()
    return count + bool(_WORD.search(text[begin:]))


def n_words(text: str) -> int:
    """Count words. Chinese and Japanese: characters, emoji, and words of other scripts between them. Thai: pythainlp's words."""
    language = language_of(text)
    if language == "th":
        from pythainlp.tokenize import word_tokenize

        return len(word_tokenize(text))
    if language not in _IDEOGRAPHIC:
        return len(_WORD.findall(text))
    bare = text.translate(_EASTERN_PUNCTUATION)
    without_emoji = emoji.replace_emoji(bare, "")
    others = _EASTERN_CHARACTER.sub(" ", without_emoji).split()
    return len(_EASTERN_CHARACTER.findall(without_emoji)) + len(others) + emoji.emoji_count(bare)
