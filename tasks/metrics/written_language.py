"""Language of a text, and its numbers of sentences and words by Multi-IF's rules.

langdetect detects the language, as in IFEval's own checks. langdetect samples n-grams at random; a
fixed seed and a fixed order of its profiles make it deterministic here. Nothing is downloaded.
"""

import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from langdetect.detector_factory import DetectorFactory

_CHINESE = ("zh-cn", "zh-tw")
_IDEOGRAPHIC = ("zh", "ja")
"""Languages without spaces between words or after the marks that end a sentence."""
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
def _factory() -> "DetectorFactory":
    from langdetect.detector_factory import PROFILES_DIRECTORY, DetectorFactory

    factory = DetectorFactory()
    profiles = sorted(
        path for path in Path(PROFILES_DIRECTORY).iterdir() if not path.name.startswith(".")
    )
    factory.load_json_profile([path.read_text(encoding="utf-8") for path in profiles])
    factory.set_seed(_SEED)
    return factory


@lru_cache(maxsize=256)
def language_of(text: str) -> str | None:
    """Return the two-letter code of the language; None for a text without letters."""
    from langdetect.lang_detect_exception import LangDetectException

    detector = _factory().create()
    detector.append(text)
    try:
        code = detector.detect()
    except LangDetectException:
        return None
    return "zh" if code in _CHINESE else code


def n_sentences(text: str) -> int:
    """Count sentences.

    A sentence ends at a danda in Hindi and at each mark in Chinese and Japanese. For Thai,
    pythainlp splits each line. In other languages a sentence ends at a mark before a space, unless
    the mark belongs to an abbreviation. Trailing text without a mark counts as a sentence.
    """
    language = language_of(text)
    if language == "th":
        from pythainlp.tokenize import sent_tokenize  # importing it takes 0.5 s

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
    """Count words.

    For Chinese and Japanese: characters, emoji, and words in other scripts. For Thai: pythainlp's
    words.
    """
    language = language_of(text)
    if language == "th":
        from pythainlp.tokenize import word_tokenize

        return len(word_tokenize(text))
    if language not in _IDEOGRAPHIC:
        return len(_WORD.findall(text))
    import emoji

    bare = text.translate(_EASTERN_PUNCTUATION)
    without_emoji = emoji.replace_emoji(bare, "")
    others = _EASTERN_CHARACTER.sub(" ", without_emoji).split()
    return len(_EASTERN_CHARACTER.findall(without_emoji)) + len(others) + emoji.emoji_count(bare)
