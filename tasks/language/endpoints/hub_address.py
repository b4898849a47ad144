"""Address of the Hugging Face hub, and the authorization of requests to it."""

from collections.abc import Mapping

from schemas.run import ModelEndpoint
from tasks.language.endpoints.endpoint_key import resolve_key

HUB_VARIABLE = "HF_ENDPOINT"
"""Variable that names another hub than the public one, as for huggingface_hub."""
KEY_VARIABLE = "HF_TOKEN"
_HUB = "https://huggingface.co"


def hub_address(environ: Mapping[str, str]) -> str:
    """Return the hub's URL without a trailing slash."""
    return environ.get(HUB_VARIABLE, "").rstrip("/") or _HUB


def hub_headers(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a request to the hub, with the key from `HF_TOKEN` if it is set.

    Raises:
        ConfigError: No header can contain the key.
    """
    if not environ.get(KEY_VARIABLE, "").strip():
        return {}
    endpoint = ModelEndpoint(base_url=hub_address(environ), key_env=KEY_VARIABLE)
    return {"Authorization": f"Bearer {resolve_key(endpoint, environ)}"}
