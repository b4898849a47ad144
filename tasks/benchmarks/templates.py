"""User-defined texts of a benchmark's questions and judge prompts (`--templates DIR`).

Each text is one file.
"""

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
"""Text of each template, by name and variant if any."""
SYSTEM = "system"
"""Last part of the name of a judge's system message."""
FORM = "form"
"""Placeholder for Parley's text that requests a JSON object from a judge."""
ANY = "*"
"""Variant that matches every name."""
_HEADER = re.compile(r"\s*<!--.*?-->[ \t]*\n", re.DOTALL)
_BRACED = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_DOUBLED = re.compile(rf"\{{\{{|\}}\}}|{_BRACED.pattern}")
_REMEDY = "`parley list templates` names all templates with their placeholders"


@dataclass(frozen=True)
class Template:
    """Text that a file `NAME.md` in the folder of `--templates` can replace."""

    kind: Literal["question", "judge"]
    settings: tuple[str, ...]
    """Settings that use the template."""
    text: str
    """Parley's own text."""
    needed: tuple[str, ...] = ()
    """Placeholders that the file must contain."""
    variants: tuple[str, ...] = ()
    """Kinds of rows that may have their own text in `NAME.VARIANT.md`.

    `NAME.md` applies to all others.
    """
    answer: tuple[str, ...] = ()
    """Fields of the JSON object in a judge's answer."""

    @property
    def placeholders(self) -> tuple[str, ...]:
        """Return the placeholders that the file may contain."""
        return (*placeholders(self.text), *((FORM,) if self.kind == "judge" else ()))


@dataclass(frozen=True)
class Wording:
    """Templates of a benchmark and the function that replaces them."""

    templates: Mapping[str, Template]
    reword: "Callable[[Texts], Benchmark]"
    """Function (custom texts) -> the benchmark with these texts in place of Parley's."""


def owner_of(name: str) -> str:
    """Return the template to which a text, or a variant's text, belongs."""
    return name.partition(".")[0]


def names_in(text: str) -> tuple[str, ...]:
    """Return the names of the placeholders in a text."""
    return tuple(name for name in _tokens(text).findall(text) if name)


def render(text: str, values: Mapping[str, str]) -> str:
    """Replace the placeholders of the given values.

    A text that contains `{{` is read like a format string of `str.format`: a doubled brace means
    one brace. In other texts, braces around anything but a name are literal.
    """
    return _tokens(text).sub(lambda match: values[match[1]] if match[1] else match[0][0], text)


def _tokens(text: str) -> re.Pattern[str]:
    return _DOUBLED if "{{" in text else _BRACED


def read_templates(folder: Path, templates: Mapping[str, Template]) -> Texts:
    """Return the texts in the folder of `--templates`, except those equal to Parley's own.

    Raises:
        ConfigError: A template is invalid. The message names the file, the placeholder and the
            remedy.
    """
    if not folder.is_dir():
        raise ConfigError(
            f"templates {folder}: no such folder. Name a folder with files NAME.md. {_REMEDY}"
        )
    files = [
        path
        for path in sorted(folder.iterdir())
        if not path.name.startswith(".") and path.name.lower() != "readme.md"
    ]
    texts = {path.name.removesuffix(".md"): _read(path, templates) for path in files}
    if not texts:
        raise ConfigError(f"templates {folder}: the folder has no file NAME.md. {_REMEDY}")
    return {
        name: text
        for name, text in texts.items()
        if name not in templates or text != templates[name].text
    }


def _read(path: Path, templates: Mapping[str, Template]) -> str:
    template = _template_of(path, templates)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"template {path}: the file is not UTF-8 text ({type(error).__name__}). Convert it"
        ) from None
    while header := _HEADER.match(text):
        text = text[header.end() :]
    text = text.strip("\n")
    if not text.strip():
        raise ConfigError(
            f"template {path}: the file is empty. Add text, or remove the file to use Parley's own"
        )
    _check(path, text, template)
    return text


def _template_of(path: Path, templates: Mapping[str, Template]) -> Template:
    name, *rest = path.name.removesuffix(".md").split(".")
    if not path.is_file() or path.suffix != ".md" or name not in templates:
        near = (
            f". Do you mean {near_match}.md?" if (near_match := near_name(name, templates)) else ""
        )
        raise ConfigError(f"template {path}: no template has this name{near}. {_REMEDY}")
    template = templates[name]
    if template.kind == "judge" and rest and rest[-1] == SYSTEM:
        rest = rest[:-1]
    if len(rest) > 1 or (
        rest and ANY not in template.variants and rest[0] not in template.variants
    ):
        variants = ", ".join(template.variants) or "none"
        raise ConfigError(
            f"template {path}: {name} has no variant {'.'.join(rest)!r}. Rename the file. "
            f"Variants: {variants}"
        )
    return template


def _check(path: Path, text: str, template: Template) -> None:
    accepted = ", ".join(f"{{{name}}}" for name in template.placeholders) or "none"
    names = names_in(text)
    unknown = [name for name in names if name not in template.placeholders]
    if unknown:
        raise ConfigError(
            f"template {path}: {{{unknown[0]}}} is not one of its placeholders ({accepted}). "
            "Rename it. For a literal brace, double every literal brace of the file"
        )
    if path.name.removesuffix(".md").split(".")[-1] == SYSTEM:
        return
    missing = [name for name in template.needed if name not in names]
    if missing:
        raise ConfigError(
            f"template {path}: {{{missing[0]}}} is missing, so its value would not be shown. Add it"
        )
    if (
        template.answer
        and FORM not in names
        and not all(name in text.lower() for name in template.answer)
    ):
        fields = ", ".join(template.answer)
        raise ConfigError(
            f"template {path}: the text does not request an answer that can be parsed. "
            f"Add {{{FORM}}}, or ask for a JSON object with {fields}"
        )
