"""Patterns of vendors' messages for rejected requests, from `vendor_words.yaml`."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

WORDS_FILE = "vendor_words.yaml"


@cache
def vendor_words() -> Mapping[str, Mapping[str, tuple[re.Pattern[str], ...]]]:
    """Return the patterns by kind of rejection and vendor.

    The file is read at the first rejection.
    """
    import yaml

    text = files("tasks.language.endpoints").joinpath(WORDS_FILE).read_text(encoding="utf-8")
    kinds: dict[str, dict[str, list[str]]] = yaml.safe_load(text)
    return {
        kind: {
            vendor: tuple(re.compile(pattern, re.IGNORECASE | re.DOTALL) for pattern in patterns)
            for vendor, patterns in by.items()
        }
        for kind, by in kinds.items()
    }


def find_words(kind: str, text: str) -> re.Match[str] | None:
    """Return the first match of any vendor's patterns for a kind of rejection in a message."""
    patterns = (pattern for of_vendor in vendor_words()[kind].values() for pattern in of_vendor)
    return next((match for pattern in patterns if (match := pattern.search(text))), None)


def refused_parameter(text: str) -> str | None:
    """Return the parameter that a rejection names, or None."""
    for kind in ("exclusive_parameters", "unsupported_parameter"):
        for of_vendor in vendor_words()[kind].values():
            for pattern in of_vendor:
                if match := pattern.search(text):
                    return match.group("name").rpartition(".")[2]
    return None
