"""Packing of servers onto devices: shares of memory add up, named devices are kept, and a silent
server keeps the machine.
"""

import pytest

from flows.night.server_queue import Demand, Occupied, demand_of, machine_devices, placed
from tasks.language.servers.vllm_settings import VllmSettings
from tasks.planning.request import ModelRequest

POOL = tuple("01234567")


def auto(width: int = 1, share: float = 1.0) -> Demand:
    return Demand(width, share, is_auto=True)


def up(demand: Demand, *devices: str, is_starting: bool = False) -> Occupied:
    return Occupied(demand, devices, is_starting)


def test_servers_take_free_devices_and_wait_where_too_few_are_left() -> None:
    four = up(auto(4), *"0123")
    assert placed(POOL, {"a": auto(4), "b": auto()}, []) == {"a": tuple("0123"), "b": ("4",)}
    assert placed(POOL, {"a": auto(4)}, [four]) == {"a": tuple("4567")}
    assert placed(POOL, {"a": auto(4)}, [four, up(auto(), "6")]) is None
    assert placed(POOL, {"a": auto(9)}, []) is None


def test_shares_of_one_device_add_up_to_one_and_the_fullest_device_goes_first() -> None:
    half = up(auto(share=0.5), "2")
    assert placed(POOL, {"a": auto(share=0.5)}, [half]) == {"a": ("2",)}
    assert placed(POOL, {"a": auto(share=0.6)}, [half]) == {"a": ("0",)}
    assert placed(("2",), {"a": auto(share=0.6)}, [half]) is None
    assert placed(("",), {name: auto(share=0.5) for name in "ab"}, []) == {"a": ("",), "b": ("",)}


def test_no_server_starts_on_a_device_where_another_one_starts() -> None:
    starting = up(auto(share=0.5), "0", is_starting=True)
    assert placed(("0",), {"a": auto(share=0.5)}, [starting]) is None
    assert placed(("0", "1"), {"a": auto(share=0.5)}, [starting]) == {"a": ("1",)}


def test_named_devices_are_taken_where_they_are_free_and_shared_within_a_run() -> None:
    named = Demand(1, named=("0",))
    assert placed((), {"a": named}, [up(named, "0")]) is None
    assert placed((), {"a": named}, [up(named, "1")]) == {"a": ("0",)}
    assert placed((), {"a": named}, [], mates=[up(named, "0")]) == {"a": ("0",)}
    assert placed(POOL, {"a": auto()}, [up(named, "0")]) == {"a": ("1",)}


def test_a_server_that_states_no_devices_is_alone_with_those_of_its_run() -> None:
    whole, none = Demand(1), Demand(0)
    assert whole.is_whole
    assert placed(POOL, {"a": whole}, [up(whole)]) is None
    assert placed(POOL, {"a": auto()}, [up(whole)]) is None
    assert placed(POOL, {"a": whole}, [up(auto(), "7")]) is None
    assert placed(POOL, {"a": whole, "b": auto()}, [up(none)]) == {"a": (), "b": ("1",)}
    assert placed(POOL, {"a": none}, [up(whole)]) == {"a": ()}


def test_the_demand_of_a_model_is_that_of_all_its_replicas() -> None:
    settings = VllmSettings.of_texts(
        {"devices": "auto", "replicas": "2", "tensor_parallel": "2", "memory_share": "0.4"}
    )
    assert demand_of(ModelRequest(spec="vllm:a/b", serve=settings)) == Demand(4, 0.4, is_auto=True)
    assert demand_of(ModelRequest(spec="vllm:a/b")) == Demand(1)
    assert demand_of(ModelRequest(spec="embedded:smollm2")) == Demand(0)


@pytest.mark.parametrize(
    ("variables", "devices"),
    [
        ({"PARLEY_DEVICES": "0, 1,5", "CUDA_VISIBLE_DEVICES": "7"}, ("0", "1", "5")),
        ({"PARLEY_DEVICES": "", "CUDA_VISIBLE_DEVICES": "2,3"}, ("2", "3")),
    ],
)
def test_the_devices_of_a_machine_are_those_that_a_variable_names(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], devices: tuple[str, ...]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    machine_devices.cache_clear()
    assert machine_devices() == devices
    machine_devices.cache_clear()
