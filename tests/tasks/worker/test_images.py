"""Images of a run's episodes: each comes before its own episode and holds up no other.

A real daemon, a real registry.
"""

import asyncio
import fcntl
import io
import tarfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sandbox.workspace.interface import in_image
from schemas.content_id import content_id
from schemas.errors import ImageFault
from schemas.problem import Problem
from tasks.benchmarks.dialogue_swebench import BENCHMARK
from tasks.benchmarks.dialogue_swebench.images import PROGRAMS
from tasks.storage.files.trees import TreeStore
from tasks.storage.home import Home
from tasks.worker.images import RunImages
from tests.sandbox.backends.image_registry import ImageRegistry, started_registry
from tests.tasks.benchmarks.dialogue_swebench.graded import SAMPLE
from tests.tasks.benchmarks.dialogue_swebench.official_image import BUILT, lay_out

pytestmark = [pytest.mark.docker, pytest.mark.slow]
LONG_S = 120.0


@pytest.fixture(scope="module")
def registry() -> Iterator[ImageRegistry]:
    with started_registry() as found:
        yield found


@pytest.fixture
def problems(
    registry: ImageRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Problem, ...]:
    """The sample's problems, each in an image of its repository that the registry has.

    The last one's cannot be pulled.
    """
    for name, value in registry.variables.items():
        monkeypatch.setenv(name, value)
    found: list[Problem] = []
    for problem in BENCHMARK.data.stage(SAMPLE, "x").problems:
        assert problem.repo is not None
        (tmp_path / problem.problem_id).mkdir()
        lay_out(problem, tmp_path / problem.problem_id)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            tar.add(tmp_path / problem.problem_id, "testbed")
        image = registry.push_archive(f"{tmp_path.name}/{problem.problem_id}", packed.getvalue())
        repo = problem.repo.model_copy(update={"environment": in_image(image, PROGRAMS)})
        found.append(problem.model_copy(update={"repo": repo}))
    registry.remove_layer(image_of(found[-1]))
    return tuple(found)


def image_of(problem: Problem) -> str:
    assert problem.repo is not None
    return problem.repo.environment.removeprefix(f"image:{PROGRAMS}:")


def test_an_episode_waits_for_its_own_image_alone(
    problems: tuple[Problem, ...], tmp_path: Path
) -> None:
    home, counts = Home(tmp_path / "home"), Counter[str]()

    def count(stage: str, **amounts: int) -> None:
        assert stage == "converse"
        for name, amount in amounts.items():
            counts[name] += amount

    context: Any = SimpleNamespace(place=home, resources=())
    images = RunImages(context, count)
    first, second, broken = problems

    async def began(problem: Problem) -> ImageFault | None:
        assert problem.repo is not None
        async with images.ready(problem.repo) as ready:
            if ready.fault is not None:
                assert isinstance(ready.fault, ImageFault)
                return ready.fault
            repo = ready.repository
            assert BUILT in TreeStore(home.trees).files(repo.tree, [BUILT])
            assert repo.tested_tree not in ("", repo.tree)
            return None

    async def play() -> None:
        lock = home.images / "pulls" / content_id(image_of(second))
        lock.parent.mkdir(parents=True)
        with lock.open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)  # as a pull of another process holds it
            waiting, given_up = (
                asyncio.create_task(began(second)),
                asyncio.create_task(began(second)),
            )
            assert await asyncio.wait_for(began(first), LONG_S) is None
            fault = await asyncio.wait_for(began(broken), LONG_S)
            assert str(fault).startswith(
                f"image_missing: docker could not pull the image {image_of(broken)}"
            )
            assert counts["images"] == 1
            given_up.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait_for(given_up, LONG_S)
            assert given_up.cancelled()
            assert not waiting.done()
        assert await asyncio.wait_for(waiting, LONG_S) is None

    asyncio.run(play())
    images.close()
    assert (counts["images"], counts["pulls"]) == (2, 0)
