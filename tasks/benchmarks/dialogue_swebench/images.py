"""SWE-bench's evaluation images: how they are named, and which one an instance has.

Each holds one instance's repository at /testbed, at its base commit, and what it runs with in the conda environment `testbed`.
"""

import json
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sandbox.backends.docker.backend import DockerSandbox
from schemas.content_id import content_id
from schemas.errors import ConfigError, SandboxUnavailable, SourceUnreadable
from tasks.benchmarks.raw_lines import BadRow
from tasks.storage.replaced_file import replace_file

OFFICIAL = "swebench"
_OFFICIAL_NAME = "swebench/sweb.eval.x86_64.{instance}:latest"
"""As `instance_image_key` of swebench 4.1.0's `harness/test_spec/test_spec.py` has it, for its namespace `swebench`."""
PROGRAMS = "/opt/miniconda3/envs/testbed/bin"
"""Where such an image has its Python."""
FORM = (
    f"It is the word `{OFFICIAL}`, for SWE-bench's official Docker images ({_OFFICIAL_NAME}), or REGISTRY/{OFFICIAL} for their"
    " copies in another registry, or another such name: {instance} in it stands for the instance's id in lower case with _1776_"
    " for __, {instance_id} for the id in lower case as it is"
)
_PLACES = ("{instance}", "{instance_id}")
_NAME = re.compile(r"[a-z0-9][a-z0-9._/:@-]*")
_LOOK_UPS = 8
"""Names that a registry is asked for at once."""


@dataclass(frozen=True)
class Images:
    """Images of a form of name.

    Args:
        form: with one of the two places of an instance's id.
    """

    form: str

    @classmethod
    def named(cls, text: str) -> Self:
        """Return the images that a user names by `--resource images=...`.

        Raises:
            ConfigError: it is no such name.
        """
        registry = text.removesuffix(OFFICIAL)
        form = (
            f"{registry}{_OFFICIAL_NAME}"
            if text == OFFICIAL or text.endswith(f"/{OFFICIAL}")
            else text
        )
        filled = form
        for place in _PLACES:
            filled = filled.replace(place, "a")
        if filled == form or not _NAME.fullmatch(filled):
            raise ConfigError(f"--resource images={text}: no name of instances' images. {FORM}")
        return cls(form)

    def name(self, instance_id: str) -> str:
        """Return the name of an instance's image."""
        plain = instance_id.lower()
        return self.form.replace("{instance}", plain.replace("__", "_1776_")).replace(
            "{instance_id}", plain
        )

    def pinned(self, instance_ids: Iterable[str], records: Path) -> "PinnedImages":
        """Look up the digests of instances' images, several at once. Nothing is pulled.

        Args:
            records: folder of the digests that registries gave earlier. A registry is asked once for a name.

        Raises:
            SandboxUnavailable: no daemon answers, or no registry does.
        """
        DockerSandbox().check_daemon()
        with ThreadPoolExecutor(_LOOK_UPS) as threads:
            names = {one: self.name(one) for one in instance_ids}
            found = threads.map(lambda name: _digest(name, records), names.values())
            return PinnedImages(dict(zip(names, found, strict=True)))


@dataclass(frozen=True)
class PinnedImages:
    """Instance -> its image, pinned by digest, or why it has none."""

    images: Mapping[str, str | SourceUnreadable]

    def of(self, instance_id: str) -> str:
        """Return the instance's image. Raises BadRow where no registry has it."""
        image = self.images[instance_id]
        if isinstance(image, SourceUnreadable):
            raise BadRow("image_missing", f"{instance_id}: {image}") from image
        return image


def _digest(name: str, records: Path) -> str | SourceUnreadable:
    """Return a name's image as the daemon has it, or as its registry had it when it was first asked."""
    sandbox, record = DockerSandbox(), records / f"{content_id(name)}.json"
    if record.is_file() and not sandbox.has_image(name):
        return json.loads(record.read_text(encoding="utf-8"))["image"]
    try:
        image = sandbox.pinned_by_digest(name)
    except SourceUnreadable as error:
        return error
    except SandboxUnavailable as error:
        raise SandboxUnavailable(
            f"{error}. Digests that were looked up are kept: the same command goes on from there"
        ) from error
    if "@" in image:
        records.mkdir(parents=True, exist_ok=True)
        replace_file(record, json.dumps({"name": name, "image": image}).encode())
    return image


def images_beside(resource: Path | None) -> Images | None:
    """Return those of the resource, if it is named: it comes as the path of its text."""
    return None if resource is None else Images.named(str(resource))
