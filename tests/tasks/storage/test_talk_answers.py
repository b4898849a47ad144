"""Answers of which the memory of a talk is built: kept at once, held by one process at a time."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tasks.storage.paid_calls import TalkAnswers, built_talks
from tests.own_files import ROOT

HOLDER = """
import asyncio, sys
from pathlib import Path
from tasks.storage.paid_calls import TalkAnswers

async def hold():
    answers = TalkAnswers(Path(sys.argv[1]))
    async with answers.building("talk"):
        answers.put("talk", "a", "first")
        print("held", flush=True)
        await asyncio.sleep(60)

asyncio.run(hold())
"""


def test_an_answer_is_known_to_others_once_they_hold_the_talk(tmp_path: Path) -> None:
    one, other = TalkAnswers(tmp_path), TalkAnswers(tmp_path)

    async def play() -> None:
        assert other.get("talk", "a") is None
        async with one.building("talk"):
            one.put("talk", "a", "first")
            one.put("talk", "a", "second")
        assert one.get("talk", "a") == "first"
        assert other.get("talk", "a") is None
        async with other.building("talk"):
            assert other.get("talk", "a") == "first"
        async with other.building("talk"), one.building("another"):
            one.mark_built("another", 6)
            one.mark_built("another", 4)

    asyncio.run(play())
    one.close()
    other.close()
    assert built_talks(tmp_path) == {"another": 6}


def test_answers_of_many_talks_are_read_again_where_they_are_wanted(tmp_path: Path) -> None:
    answers = TalkAnswers(tmp_path)
    for number in range(300):
        answers.put(f"talk {number}", "a", f"answer {number}")
        answers.mark_built(f"talk {number}", 2)
    assert [answers.get(f"talk {number}", "a") for number in (0, 150, 299)] == [
        "answer 0",
        "answer 150",
        "answer 299",
    ]
    answers.close()
    assert len(built_talks(tmp_path)) == 300


def test_one_at_a_time_holds_a_talk(tmp_path: Path) -> None:
    one, other = TalkAnswers(tmp_path), TalkAnswers(tmp_path)
    order: list[str] = []

    async def hold(answers: TalkAnswers, name: str) -> None:
        async with answers.building("talk"):
            order.append(f"{name} in")
            await asyncio.sleep(0.05)
            order.append(f"{name} out")

    async def play() -> None:
        await asyncio.gather(
            *(hold(answers, name) for answers, name in ((one, "a"), (other, "b"), (one, "c")))
        )

    asyncio.run(play())
    assert [first[0] for first in order[::2]] == [last[0] for last in order[1::2]]
    assert sorted(order) == sorted(f"{name} {way}" for name in "abc" for way in ("in", "out"))


@pytest.mark.slow
def test_the_talk_of_a_killed_process_is_free_and_its_answers_are_kept(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        answers = TalkAnswers(tmp_path)

        async def wait() -> float:
            asked = time.monotonic()
            asyncio.get_running_loop().call_later(0.5, holder.kill)
            async with answers.building("talk"):
                assert answers.get("talk", "a") == "first"
                return time.monotonic() - asked

        assert asyncio.run(asyncio.wait_for(wait(), 30)) > 0.4
    answers.close()


def test_who_is_cancelled_while_waiting_holds_nothing(tmp_path: Path) -> None:
    one, other = TalkAnswers(tmp_path), TalkAnswers(tmp_path)

    async def play() -> None:
        async with one.building("talk"):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(other.building("talk").__aenter__(), 0.3)
        async with other.building("talk"):
            pass

    asyncio.run(asyncio.wait_for(play(), 30))
