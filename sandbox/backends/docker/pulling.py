"""Images of registries: resolution of a name to a digest, pull, and removal.

Parley gets a digest from the registry without pulling the image, so that a run pulls only the
images of episodes that it plays.
"""

from collections.abc import Callable
from contextlib import closing
from typing import Any

from sandbox.backends.docker.daemon import daemon_faults
from sandbox.backends.docker.image import BASE, inspected
from schemas.errors import SandboxUnavailable, SourceUnreadable

_NO_SUCH_IMAGE = (
    "manifest unknown",
    "repository does not exist",
    "not found: manifest",
    "name unknown",
    "no such manifest",
)
"""Texts in a daemon's message which show that the registry does not have the image. They are needed
if the message has no status.
"""
_NO_ANSWER = (
    "toomanyrequests",
    "rate limit",
    "dial tcp",
    "connection re",
    "timeout",
    "no such host",
    "eof",
    "x509",
    "tls:",
)
_NO_ANSWER += ("bad gateway", "service unavailable", "net/http")
"""Messages of the daemon about a registry that cannot be reached now. All other refusals concern
one image."""


def digest_of(api: Any, name: str) -> str:
    """Return a name that always refers to the same image, without pulling it.

    Args:
        api: the SDK's `APIClient`.
        name: name with a tag, or pinned by digest.

    Returns:
        `NAME@sha256:<64 digits>` of an image that a registry has, else the id of an image that the
        daemon has.

    Raises:
        SourceUnreadable: no registry has such an image.
        SandboxUnavailable: the daemon does not have it, and no registry answers.
    """
    repository = repository_of(name)
    local = inspected(api, name)
    if local is None:
        return name if "@" in name else f"{repository}@{_registry_digest(api, name)}"
    digests = [
        digest
        for digest in local.get("RepoDigests") or ()
        if digest.partition("@")[0] == repository
    ]
    return min(digests, default=local["Id"])


def repository_of(name: str) -> str:
    """Return an image's name without its tag and digest."""
    whole = name.partition("@")[0]
    return whole.rpartition(":")[0] if ":" in whole.rpartition("/")[2] else whole


def _registry_digest(api: Any, name: str) -> str:
    from docker.errors import APIError, NotFound

    with daemon_faults(f"ask a registry for the image {name}"):
        try:
            return api.inspect_distribution(name)["Descriptor"]["digest"]
        except NotFound as error:
            raise _missing(name, error.explanation) from error
        except APIError as error:
            why = str(error.explanation)
            if any(sign in why.lower() for sign in _NO_ANSWER):
                raise _no_answer(name, why) from error
            raise _missing(name, why) from error


def pull(
    api: Any,
    name: str,
    report: Callable[[int], None] = lambda _: None,
    is_over: Callable[[], bool] = lambda: False,
) -> None:
    """Pull an image from its registry.

    Args:
        api: the SDK's `APIClient`.
        name: name with a tag, or pinned by digest.
        report: function called with the number of bytes received since the last call.
        is_over: function called at each event; True ends the pull.

    Raises:
        SourceUnreadable: no registry has such an image.
        SandboxUnavailable: no registry answers, the image is incomplete, or `is_over` ended the
            pull.
    """
    from docker.errors import APIError, NotFound

    why, received = "", dict[str, int]()
    with daemon_faults(f"pull the image {name}"):
        try:
            with closing(api.pull(name, stream=True, decode=True)) as events:
                for event in events:
                    if is_over():
                        raise SandboxUnavailable(
                            f"docker: the pull of the image {name} was cancelled"
                        )
                    why = str(event.get("error") or why)
                    if event.get("status") == "Downloading":
                        now = int((event.get("progressDetail") or {}).get("current") or 0)
                        report(max(0, now - received.get(event["id"], 0)))
                        received[event["id"]] = now
        except NotFound as error:
            raise _missing(name, error.explanation) from error
        except APIError as error:
            why = str(error.explanation)
    if _is_missing(why):
        raise _missing(name, why)
    if why:
        raise _no_answer(name, why)
    if inspected(api, name) is None:
        raise SandboxUnavailable(
            f"docker: the image {name} was pulled, but the daemon does not have it: "
            "see the daemon's log"
        )


def _is_missing(why: str) -> bool:
    return any(sign in why.lower() for sign in _NO_SUCH_IMAGE)


def _missing(name: str, why: object) -> SourceUnreadable:
    return SourceUnreadable(
        f"no registry has the Docker image {name}, or this user may not pull it: {why}"
    )


def _no_answer(name: str, why: str) -> SandboxUnavailable:
    return SandboxUnavailable(
        f"docker could not pull the image {name}: {why}. "
        f"Check that its registry can be reached (`docker pull {name}`)"
    )


def layer_bytes(api: Any, name: str) -> dict[str, int]:
    """Return the size in bytes of each layer of an image, by its digest.

    Images share layers of equal digests. If the daemon does not report the size of each layer, the
    last one gets the total.
    """
    with daemon_faults(f"look at the layers of the image {name}"):
        image = api.inspect_image(name)
        layers = [
            digest.removeprefix("sha256:") for digest in image["RootFS"].get("Layers") or ()
        ] or [image["Id"]]
        sizes = [int(step["Size"]) for step in reversed(api.history(name)) if step["Size"]]
    if len(sizes) != len(layers):
        return dict.fromkeys(layers, 0) | {layers[-1]: int(image["Size"])}
    return dict(zip(layers, sizes, strict=True))


def remove_image(api: Any, name: str) -> bool:
    """Remove an image and Parley's layer on it.

    Returns:
        False if a container uses the image, or the daemon refuses for another reason.
    """
    from docker.errors import DockerException, ImageNotFound
    from requests.exceptions import RequestException

    base = inspected(api, name)
    if base is None:
        return True
    try:
        for layer in api.images(filters={"label": f"{BASE}={base['Id']}"}):
            for tag in layer["RepoTags"] or (layer["Id"],):
                api.remove_image(tag)
        api.remove_image(name)
    except ImageNotFound:
        return True
    except (DockerException, RequestException, OSError):
        return False
    return True
