"""Colours of models, the same on every chart of the site."""

from collections.abc import Iterable, Mapping

from tasks.language.providers.registry import is_control

N_COLOURS = 12
"""Number of colours in the style sheet, `.c0` to `.c11`. From the 13th model on they repeat, with
rings as dots."""
CONTROL, MIXED = "control", "mixed"
"""CSS classes of controls, which are grey, and of a line through the values of several models."""
FURTHER = "further"
"""CSS class of the second of two models with one colour: dashed, with rings as dots."""


def model_colours(models: Iterable[str]) -> Mapping[str, str]:
    """Return model -> CSS classes of its colour.

    Models take the colours in the order of their names. Controls are grey.
    """
    names = sorted(set(models))
    controls = [model for model in names if is_control(model)]
    others = [model for model in names if model not in controls]
    classes = {model: (CONTROL, at > 0) for at, model in enumerate(reversed(controls))}
    classes |= {model: (f"c{at % N_COLOURS}", at >= N_COLOURS) for at, model in enumerate(others)}
    return {
        model: f"{colour} {FURTHER}" if is_further else colour
        for model, (colour, is_further) in classes.items()
    }
