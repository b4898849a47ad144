"""How many modules a run's data passes through, from its request to the published tables.

Run it with `python -m tests.bench.walk`.

One `parley run` of a bundled CodeIF problem with `control:gold` is profiled, in the driver and in
all processes that it starts. A module is on the walk if one of its functions received or returned
the run's data (`DATA`): its request, plan, shards, episodes, verdicts, scores, reports or tables.
A function that gets these from an attribute is missed, one that only passes them on is counted.
"""

import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from tests.flows.parley_command import SAMPLE, parley_process

DATA = (
    *("EvaluationRequest", "RunPlan", "RunSpec", "WantedEpisodes", "WantedEpisode"),
    *("ConverseShard", "ExecuteShard", "AuditShard", "JudgeShard", "ExecuteItem", "ShardResult"),
    *("StageResult", "Conversed", "AuditDone", "Judged", "Stages", "QualityGate"),
    *("Dialog", "Problem", "Episode", "Message", "TestRun", "TestVerdict", "JudgeVerdict"),
    *("Played", "ScoreRequest", "Score", "PackedRows", "LakeRows"),
    *("Work", "RunWork", "RunReport", "RunRecord", "NightRecord", "Table"),
)
"""Classes of the run's data. `Table` is Arrow's."""
APART = {
    "schemas": "definitions of the data",
    "sandbox": "the inside of the sandbox",
    "tasks.benchmarks.codeif": "the benchmark's own folder",
    "tasks.language": "the model's side",
    "flows.cli": "the command's arguments and output",
    "flows.text": "the command's arguments and output",
    "flows.orchestration": "the server and the cluster",
    "flows.night.preflight": "checks before a run",
    "flows.night.reporting.progress": "the display",
}
"""Package or module -> what it is, if it is not counted."""
PROFILER = """
import os, sys, threading

folder, root, names = os.environ["WALK_FOLDER"], os.environ["WALK_ROOT"], {names!r}
modules, seen = {{}}, set()

def module_of(code):
    path = code.co_filename
    if not path.startswith(root):
        return None
    parts = path[len(root):].removesuffix(".py").split("/")
    known = ("schemas", "sandbox", "tasks", "warehouse", "flows")
    return ".".join(parts).removesuffix(".__init__") if parts[0] in known else None

def is_data(value):
    if isinstance(value, (list, tuple)) and value:
        value = value[0]
    return any(cls.__name__ in names for cls in type(value).__mro__)

def note(frame, event, argument):
    if event not in ("call", "return"):
        return
    code = frame.f_code
    if code not in modules:
        modules[code] = module_of(code)
    module = modules[code]
    if module is None or code.co_name == "<module>":
        return
    n = code.co_argcount + code.co_kwonlyargcount
    values = [argument] if event == "return" else [
        frame.f_locals.get(name) for name in code.co_varnames[:n]
    ]
    row = module, code.co_name, "data" if any(map(is_data, values)) else "-"
    if row not in seen:
        seen.add(row)
        with open(os.path.join(folder, str(os.getpid())), "a") as file:
            file.write(" ".join(row) + "\\n")

threading.setprofile(note)
sys.setprofile(note)
"""


def walked(home: Path) -> Mapping[str, set[str]]:
    """Module -> its functions that received or returned the run's data."""
    root = f"{Path(__file__).resolve().parents[2]}/"
    with tempfile.TemporaryDirectory() as folder:
        rows, code = Path(folder, "rows"), Path(folder, "code")
        rows.mkdir()
        code.mkdir()
        (code / "sitecustomize.py").write_text(PROFILER.format(names=DATA), encoding="utf-8")
        environ = {
            "PYTHONPATH": os.pathsep.join((str(code), root)),
            "WALK_FOLDER": str(rows),
            "WALK_ROOT": root,
        }
        arguments = (*SAMPLE, "--limit", "1", "--model", "control:gold")
        done = parley_process(home, *arguments, environ=environ)
        assert done.code == 0, done.err
        functions: defaultdict[str, set[str]] = defaultdict(set)
        for path in rows.iterdir():
            for line in path.read_text(encoding="utf-8").splitlines():
                module, function, kind = line.split()
                if kind == "data":
                    functions[module].add(function)
    return functions


def apart(module: str) -> str | None:
    """Why the module is not counted, or None."""
    return next(
        (why for name, why in APART.items() if module == name or module.startswith(f"{name}.")),
        None,
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        functions = walked(Path(folder))
    counted = sorted(module for module in functions if apart(module) is None)
    for module in counted:
        print(f"{module:45} {', '.join(sorted(functions[module]))}")
    print(f"{len(counted)} modules, {sum(len(functions[name]) for name in counted)} functions")
    others = defaultdict[str, int](int)
    for module in functions:
        if why := apart(module):
            others[why] += 1
    print("not counted: " + ", ".join(f"{n} of {why}" for why, n in sorted(others.items())))


if __name__ == "__main__":
    sys.exit(main())
