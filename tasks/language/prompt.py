"""Prompts: one Markdown file each, with named placeholders `{name}`, filled strictly."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from schemas.errors import ConfigError

_HEADER_LINE = re.compile(r"\s*<!--.*-->\s*")
_PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")


def prompt_text(source: Traversable) -> str:
    """Return the text of a prompt file without its header.

    The header consists of leading `<!-- ... -->` lines that name the paper's section.

    Raises:
        ConfigError: The file is missing, is not UTF-8, or contains only a header.
    """
    try:
        lines = source.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"prompt {source} cannot be read as UTF-8 text ({type(error).__name__});"
            " reinstall parley-eval"
        ) from None
    start = 0
    while start < len(lines) and (not lines[start].strip() or _HEADER_LINE.fullmatch(lines[start])):
        start += 1
    text = "\n".join(lines[start:]).strip("\n")
    if not text:
        raise ConfigError(f"prompt {source} has no text below its header")
    return text


def load_prompt(package: str, name: str) -> str:
    """Return a package's `prompts/<name>.md`, as in `load_prompt("tasks.judging", "quality")`."""
    return prompt_text(files(package).joinpath("prompts", f"{name}.md"))


class PromptTexts(Mapping[str, str]):
    """Prompts of a package by name. Each is read at its first use."""

    def __init__(self, package: str, names: tuple[str, ...]) -> None:
        self._names = names
        self._text = cache(lambda name: load_prompt(package, name))

    def __getitem__(self, name: str) -> str:
        if name not in self._names:
            raise KeyError(name)
        return self._text(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def placeholders(text: str) -> tuple[str, ...]:
    """Return the names in braces, sorted.

    Braces around anything but a lower-case name are literal.
    """
    return tuple(sorted(set(_PLACEHOLDER.findall(text))))


def fill(text: str, **values: str) -> str:
    """Replace the placeholders by values in one pass, so that braces inside a value stay unchanged.

    Raises:
        ConfigError: A placeholder has no value, or a value has no placeholder.
    """
    names = placeholders(text)
    missing = [name for name in names if name not in values]
    unused = [name for name in values if name not in names]
    if missing or unused:
        raise ConfigError(
            f"prompt {text[:40]!r}...: no value for {', '.join(missing) or '-'};"
            f" no placeholder for {', '.join(unused) or '-'};"
            f" its placeholders are {', '.join(names) or '-'}"
        )
    return _PLACEHOLDER.sub(lambda match: values[match.group(1)], text)
