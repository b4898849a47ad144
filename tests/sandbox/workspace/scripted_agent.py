"""A toy agent: plays commands in a workspace, and journals each with the tree that it left.

Killed, it goes on from there.

python -m tests.sandbox.workspace.scripted_agent STORE JOURNAL
"""

import json
import sys
import tempfile
from pathlib import Path

from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.workspace.workspace import open_workspace
from tasks.storage.files.trees import TreeStore

_STEP = """
cd /testbed/steps; mkdir {n}; cd {n}; export TOTAL=$((TOTAL + {n}))
echo {n} >> /testbed/log; sleep 0.04; echo {n} > /tmp/last
"""
COMMANDS = (
    "mkdir steps; export TOTAL=0",
    *(_STEP.format(n=n) for n in range(1, 11)),
    'echo "$PWD $TOTAL $(cat /tmp/last)"',
)


def kept(journal: Path) -> list[dict[str, str]]:
    """The journal's whole lines."""
    text = journal.read_text() if journal.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def play(store: TreeStore, journal: Path) -> None:
    """Play the commands that the journal does not have, from the last tree that it has."""
    done = kept(journal)
    with tempfile.TemporaryDirectory() as empty:
        tree = done[-1]["tree"] if done else store.keep(Path(empty)).digest
    with (
        open_workspace(BubblewrapSandbox(), store, tree) as workspace,
        journal.open("ab", buffering=0) as lines,
    ):
        for command in COMMANDS[len(done) :]:
            step = workspace.run_and_snapshot(workspace.shell(command))
            row = {
                "tree": step.tree,
                "stdout": step.completed.stdout.decode(),
                "stderr": step.completed.stderr.decode(),
            }
            lines.write(json.dumps(row).encode() + b"\n")


if __name__ == "__main__":
    play(TreeStore(Path(sys.argv[1])), Path(sys.argv[2]))
