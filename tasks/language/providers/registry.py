"""Providers by name: ours, and others' through the entry point group `parley.models`."""

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

from schemas.outside.plugins import load_registered, registered_names

if TYPE_CHECKING:
    from tasks.language.providers.contract import ModelProvider

BUILT_IN = MappingProxyType(
    {
        name: f"tasks.language.providers.{name}"
        for name in ("embedded", "openai", "vllm", "recorded", "control")
    }
)
GROUP = "parley.models"


def names() -> tuple[str, ...]:
    """Return all known providers: ours, then others'. Nothing is imported."""
    return (
        *BUILT_IN,
        *(name for name in registered_names(GROUP, BUILT_IN) if name not in BUILT_IN),
    )


def load(name: str) -> "ModelProvider":
    """Return the provider of that name.

    Raises:
        UnknownName: lists the known names.
    """
    return load_registered("provider of models", GROUP, BUILT_IN, name, _built_in)


def provider_of(text: str) -> "ModelProvider | None":
    """Return the provider of a model's spec or label; None where nobody here provides such models."""
    name = text.partition(":")[0]
    return load(name) if name in names() else None


def forms() -> tuple[str, ...]:
    """Return the forms of all specs."""
    return tuple(form for name in names() for form in load(name).forms)


def is_served_here(name: str) -> bool:
    """Tell whether Parley starts the servers of a provider's models."""
    return load(name).serve is not None


def is_control(label: str) -> bool:
    """Tell whether a label is that of a control; one whose provider is not installed here is none."""
    provider = provider_of(label)
    return provider is not None and provider.is_control


def _built_in(name: str) -> "ModelProvider":
    return import_module(BUILT_IN[name]).PROVIDER
