"""Colours of models: assigned once for the whole site, so that a model has the same one on every chart of every page."""

from collections.abc import Iterable, Mapping

from tasks.language.providers.registry import is_control

N_COLOURS = 12
"""Colours of the style sheet, `.c0` to `.c11`. From the 13th model on they come again, with rings for dots."""
CONTROL, MIXED = "control", "mixed"
"""Classes of controls, which are grey, and of a line through the values of several models."""
FURTHER = "further"
"""Class of what is dashed and has rings for dots: the second of two that have one colour."""


def model_colours(models: Iterable[str]) -> Mapping[str, str]:
    """Return model -> CSS classes of its colour. Models take the colours in the order of their names; controls are grey."""
    known = sorted(set(models))
    controls = [model for model in known if is_control(model)]
    asked = [model for model in known if model not in controls]
    found = {model: (CONTROL, at > 0) for at, model in enumerate(reversed(controls))}
    found |= {model: (f"c{at % N_COLOURS}", at >= N_COLOURS) for at, model in enumerate(asked)}
    return {
        model: f"{colour} {FURTHER}" if is_further else colour
        for model, (colour, is_further) in found.items()
    }
