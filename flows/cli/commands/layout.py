"""Builds that write the files of repositories to a folder, and check them with tests."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from schemas.errors import ParleyError, UnknownName, UsageError
from tasks.storage.home import find_home


def lay_out(
    build_name: str,
    out: Path,
    checkouts: dict[str, str],
    only: Sequence[str],
    resources: dict[str, str],
    fetch: bool,
    json_output: bool,
) -> None:
    """Write the files of a build to a folder, run each task's tests on them, and print the result.

    Raises:
        UnknownName: the build has no such resource.
        ParleyError: some files could not be written.
    """
    from tasks.benchmarks.registry import layouts

    layout = layouts()[build_name]
    for name in resources.keys() - {layout.listing}:
        raise UnknownName("resource", name, (layout.listing,), of=build_name)
    places = {name: Path(path).absolute() for name, path in checkouts.items()}
    listing = Path(resources[layout.listing]).absolute() if resources else None
    lines = [
        *layout.lay_out(
            out.absolute(),
            places,
            only,
            lambda name: print(f"{name} …", file=sys.stderr),
            listing,
            fetch,
        )
    ]
    lines += _environments(build_name, out.absolute())
    if json_output:
        print(json.dumps({"out": str(out), "built": list(lines)}))
    else:
        print("\n".join((*lines, f"in {out}")))
    if any(": FAILED: " in line for line in lines):
        raise ParleyError(
            "some files could not be written: see FAILED above. Type the same command again to"
            " retry them"
        )


def _environments(build_name: str, out: Path) -> list[str]:
    """Run each task's own tests on the files in `out`.

    Return a line with the number of tasks whose tests pass, then a line for each reason why tests
    fail.
    """
    from sandbox.registry import default_name
    from tasks.benchmarks.registry import BENCHMARKS, layouts
    from tasks.planning.dataset import resolved_data
    from tasks.planning.environment_check import environment_lines

    benchmark = BENCHMARKS.load(build_name.partition("-")[0])
    version, resources = benchmark.data.default_version, {layouts()[build_name].resource: str(out)}
    if not out.is_dir():
        return []
    try:
        staged = resolved_data(benchmark, None, version, find_home(), resources, default_name())
    except UsageError:
        return [
            f"not checked, because no tasks are staged. Run `parley stage {benchmark.name} --data"
            " DIR`, then this command again"
        ]
    n_whole = sum(dialog.tree is not None and not dialog.is_sourceless for dialog in staged.dialogs)
    return [f"{n_whole} tasks pass their own tests here", *environment_lines(staged.dialogs)]
