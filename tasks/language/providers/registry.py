"""Providers of models by name. Packages add more by the entry point group `parley.models`."""

from typing import TYPE_CHECKING

from schemas.outside.registry import Registry

if TYPE_CHECKING:
    from tasks.language.providers.contract import ModelProvider

PROVIDERS: "Registry[ModelProvider]" = Registry(
    "provider of models",
    "parley.models",
    {
        name: f"tasks.language.providers.{name}:PROVIDER"
        for name in ("embedded", "openai", "vllm", "recorded", "control")
    },
)


def provider_of(text: str) -> "ModelProvider | None":
    """Return the provider of a model's spec or label, or None if none is installed."""
    name = text.partition(":")[0]
    return PROVIDERS.load(name) if name in PROVIDERS.names() else None


def forms() -> tuple[str, ...]:
    """Return the forms of all specs, the built-in ones first."""
    names = (
        *PROVIDERS.built_in,
        *(name for name in PROVIDERS.names() if name not in PROVIDERS.built_in),
    )
    return tuple(form for name in names for form in PROVIDERS.load(name).forms)


def is_served_here(name: str) -> bool:
    """Return True if Parley starts the servers of a provider's models."""
    return PROVIDERS.load(name).serve is not None


def is_control(label: str) -> bool:
    """Return True for the label of a control. Its provider must be installed."""
    provider = provider_of(label)
    return provider is not None and provider.is_control
