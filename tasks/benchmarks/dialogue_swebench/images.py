"""SWE-bench's evaluation images: how they are named, and which one an instance has.

Each holds one instance's repository at /testbed, at its base commit, and what it runs with in the conda environment `testbed`.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sandbox.backends.docker.backend import DockerSandbox
from schemas.errors import ConfigError, SourceUnreadable
from tasks.benchmarks.raw_lines import BadRow

OFFICIAL = "swebench"
_OFFICIAL_NAME = "swebench/sweb.eval.x86_64.{instance}:latest"
PROGRAMS = "/opt/miniconda3/envs/testbed/bin"
"""Where such an image has its Python."""
FORM = (
    f"It is the word `{OFFICIAL}`, for SWE-bench's official Docker images ({_OFFICIAL_NAME}), or another such name: {{instance}}"
    " in it stands for the instance's id in lower case with _1776_ for __, {instance_id} for the id in lower case as it is"
)
_PLACES = ("{instance}", "{instance_id}")
_NAME = re.compile(r"[a-z0-9][a-z0-9._/:@-]*")


@dataclass(frozen=True)
class Images:
    """Images of a form of name.

    Args:
        form: with one of the two places of an instance's id.
    """

    form: str

    @classmethod
    def named(cls, given: str) -> Self:
        """The images that a user names by `--resource images=...`.

        Raises:
            ConfigError: it is no such name.
        """
        form = _OFFICIAL_NAME if given == OFFICIAL else given
        filled = form
        for place in _PLACES:
            filled = filled.replace(place, "a")
        if filled == form or not _NAME.fullmatch(filled):
            raise ConfigError(f"--resource images={given}: no name of instances' images. {FORM}")
        return cls(form)

    def name(self, instance_id: str) -> str:
        """Name of an instance's image."""
        plain = instance_id.lower()
        return self.form.replace("{instance}", plain.replace("__", "_1776_")).replace("{instance_id}", plain)

    def of(self, instance_id: str) -> str:
        """The instance's image, pinned by digest; it is pulled where it is not here.

        Raises:
            BadRow: no registry has it.
            SandboxUnavailable: nothing can be known of it: no daemon answers, or no registry does.
        """
        try:
            return DockerSandbox().pinned_by_digest(self.name(instance_id))
        except SourceUnreadable as error:
            raise BadRow("image_missing", f"{instance_id}: {error}") from error


def images_beside(given: Path | None) -> Images | None:
    """Those of the resource, if it is named: it comes as the path of its text."""
    return None if given is None else Images.named(str(given))
