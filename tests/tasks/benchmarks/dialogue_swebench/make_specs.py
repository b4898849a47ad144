"""Makes `specs.json` of the benchmark from the constants of the package `swebench` 4.1.0, the last
release that has them.

pip install swebench==4.1.0
python -m tests.tasks.benchmarks.dialogue_swebench.make_specs >
tasks/benchmarks/dialogue_swebench/specs.json
"""

import json
import re
from typing import Any

from tests.own_files import ROOT

RELEASE = "4.1.0"
PATH = ROOT / "tasks" / "benchmarks" / "dialogue_swebench" / "specs.json"
_NO_REPOSITORY = "swe-bench/humaneval"
_EXPORT = re.compile(r"export (\w+)=(\S+)")


def made() -> str:
    """Return the file's text."""
    from swebench.harness.constants.python import MAP_REPO_VERSION_TO_SPECS_PY  # pyright: ignore[reportMissingImports]
    from swebench.harness.log_parsers.python import MAP_REPO_TO_PARSER_PY  # pyright: ignore[reportMissingImports]

    projects = {
        repo: {"parser": _parser(MAP_REPO_TO_PARSER_PY[repo]), "specs": _grouped(specs)}
        for repo, specs in sorted(MAP_REPO_VERSION_TO_SPECS_PY.items())
        if repo != _NO_REPOSITORY and repo in MAP_REPO_TO_PARSER_PY
    }
    return json.dumps({"source": f"swebench {RELEASE}", "projects": projects}, indent=1) + "\n"


def _parser(function: Any) -> str:
    return function.__name__.removeprefix("parse_log_")


def _grouped(specs: dict[str, Any]) -> list[dict[str, Any]]:
    """Versions with equal commands, Pythons, variables and packages share an entry."""
    found: dict[str, dict[str, Any]] = {}
    for version, spec in sorted(
        specs.items(), key=lambda item: [int(part) for part in re.findall(r"\d+", item[0])]
    ):
        exports = dict(
            match.groups()
            for command in spec.get("eval_commands", ())
            for match in _EXPORT.finditer(command)
        )
        entry = {
            "python": spec["python"],
            "test_cmd": spec["test_cmd"],
            "variables": exports,
            "packages": list(spec.get("pip_packages", ())),
        }
        found.setdefault(json.dumps(entry), {"versions": [], **entry})["versions"].append(version)
    return list(found.values())


if __name__ == "__main__":
    print(made(), end="")
