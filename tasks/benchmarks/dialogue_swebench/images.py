"""SWE-bench's evaluation images: the form of their names, and the image of each instance.

Each contains one instance's repository at /testbed, at its base commit, and its packages in the
conda environment `testbed`.
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
from tasks.benchmarks.raw_rows import BadRow
from tasks.storage.new_folder import replace_file

OFFICIAL = "swebench"
_OFFICIAL_NAME = "swebench/sweb.eval.x86_64.{instance}:latest"
"""Form of official image names, as `instance_image_key` of swebench 4.1.0 makes them.

Source: `harness/test_spec/test_spec.py` of swebench, with its namespace `swebench`.
"""
PROGRAMS = "/opt/miniconda3/envs/testbed/bin"
"""Folder of the Python that runs the tests in an evaluation image."""
FORM = (
    f"It is `{OFFICIAL}` for SWE-bench's official Docker images ({_OFFICIAL_NAME}),"
    f" REGISTRY/{OFFICIAL} for their copies in another registry, or another name in which"
    " {instance} stands for the instance's id in lower case with _1776_ instead of __, or"
    " {instance_id} for the id in lower case"
)
_PLACES = ("{instance}", "{instance_id}")
_NAME = re.compile(r"[a-z0-9][a-z0-9._/:@-]*")
_LOOK_UPS = 8
"""Maximum number of simultaneous requests to a registry."""


@dataclass(frozen=True)
class Images:
    """Images whose names have one form.

    Args:
        form: Form of the names, which contains `{instance}` or `{instance_id}`.
    """

    form: str

    @classmethod
    def named(cls, text: str) -> Self:
        """Return the images named by the FORM of `--resource images=FORM`.

        Raises:
            ConfigError: The text is not a valid form of names.
        """
        registry = text.removesuffix(OFFICIAL)
        form = (
            f"{registry}{_OFFICIAL_NAME}"
            if text == OFFICIAL or text.endswith(f"/{OFFICIAL}")
            else text
        )
        filled = form
        for placeholder in _PLACES:
            filled = filled.replace(placeholder, "a")
        if filled == form or not _NAME.fullmatch(filled):
            raise ConfigError(f"--resource images={text}: not a form of image names. {FORM}")
        return cls(form)

    def name(self, instance_id: str) -> str:
        """Return the name of an instance's image."""
        plain = instance_id.lower()
        return self.form.replace("{instance}", plain.replace("__", "_1776_")).replace(
            "{instance_id}", plain
        )

    def pinned(self, instance_ids: Iterable[str], records: Path) -> "PinnedImages":
        """Look up the digests of instances' images, several at a time. Nothing is pulled.

        Args:
            instance_ids: Ids of the instances.
            records: Folder with the digests of earlier look-ups. Each name is looked up once.

        Raises:
            SandboxUnavailable: The Docker daemon or the registry does not answer.
        """
        DockerSandbox().check_daemon()
        with ThreadPoolExecutor(_LOOK_UPS) as threads:
            names = {instance_id: self.name(instance_id) for instance_id in instance_ids}
            images = threads.map(lambda name: _digest(name, records), names.values())
            return PinnedImages(dict(zip(names, images, strict=True)))


@dataclass(frozen=True)
class PinnedImages:
    """Instance -> image pinned by digest, or the reason why it has none."""

    images: Mapping[str, str | SourceUnreadable]

    def of(self, instance_id: str) -> str:
        """Return the instance's image. Raises BadRow if no registry has it."""
        image = self.images[instance_id]
        if isinstance(image, SourceUnreadable):
            raise BadRow("image_missing", f"{instance_id}: {image}") from image
        return image


def _digest(name: str, records: Path) -> str | SourceUnreadable:
    """Pin an image by the daemon's digest, or by the registry's digest at the first look-up."""
    sandbox, record = DockerSandbox(), records / f"{content_id(name)}.json"
    if record.is_file() and not sandbox.has_image(name):
        return json.loads(record.read_text(encoding="utf-8"))["image"]
    try:
        image = sandbox.pinned_by_digest(name)
    except SourceUnreadable as error:
        return error
    except SandboxUnavailable as error:
        raise SandboxUnavailable(
            f"{error}. Finished look-ups are stored. Repeat the command to continue"
        ) from error
    if "@" in image:
        records.mkdir(parents=True, exist_ok=True)
        replace_file(record, json.dumps({"name": name, "image": image}).encode())
    return image
