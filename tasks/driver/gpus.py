"""Placement of model servers on the GPUs of a machine.

A server with `devices: auto` takes any devices with enough memory. A server with named devices
takes these. A server without either setting reserves the whole machine for itself and for the other
servers of the same run.
"""

import os
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from tasks.language.providers.registry import provider_of
from tasks.language.servers.vllm_settings import AUTO, VllmSettings
from tasks.planning.request import ModelRequest

VARIABLE = "PARLEY_DEVICES"
"""Environment variable with the devices that `devices: auto` may use, separated by commas."""
_ROUNDING = 1e-9
_Name = TypeVar("_Name")
_LIST_S = 30.0


@dataclass(frozen=True)
class Demand:
    """Demand of one model's servers: the number of devices, or named ones."""

    width: int
    """Number of devices of all replicas. 0 for a server that needs none."""
    share: float = 1.0
    """Share of each device's memory."""
    named: tuple[str, ...] = ()
    is_auto: bool = False

    @property
    def is_whole(self) -> bool:
        """Return True if the server reserves the whole machine."""
        return bool(self.width) and not self.named and not self.is_auto


@dataclass(frozen=True)
class Occupied:
    """Devices that a running server occupies."""

    demand: Demand
    devices: tuple[str, ...]
    is_starting: bool = False
    """True while the server starts.

    vLLM then measures free memory, so no other server may start on these devices.
    """


def demand_of(request: ModelRequest) -> Demand:
    """Return the devices that the servers of a model need."""
    provider = provider_of(request.spec)
    if provider is None or not provider.takes_serve_settings:
        return Demand(0)
    settings = request.serve or VllmSettings()
    named = () if settings.devices == AUTO else settings.devices
    width = settings.replicas * settings.tensor_parallel
    return Demand(width, settings.memory_share or 1.0, named, settings.devices == AUTO)


@cache
def machine_devices() -> tuple[str, ...]:
    """Return the devices for `devices: auto`.

    They are listed in PARLEY_DEVICES, else in CUDA_VISIBLE_DEVICES, else by nvidia-smi. A machine
    without GPUs has one device without a name, which CPU servers can share by `memory_share`.
    """
    for variable in (VARIABLE, "CUDA_VISIBLE_DEVICES"):
        if listed := os.environ.get(variable):
            return tuple(name.strip() for name in listed.split(",") if name.strip())
    program = shutil.which("nvidia-smi")
    if program is not None:
        with suppress(OSError, subprocess.TimeoutExpired):
            process = subprocess.run(
                [program, "--query-gpu=index", "--format=csv,noheader"],
                capture_output=True,
                text=True,
                timeout=_LIST_S,
                check=False,
            )
            if process.returncode == 0 and (listed := process.stdout.split()):
                return tuple(listed)
    return ("",)


def placed(
    pool: Sequence[str],
    demands: Mapping[_Name, Demand],
    beside: Sequence[Occupied],
    mates: Sequence[Occupied] = (),
) -> Mapping[_Name, tuple[str, ...]] | None:
    """Return devices for servers that start together, or None if there is no room for all.

    Args:
        pool: Devices that `auto` may use.
        demands: Demand of each server, by name.
        beside: Running servers that continue to run.
        mates: Running servers of the same run. A server with named devices may share devices with
            them.
    """
    others = [server for server in beside if server.demand.width]
    asking = [demand for demand in demands.values() if demand.width]
    if (
        asking
        and others
        and any(demand.is_whole for demand in (*asking, *(server.demand for server in others)))
    ):
        return None
    load = _load(others)
    for demand in demands.values():
        if any(load[device] + demand.share > 1 + _ROUNDING for device in demand.named):
            return None
    for device, share in _load(mates).items():
        load[device] += share
    devices_of: dict[_Name, tuple[str, ...]] = {}
    for name, demand in sorted(demands.items(), key=lambda item: (item[1].is_auto, -item[1].width)):
        devices = _fullest(pool, load, demand) if demand.is_auto else demand.named
        if devices is None:
            return None
        for device in (
            pool[: demand.width] if demand.is_whole else devices
        ):  # vLLM itself takes the first ones.
            load[device] += demand.share
        devices_of[name] = devices
    return devices_of


def _load(servers: Sequence[Occupied]) -> defaultdict[str, float]:
    load: defaultdict[str, float] = defaultdict(float)
    for server in servers:
        for device in server.devices:
            load[device] += 1.0 if server.is_starting else server.demand.share
    return load


def _fullest(
    pool: Sequence[str], load: Mapping[str, float], demand: Demand
) -> tuple[str, ...] | None:
    """Return the fullest devices with enough room, so that empty devices stay free for others."""
    with_room = [device for device in pool if load.get(device, 0.0) + demand.share <= 1 + _ROUNDING]
    with_room.sort(key=lambda device: -load.get(device, 0.0))
    return tuple(with_room[: demand.width]) if len(with_room) >= demand.width else None
