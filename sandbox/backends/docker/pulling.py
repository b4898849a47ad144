"""Images of registries: which image a name means, how it comes onto the daemon, and how it is removed.

A registry is asked for a digest without a pull, so that a run pulls only the images of the episodes that it plays.
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
"""What registries say of an image that they do not have, where the daemon passes it on without a status."""
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
"""What the daemon says of a registry that cannot be asked now. All other refusals concern one image."""


def digest_of(api: Any, name: str) -> str:
    """Return a name that can only ever mean one image. Nothing is pulled.

    Args:
        api: the SDK's `APIClient`.
        name: with a tag, or pinned by digest.

    Returns:
        `NAME@sha256:<64 digits>` of an image that a registry has, else the id of an image that the daemon has.

    Raises:
        SourceUnreadable: no registry has such an image.
        SandboxUnavailable: the daemon does not have it, and no registry answers.
    """
    repository = repository_of(name)
    local = inspected(api, name)
    if local is None:
        return name if "@" in name else f"{repository}@{_looked_up(api, name)}"
    known = [
        digest
        for digest in local.get("RepoDigests") or ()
        if digest.partition("@")[0] == repository
    ]
    return min(known, default=local["Id"])


def repository_of(name: str) -> str:
    """Return an image's name without its tag and digest."""
    whole = name.partition("@")[0]
    return whole.rpartition(":")[0] if ":" in whole.rpartition("/")[2] else whole


def _looked_up(api: Any, name: str) -> str:
    from docker.errors import APIError, NotFound

    with daemon_faults(f"ask a registry for the image {name}"):
        try:
            return api.inspect_distribution(name)["Descriptor"]["digest"]
        except NotFound as error:
            raise _missing(name, error.explanation) from error
        except APIError as error:
            why = str(error.explanation)
            if any(sign in why.lower() for sign in _NO_ANSWER):
                raise _unknown(name, why) from error
            raise _missing(name, why) from error


def pull(
    api: Any,
    name: str,
    tell: Callable[[int], None] = lambda _: None,
    is_over: Callable[[], bool] = lambda: False,
) -> None:
    """Pull an image from its registry.

    Args:
        name: with a tag, or pinned by digest.
        tell: called with the bytes that came since the last call.
        is_over: asked at each event; true ends the pull.

    Raises:
        SourceUnreadable: no registry has such an image.
        SandboxUnavailable: no registry answers, the image did not come whole, or the pull was ended.
    """
    from docker.errors import APIError, NotFound

    why, came = "", dict[str, int]()
    with daemon_faults(f"pull the image {name}"):
        try:
            with closing(api.pull(name, stream=True, decode=True)) as events:
                for event in events:
                    if is_over():
                        raise SandboxUnavailable(f"docker: the pull of the image {name} was ended")
                    why = str(event.get("error") or why)
                    if event.get("status") == "Downloading":
                        now = int((event.get("progressDetail") or {}).get("current") or 0)
                        tell(max(0, now - came.get(event["id"], 0)))
                        came[event["id"]] = now
        except NotFound as error:
            raise _missing(name, error.explanation) from error
        except APIError as error:
            why = str(error.explanation)
    if _is_missing(why):
        raise _missing(name, why)
    if why:
        raise _unknown(name, why)
    if inspected(api, name) is None:
        raise SandboxUnavailable(
            f"docker: the image {name} was pulled, and is not there: see the daemon's log"
        )


def _is_missing(why: str) -> bool:
    return any(sign in why.lower() for sign in _NO_SUCH_IMAGE)


def _missing(name: str, why: object) -> SourceUnreadable:
    return SourceUnreadable(
        f"no registry has the Docker image {name}, or gives it to this user: {why}"
    )


def _unknown(name: str, why: str) -> SandboxUnavailable:
    return SandboxUnavailable(
        f"docker could not pull the image {name}: {why}; its registry has to be reached once (`docker pull {name}`)"
    )


def layer_bytes(api: Any, name: str) -> dict[str, int]:
    """Return the bytes of an image's layers by the digest of each. Images share layers of one digest.

    Where the daemon does not say which layer has which size, the last one has them all.
    """
    with daemon_faults(f"look at the layers of the image {name}"):
        found = api.inspect_image(name)
        layers = [
            digest.removeprefix("sha256:") for digest in found["RootFS"].get("Layers") or ()
        ] or [found["Id"]]
        sizes = [int(step["Size"]) for step in reversed(api.history(name)) if step["Size"]]
    if len(sizes) != len(layers):
        return dict.fromkeys(layers, 0) | {layers[-1]: int(found["Size"])}
    return dict(zip(layers, sizes, strict=True))


def remove_image(api: Any, name: str) -> bool:
    """Remove an image and Parley's layer on it.

    Returns:
        False where a container uses the image, or the daemon refuses for another reason.
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
