"""Docker images pulled from a registry on loopback: what comes, what goes, and what stays.

A real daemon, a real registry.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from sandbox.backends.docker.backend import DockerSandbox
from sandbox.backends.docker.image import prepared
from sandbox.backends.docker.pulling import layer_bytes
from schemas.errors import ImageFault, SandboxUnavailable, SourceUnreadable
from tasks.storage.files.pulled_images import PulledImages
from tests.sandbox.backends.image_registry import ImageRegistry, started_registry

pytestmark = [pytest.mark.docker, pytest.mark.slow]
MB = 10**6
SIZE = 4 * MB
TOGETHER_S = 60.0


@pytest.fixture(scope="module")
def registry() -> Iterator[ImageRegistry]:
    with started_registry() as found:
        yield found


@pytest.fixture
def images(
    registry: ImageRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> PulledImages:
    """Room for two images of SIZE, once the size of one is known."""
    for name, value in registry.variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("tasks.storage.files.pulled_images._USUAL_IMAGE", SIZE)
    return PulledImages(tmp_path / "images", bound_gb=2.5 * SIZE / 1000 / MB, room_wait_s=0.0)


def test_a_digest_is_known_without_a_pull_and_the_image_is_pulled_once(
    registry: ImageRegistry, images: PulledImages
) -> None:
    image = registry.push_small("once", SIZE)
    name = f"{image.partition('@')[0]}:latest"
    assert DockerSandbox().pinned_by_digest(name) == image
    assert (registry.is_here(image), registry.n_layers_sent("once")) == (False, 0)
    reports: list[int] = []
    for _ in range(2):
        with images.held(image, reports.append):
            assert registry.is_here(image)
    assert reports.count(-1) == 1
    assert sum(reports) + 1 <= registry.n_bytes_to_send(image)
    assert (
        images.used_bytes()
        == sum(layer_bytes(registry.api, image).values())
        == pytest.approx(SIZE, rel=0.01)
    )
    n_sent = registry.n_layers_sent("once")
    assert n_sent >= 1
    with PulledImages(images.folder).held(image):
        assert registry.n_layers_sent("once") == n_sent


def test_what_is_used_is_never_removed_and_what_is_pending_goes_last(
    registry: ImageRegistry, images: PulledImages
) -> None:
    own, pending, idle, late = (
        registry.push_small(name, SIZE) for name in ("own", "pending", "idle", "late")
    )
    registry.api.pull(own)
    images.expect([(pending, "e1"), (pending, "e2")])
    for image in (own, pending, idle):
        with images.held(image):
            pass
    assert all(map(registry.is_here, (own, pending, idle)))
    with images.held(late):
        assert [registry.is_here(image) for image in (own, pending, idle, late)] == [
            True,
            True,
            False,
            True,
        ]
        images.settle(pending, "e1")
        assert images.is_pending(pending)
        images.settle(pending, "e2")
        assert not images.is_pending(pending)
        with images.held(idle):
            assert [registry.is_here(image) for image in (own, pending, idle, late)] == [
                True,
                False,
                True,
                True,
            ]
            waits = threading.Event()

            def has_waited() -> bool:
                waits.set()
                return True

            with (
                pytest.raises(SandboxUnavailable, match="was cancelled"),
                images.held(pending, is_over=has_waited),
            ):
                pass
            assert waits.is_set()
    assert [registry.is_here(image) for image in (own, pending, idle, late)] == [
        True,
        False,
        True,
        True,
    ]


def test_pending_images_make_room_for_each_other(
    registry: ImageRegistry, images: PulledImages
) -> None:
    found = [registry.push_small(f"all-pending-{number}", SIZE) for number in range(4)]
    images.expect((image, f"e{number}") for number, image in enumerate(found))
    for image in found:
        with images.held(image):
            assert registry.is_here(image)
            assert images.used_bytes() <= images.bound_gb * 1000 * MB
    assert [registry.is_here(image) for image in found] == [False, False, True, True]


def test_images_are_pulled_side_by_side(registry: ImageRegistry, images: PulledImages) -> None:
    """Each of the two holds its image until the other has its own, too."""
    found = [registry.push_small(f"beside-{number}", SIZE) for number in range(2)]
    meeting = threading.Barrier(2)

    def hold(image: str) -> None:
        with images.held(image):
            meeting.wait(TOGETHER_S)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(hold, found))


def test_a_failed_pull_names_its_cause_and_leaves_the_room(
    registry: ImageRegistry, images: PulledImages
) -> None:
    whole, broken = registry.push_small("whole", SIZE), registry.push_small("broken", SIZE)
    registry.remove_layer(broken)
    missing = f"{whole.partition('@')[0]}@sha256:{'1' * 64}"
    with pytest.raises(SourceUnreadable, match="no registry has the Docker image"):
        DockerSandbox().pinned_by_digest(f"{registry.address}/nobody/has:this")
    with pytest.raises(
        ImageFault, match=f"^image_missing: no registry has the Docker image {missing}"
    ) as never:
        ExitStack().enter_context(images.held(missing))
    with pytest.raises(ImageFault, match=r"^image_missing: .*broken") as failed:
        ExitStack().enter_context(images.held(broken))
    assert (never.value.permanent, failed.value.permanent) == (True, False)
    assert not list(images.folder.glob("reserved/*"))
    with images.held(whole):
        assert registry.is_here(whole)


def test_the_layer_on_an_image_goes_with_it(registry: ImageRegistry, images: PulledImages) -> None:
    first, second, third = (registry.push_small(f"layered-{number}", SIZE) for number in range(3))
    with images.held(first):
        layer = prepared(registry.api, first).id
    for image in (second, third):
        with images.held(image):
            pass
    assert not registry.is_here(first)
    assert layer not in {found["Id"] for found in registry.api.images(all=True)}
