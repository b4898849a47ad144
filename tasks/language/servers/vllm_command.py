"""The command that serves a model by vLLM, and the program that it names. Starts nothing but what tells a version."""

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
"""Names the program `vllm`, where it has an environment of its own: its pins and Parley's differ."""
ANY_PORT = "PORT"
"""Stands for a free port until the server is started."""
_VERSION = "from importlib.metadata import version; print(version('vllm'))"
_VERSION_S = 300.0
"""`vllm --version` imports PyTorch first."""


@dataclass(frozen=True)
class ServeCommand:
    """One replica's command: `arguments` holds ANY_PORT where its port belongs."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    """Beside our own."""

    def shown(self) -> str:
        """As a person would type it."""
        return " ".join(
            [
                *(f"{name}={shlex.quote(value)}" for name, value in self.environment.items()),
                shlex.join(self.arguments),
            ]
        )

    def at(self, port: int) -> list[str]:
        """The arguments with the port."""
        return [str(port) if argument == ANY_PORT else argument for argument in self.arguments]


def served_name(identity: ModelIdentity) -> str:
    """The name that the server gives the model: the digest of its weights, or of its identity where those cannot be known."""
    return identity.weights_digest or content_id(identity)


def serve_commands(
    identity: ModelIdentity,
    place: str,
    settings: VllmSettings,
    *,
    revision: str | None = None,
    program: str | None = None,
) -> tuple[ServeCommand, ...]:
    """The command of each replica.

    Args:
        place: folder of weights, or a repository's name.
        revision: of the repository; a folder has none.
        program: the program's path, where it was looked for already; else its name as the settings have it.
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
    """Path of the program `vllm`.

    Raises:
        UsageError: there is none; says what to install or to set.
    """
    named = settings.command or os.environ.get(VARIABLE)
    beside = Path(sys.executable).with_name("vllm")
    found = (
        shutil.which(named)
        if named
        else (str(beside) if os.access(beside, os.X_OK) else shutil.which("vllm"))
    )
    if found is None:
        told = f"{named!r} is no program" if named else "it is not installed"
        raise UsageError(
            f'models vllm:... need vLLM, but {told}. Either pip install "parley-eval[vllm]", or install vllm into an environment'
            f" of its own and name its program: {VARIABLE}=/that/bin/vllm (`serve:"
            f" {{command: ...}}` in a configuration)"
        )
    return found


def engine_version(settings: VllmSettings) -> str:
    """`vllm-0.32.0`: the engine's version, which a model's revision holds where the user states none.

    Raises:
        UsageError: vLLM is not installed, or its version cannot be told.
    """
    program = find_program(settings)
    if not settings.command and not os.environ.get(VARIABLE):
        try:
            return f"vllm-{version('vllm')}"
        except PackageNotFoundError:
            pass  # a program on the PATH, of another environment
    return f"vllm-{_version_of(program)}"


@lru_cache(maxsize=8)
def _version_of(program: str) -> str:
    for command in (*_by_its_python(program), [program, "--version"]):
        try:
            asked = subprocess.run(
                command, capture_output=True, text=True, timeout=_VERSION_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if asked.returncode == 0 and (said := asked.stdout.split()):
            return said[-1]
    raise UsageError(
        f"{program}: it tells no version. Is it the program `vllm`? Try it by hand: {program}"
        " --version"
    )


def _by_its_python(program: str) -> list[list[str]]:
    """The quick way: ask the Python that the program's first line names."""
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
