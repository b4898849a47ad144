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
    """Text of a prompt file without its header (the leading `<!-- ... -->` lines that name the paper's section).

    Raises:
        ConfigError: the file is missing, not UTF-8, or holds nothing but a header.
    """
    try:
        lines = source.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"prompt {source}: cannot be read as UTF-8 text ({type(error).__name__}); reinstall parley-eval"
        ) from None
    start = 0
    while start < len(lines) and (not lines[start].strip() or _HEADER_LINE.fullmatch(lines[start])):
        start += 1
    text = "\n".join(lines[start:]).strip("\n")
    if not text:
        raise ConfigError(f"prompt {source}: holds no text below its header")
    return text


def load_prompt(package: str, name: str) -> str:
    """Text of `prompts/<name>.md` in a package, for example `load_prompt("tasks.judging", "quality")`."""
    return prompt_text(files(package).joinpath("prompts", f"{name}.md"))


class PromptTexts(Mapping[str, str]):
    """A package's prompts by name, each read when it is first asked for."""

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
    """Names in braces, sorted; braces around anything but a lower-case name are literal."""
    return tuple(sorted(set(_PLACEHOLDER.findall(text))))


def fill(text: str, **values: str) -> str:
    """Put values into their placeholders, all in one pass, so that braces inside a value stay as they are.

    Raises:
        ConfigError: a placeholder without a value, or a value without a placeholder.
    """
    names = placeholders(text)
    missing = [name for name in names if name not in values]
    unused = [name for name in values if name not in names]
    if missing or unused:
        raise ConfigError(
            f"prompt {text[:40]!r}...: no value for {', '.join(missing) or '-'}; no placeholder for {', '.join(unused) or '-'};"
            f" it has {', '.join(names) or '-'}"
        )
    return _PLACEHOLDER.sub(lambda match: values[match.group(1)], text)
