"""A user's own wording of a benchmark's questions and judge prompts (`--templates DIR`): one file a text."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from schemas.errors import ConfigError, near_name
from tasks.language.prompt import placeholders

if TYPE_CHECKING:
    from tasks.benchmarks.contract import Benchmark

Texts = Mapping[str, str]
"""Name of a template, with its variant where it has one -> text."""
SYSTEM = "system"
"""Last part of the name of a judge's system message."""
FORM = "form"
"""Placeholder for the words in which Parley asks a judge for its JSON object."""
ANY = "*"
"""Variant that stands for every name."""
_HEADER = re.compile(r"\s*<!--.*?-->[ \t]*\n", re.DOTALL)
_BRACED = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_DOUBLED = re.compile(rf"\{{\{{|\}}\}}|{_BRACED.pattern}")
_REMEDY = "`parley list templates` names all templates with their placeholders"


@dataclass(frozen=True)
class Template:
    """One text that a user may replace by a file `NAME.md`."""

    kind: Literal["question", "judge"]
    settings: tuple[str, ...]
    """Settings that use it."""
    text: str
    """Parley's own text."""
    needed: tuple[str, ...] = ()
    """Placeholders that a user's text must hold."""
    variants: tuple[str, ...] = ()
    """Kinds of rows with a text of their own, in a file `NAME.VARIANT.md`. The file `NAME.md` is for all others."""
    answer: tuple[str, ...] = ()
    """Fields of the JSON object that a judge answers with."""

    @property
    def placeholders(self) -> tuple[str, ...]:
        """Names of the values that a user's text may hold."""
        return (*placeholders(self.text), *((FORM,) if self.kind == "judge" else ()))


@dataclass(frozen=True)
class Wording:
    """The templates of a benchmark, and how they are replaced."""

    templates: Mapping[str, Template]
    reword: "Callable[[Texts], Benchmark]"
    """Return the benchmark with these texts in the place of its own."""


def owner_of(name: str) -> str:
    """Return the name of the template that a text, perhaps of a variant, belongs to."""
    return name.partition(".")[0]


def names_in(text: str) -> tuple[str, ...]:
    """Return the names of the placeholders that a text holds."""
    return tuple(name for name in _tokens(text).findall(text) if name)


def render(text: str, values: Mapping[str, str]) -> str:
    """Fill in those values whose placeholders the text holds.

    A text that holds `{{` is read as Python's `str.format` reads it: a doubled brace is one. Elsewhere braces around anything
    but a name are literal.
    """
    return _tokens(text).sub(lambda found: values[found[1]] if found[1] else found[0][0], text)


def _tokens(text: str) -> re.Pattern[str]:
    return _DOUBLED if "{{" in text else _BRACED


def read_templates(folder: Path, known: Mapping[str, Template]) -> Texts:
    """Read a user's templates. Texts that equal Parley's own are left out.

    Raises:
        ConfigError: names the file, the placeholder at fault and the remedy.
    """
    if not folder.is_dir():
        raise ConfigError(
            f"templates {folder}: no such folder. Give one with a file NAME.md for each text; {_REMEDY}"
        )
    files = [
        path
        for path in sorted(folder.iterdir())
        if not path.name.startswith(".") and path.name.lower() != "readme.md"
    ]
    texts = {path.name.removesuffix(".md"): _read(path, known) for path in files}
    if not texts:
        raise ConfigError(f"templates {folder}: the folder holds no file NAME.md; {_REMEDY}")
    return {
        name: text for name, text in texts.items() if name not in known or text != known[name].text
    }


def _read(path: Path, known: Mapping[str, Template]) -> str:
    template = _template_of(path, known)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"template {path}: it is not UTF-8 text ({type(error).__name__}). Save it as UTF-8"
        ) from None
    while header := _HEADER.match(text):
        text = text[header.end() :]
    text = text.strip("\n")
    if not text.strip():
        raise ConfigError(
            f"template {path}: the file holds no text. Write some, or remove the file to use Parley's own"
        )
    _check(path, text, template)
    return text


def _template_of(path: Path, known: Mapping[str, Template]) -> Template:
    name, *rest = path.name.removesuffix(".md").split(".")
    if not path.is_file() or path.suffix != ".md" or name not in known:
        near = f". Do you mean {one}.md?" if (one := near_name(name, known)) else ""
        raise ConfigError(f"template {path}: no template has this name{near}; {_REMEDY}")
    template = known[name]
    if template.kind == "judge" and rest and rest[-1] == SYSTEM:
        rest = rest[:-1]
    if len(rest) > 1 or (
        rest and ANY not in template.variants and rest[0] not in template.variants
    ):
        variants = ", ".join(template.variants) or "none"
        raise ConfigError(
            f"template {path}: {name} has no variant {'.'.join(rest)!r}. Rename the file; variants: {variants}"
        )
    return template


def _check(path: Path, text: str, template: Template) -> None:
    taken = ", ".join(f"{{{name}}}" for name in template.placeholders) or "none"
    held = names_in(text)
    unknown = [name for name in held if name not in template.placeholders]
    if unknown:
        raise ConfigError(
            f"template {path}: {{{unknown[0]}}} is no placeholder of it. Rename it; it takes {taken}. For a literal brace, double"
            " every literal brace of the file"
        )
    if path.name.removesuffix(".md").split(".")[-1] == SYSTEM:
        return
    missing = [name for name in template.needed if name not in held]
    if missing:
        raise ConfigError(
            f"template {path}: it lacks {{{missing[0]}}}, so that value would not be shown. Add it"
        )
    if (
        template.answer
        and FORM not in held
        and not all(name in text.lower() for name in template.answer)
    ):
        fields = ", ".join(template.answer)
        raise ConfigError(
            f"template {path}: it does not ask for an answer that can be read. Add {{{FORM}}}, or ask for a JSON object with"
            f" {fields}"
        )
