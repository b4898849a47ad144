"""Image of the containers: a pinned image with a layer of Parley's launcher and harness.

The launcher is the container's first process and runs commands. The harness runs tests. In a layer,
both are read-only for every program. They are also available if the daemon cannot read this
machine's disk (remote daemon, Docker Desktop, socket passed into a container). The layer is made
once for each daemon, version of Parley and image.
"""

import hashlib
import io
import os
import re
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from sandbox.backends.docker.daemon import OWNER, daemon_faults, owner_label, remove
from sandbox.host.python_environment import HARNESS
from schemas.errors import ConfigError, SandboxUnavailable

IMAGE_VARIABLE = "PARLEY_DOCKER_IMAGE"
PLACE = "/parley"
HARNESS_DIRECTORY = f"{PLACE}/harness"
UID = 20000
"""User and group id under which a container's launcher and the tested programs run by default.

The id differs from all ids that other backends give their programs (`sandbox.host.slots`), because
the kernel's process limit counts all processes of a user together.
"""
BASE = "parley.base"
_REPOSITORY = "parley-sandbox"
_PINNED = re.compile(r"(?:\S+@)?sha256:[0-9a-f]{64}")
_OURS = Path(__file__).parents[2]
_DOCKER = tuple(
    f"backends/docker/{name}.py" for name in ("__init__", "messages", "scratch", "launcher")
)
_LAUNCHER = (
    "__init__.py",
    "host/__init__.py",
    "host/bounded_output.py",
    "backends/__init__.py",
    *_DOCKER,
)
_RECIPE = _OURS / "images" / "python"
_BUILDING = f"docker build -t parley-python --build-arg BASE=python@sha256:... {_RECIPE}"
_NAMING = f"export {IMAGE_VARIABLE}=$(docker image inspect --format '{{{{.Id}}}}' parley-python)"


@dataclass(frozen=True)
class Image:
    """Image from which containers are created."""

    id: str
    environment: tuple[tuple[str, str], ...]
    """Variables that the pinned image sets: (name, value)."""


def pinned(name: str | None) -> str:
    """Return the image's name after checking that it can refer to only one image.

    Args:
        name: `sha256:<64 digits>` (an image's id), or `NAME@sha256:<64 digits>`.

    Raises:
        SandboxUnavailable: no image is set.
        ConfigError: the name has a tag, which may refer to another image later.
    """
    if not name:
        raise SandboxUnavailable(
            f"docker: no image is set. Build and set one: {_BUILDING} && {_NAMING}"
        )
    if not _PINNED.fullmatch(name):
        raise ConfigError(
            f"docker image {name!r} is not pinned by digest (use sha256:..., or NAME@sha256:...). "
            f"`docker image inspect --format '{{{{.Id}}}}' {name}` prints its digest"
        )
    return name


def prepared(api: Any, name: str) -> Image:
    """Return the pinned image with Parley's layer on top.

    Args:
        api: the SDK's `APIClient`.
        name: name that `pinned` has returned.

    Raises:
        SandboxUnavailable: the daemon does not have the image, or cannot add the layer.
    """
    base = inspected(api, name)
    if base is None:
        get = f"docker pull {name}" if "@" in name else f"{_BUILDING} && {_NAMING}"
        raise SandboxUnavailable(f"docker: the daemon has no image {name}. Get it: {get}")
    layer = _layer()
    tag = f"{base['Id'].removeprefix('sha256:')[:16]}-{hashlib.sha256(layer).hexdigest()[:16]}"
    image = inspected(api, f"{_REPOSITORY}:{tag}") or _added(api, base["Id"], layer, tag)
    if image["RootFS"]["Layers"][:-1] != base["RootFS"]["Layers"]:
        raise SandboxUnavailable(
            f"docker: {_REPOSITORY}:{tag} is not {name} with Parley's layer: "
            f"`docker image rm {_REPOSITORY}:{tag}`, then try again"
        )
    variables = (item.partition("=") for item in base["Config"].get("Env") or ())
    return Image(image["Id"], tuple((key, value) for key, _, value in variables))


def copy_folder(api: Any, name: str, path: str, into: Path) -> None:
    """Copy a folder of an image to an empty folder of this host: files, folders and links.

    Args:
        api: the SDK's `APIClient`.
        name: name that `pinned` has returned.
        path: folder in the image.
        into: empty folder of this host.

    Raises:
        SandboxUnavailable: the image, or its folder, is missing.
    """
    doing = daemon_faults(f"copy {path} out of the image {name}")
    with doing, _unstarted(api, name) as container:
        stream, _ = api.get_archive(container, f"{path}/.")
        with tempfile.TemporaryFile() as packed:
            for piece in stream:
                packed.write(piece)
            packed.seek(0)
            with tarfile.open(fileobj=packed) as tar:
                tar.extractall(into, filter=_plain)


@contextmanager
def _unstarted(api: Any, image: str) -> Iterator[str]:
    """Make a container that never runs, and remove it after the block."""
    options = {"labels": {OWNER: owner_label()}, "network_disabled": True}
    container = api.create_container(image, ("/parley/none",), use_config_proxy=False, **options)[
        "Id"
    ]
    try:
        yield container
    finally:
        remove(api, container)


def _plain(member: tarfile.TarInfo, into: str) -> tarfile.TarInfo | None:
    if not (member.isfile() or member.isdir() or member.issym() or member.islnk()):
        return None
    return tarfile.tar_filter(
        member.replace(uid=os.getuid(), gid=os.getgid(), uname="", gname="", deep=False), into
    )


def inspected(api: Any, name: str) -> dict[str, Any] | None:
    """Return the daemon's facts about an image; None if the daemon does not have it."""
    from docker.errors import ImageNotFound

    with daemon_faults(f"look at the image {name}"):
        try:
            return api.inspect_image(name)
        except ImageNotFound:
            return None


def _added(api: Any, base: str, layer: bytes, tag: str) -> dict[str, Any]:
    """Add the layer to an image: copy the files into a container that never runs, and commit it.

    The new image appears under its tag when it is complete.
    """
    with daemon_faults(f"add Parley's launcher to the image {base}"):
        with _unstarted(api, base) as container:
            api.put_archive(container, "/", layer)
            labels = [f"LABEL {BASE}={base}", f'LABEL {OWNER}=""']
            api.commit(container, repository=_REPOSITORY, tag=tag, changes=labels)
        return api.inspect_image(f"{_REPOSITORY}:{tag}")


def _layer() -> bytes:
    """Return the archive of launcher, harness and user accounts. Equal files give equal bytes."""
    files = {f"{PLACE}/sandbox/{name}": (_OURS / name).read_bytes() for name in _LAUNCHER}
    files |= {
        f"{HARNESS_DIRECTORY}/{path.name}": path.read_bytes()
        for path in sorted(HARNESS.glob("*.py"))
    }
    files["/etc/passwd"] = f"root:x:0:0::/:/bin/sh\nsandbox:x:{UID}:{UID}::/tmp:/bin/sh\n".encode()
    files["/etc/group"] = f"root:x:0:\nsandbox:x:{UID}:\n".encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        # A tmpfs gets the mode of the folder that it covers.
        parents = {str(PurePosixPath(name).parent) for name in files} - {"/etc"}
        folders = dict.fromkeys((PLACE, *sorted(parents)), 0o755) | dict.fromkeys(
            ("/box", "/tmp"), 0o1777
        )
        for folder, mode in folders.items():
            entry = tarfile.TarInfo(folder.lstrip("/"))
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            tar.addfile(entry)
        for name, content in files.items():
            entry = tarfile.TarInfo(name.lstrip("/"))
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()
