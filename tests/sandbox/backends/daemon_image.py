"""The Python image of the tests: Debian's own packages by debootstrap, imported into a daemon.

No image registry is asked.

The archive (about 180 MB) is kept in `$XDG_CACHE_HOME/parley-tests` (`~/.cache/parley-tests`), one
for each release and list of packages, and made in about a minute where it is not there; importing
it takes seconds. numpy is Debian's, older than Parley's.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.sandbox.backends.daemon import SEARCHED

PACKAGES = ("python3", "python3-numpy", "python3-pycodestyle", "python3-mccabe", "radon")
LONGEST_S = 240.0
_NOT_NEEDED = (
    "./dev/*",
    "./proc/*",
    "./sys/*",
    "./var/cache/apt/*",
    "./var/lib/apt/lists/*",
    "./var/log/*",
    "./usr/share/doc/*",
)
_NOT_NEEDED += (
    "./usr/share/man/*",
    "./usr/share/locale/*",
    "./etc/shadow*",
    "./etc/gshadow*",
    "./etc/machine-id",
)
_LABEL = "parley.tests"


def import_image(api: Any, packages: tuple[str, ...] = PACKAGES) -> str:
    """Put the image onto a daemon unless it is there; its id.

    Args:
        packages: of Debian that it has.

    Raises:
        RuntimeError: it cannot be made here, with the reason.
    """
    archive = archived(packages)
    tag = archive.stem.rpartition("-")[2]
    for image in api.images(name=_LABEL, all=True):
        if f"{_LABEL}:{tag}" in (image["RepoTags"] or ()):
            return image["Id"]
    api.import_image_from_file(str(archive), repository=_LABEL, tag=tag)
    return api.inspect_image(f"{_LABEL}:{tag}")["Id"]


def run_plain_container(api: Any, image: str) -> None:
    """Run a container with Docker's own settings.

    Raises RuntimeError where the daemon cannot do even that.
    """
    from docker.errors import APIError

    container = api.create_container(
        image, "true", host_config=api.create_host_config(network_mode="none")
    )["Id"]
    try:
        api.start(container)
        api.wait(container, timeout=30)
    except APIError as error:
        raise RuntimeError(
            f"the Docker daemon here cannot run containers: {error.explanation}"
        ) from error
    finally:
        api.remove_container(container, force=True)


def archived(packages: tuple[str, ...] = PACKAGES) -> Path:
    """The image's archive, made first where it is missing."""
    release = _release()
    digest = hashlib.sha256("\n".join((release, *packages, *_NOT_NEEDED)).encode()).hexdigest()[:12]
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "parley-tests"
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / f"docker-python-{digest}.tar"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            _make(archive, release, packages)
    return archive


def _make(archive: Path, release: str, packages: tuple[str, ...]) -> None:
    if os.geteuid() != 0 or shutil.which("debootstrap", path=SEARCHED) is None:
        raise RuntimeError("the test image needs root and debootstrap: apt-get install debootstrap")
    tree = Path(tempfile.mkdtemp(prefix="parley-debootstrap-", dir=archive.parent))
    try:
        # In a mount namespace of its own, where what it mounts goes with it.
        include = f"--include={','.join(packages)}"
        command = (
            "unshare",
            "--mount",
            "debootstrap",
            "--variant=minbase",
            include,
            release,
            f"{tree}/root",
        )
        environment = {**os.environ, "PATH": SEARCHED}
        made = subprocess.run(
            (*command, *_mirror(release)),
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            env=environment,
        )
        if made.returncode != 0:
            raise RuntimeError(f"debootstrap: {(made.stdout + made.stderr)[-500:]}")
        packing = (
            "tar",
            "-C",
            f"{tree}/root",
            "--numeric-owner",
            *(f"--exclude={path}" for path in _NOT_NEEDED),
        )
        subprocess.run((*packing, "-cf", f"{tree}/archive", "."), check=True, timeout=60)
        os.replace(tree / "archive", archive)
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"debootstrap did not end within {error.timeout:.0f} s") from error
    finally:
        shutil.rmtree(tree, ignore_errors=True)


def _release() -> str:
    for line in Path("/etc/os-release").read_text().splitlines():
        if line.startswith("VERSION_CODENAME="):
            return line.partition("=")[2].strip('"')
    raise RuntimeError(
        "the test image is made from this machine's own Debian release, and there is none"
    )


def _mirror(release: str) -> tuple[str, ...]:
    """Where this machine's own packages come from; debootstrap's default where apt does not say."""
    asked = (
        "apt-get",
        "indextargets",
        "--format",
        "$(REPO_URI)",
        "Created-By: Packages",
        "Component: main",
        f"Codename: {release}",
    )
    found = subprocess.run(asked, capture_output=True, text=True)
    return tuple(found.stdout.split()[:1])
