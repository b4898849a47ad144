"""Texts around the data's questions: Parley's, or custom texts from `--templates DIR`."""

from collections.abc import Mapping

from tasks.benchmarks.templates import Template, Texts, render

NO_TEXTS: Texts = {}


def shown_text(dataset: str, text: str, *needed: str) -> Template:
    """Return the template of a text that a dataset's dialogues show to the model.

    Args:
        dataset: Name of the dataset.
        text: Parley's text.
        needed: Placeholders that a custom text must contain.
    """
    return Template("question", (dataset,), text, needed)


class Questions:
    """Texts of one dataset, with a record of whether a custom text was used."""

    def __init__(self, templates: Mapping[str, Template], texts: Texts = NO_TEXTS) -> None:
        self._templates, self._texts = templates, texts
        self._has_shown = False

    def render(self, name: str, **values: str) -> str:
        """Return the named text with its values."""
        self._has_shown |= name in self._texts
        return render(self._texts.get(name, self._templates[name].text), values)

    def take_shown(self) -> bool:
        """Return True if a custom text was rendered since the last call."""
        has_shown, self._has_shown = self._has_shown, False
        return has_shown
