"""Who asks for a turn waits until its holder has let it go, or died."""

from pathlib import Path

from tests.flows.drivers import driver

HOLDER = """
import json, sys
from pathlib import Path
from tasks.storage.home import Home
home = Path(sys.argv[1])
with Home(home).turn("night"):
    print(json.dumps("mine"), flush=True)
    sys.stdin.read()
    (home / "done").write_text("done")
"""
NEXT = """
import json, sys
from pathlib import Path
from tasks.storage.home import Home
home = Path(sys.argv[1])
print(json.dumps("asks"), flush=True)
with Home(home).turn("night"):
    print(json.dumps((home / "done").exists()), flush=True)
"""


def test_the_next_waits_for_the_end_of_the_one_before(tmp_path: Path) -> None:
    with driver(HOLDER, tmp_path) as holder:
        assert holder.hear() == "mine"
        with driver(NEXT, tmp_path) as following:
            assert following.hear() == "asks"
            holder.finish()
            assert following.hear() is True


def test_a_killed_holder_keeps_nobody_waiting(tmp_path: Path) -> None:
    with driver(HOLDER, tmp_path) as holder:
        assert holder.hear() == "mine"
        with driver(NEXT, tmp_path) as following:
            holder.process.kill()
            assert following.hear() == "asks"
            assert following.hear() is False
