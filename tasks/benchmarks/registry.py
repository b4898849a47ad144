"""Benchmarks by name: ours, others' through the entry point group `parley.benchmarks`, and files that a user names."""

import os
import re
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.errors import ConfigError
from schemas.outside.plugins import load_registered, registered_names

if TYPE_CHECKING:
    from tasks.benchmarks.contract import Benchmark

BUILT_IN: dict[str, str] = {
    "codeif": "tasks.benchmarks.codeif",
    "convcode": "tasks.benchmarks.convcode",
    "dialogue_swebench": "tasks.benchmarks.dialogue_swebench",
    "talk2code": "tasks.benchmarks.talk2code",
    "unidial": "tasks.benchmarks.unidial",
}
GROUP = "parley.benchmarks"
FIRST = next(iter(BUILT_IN))
"""Benchmark of examples and of the demo, where none is named."""


_FILE = re.compile(r"(?P<path>.+\.py)(:(?P<setting>[\w-]+))?")
FILES_VARIABLE = "PARLEY_BENCHMARKS"
"""Environment variable of the files of benchmarks, as PATH has folders: the workers of a run inherit it."""


def named(text: str) -> str:
    """Return BENCHMARK.SETTING as it is; of `path/to/bench.py[:SETTING]`, the name that the file has from now on.

    Raises:
        ConfigError: no such file, or a benchmark has its name already.
    """
    if (match := _FILE.fullmatch(text)) is None:
        return text
    name = _add_file(match["path"])
    return f"{name}.{match['setting']}" if match["setting"] else name


def _add_file(path: str) -> str:
    """Make the benchmark of a file known to this process and those that it starts.

    Returns:
        Its name: that of the file.
    """
    file = Path(path).absolute()
    if not file.is_file():
        raise ConfigError(
            f"{path}: no such file. A benchmark is a name of `parley list benchmarks`, or the path of a .py file"
        )
    other = _files().get(file.stem)
    if file.stem in registered_names(GROUP, BUILT_IN) or other not in (None, file):
        raise ConfigError(
            f"{path}: {other or 'another benchmark'} has the name {file.stem!r} already. Rename the file"
        )
    if other is None:
        os.environ[FILES_VARIABLE] = os.pathsep.join((*map(str, _files().values()), str(file)))
    return file.stem


def names() -> tuple[str, ...]:
    """List all known benchmarks, sorted. Imports nothing."""
    return registered_names(GROUP, {**BUILT_IN, **_files()})


def load(name: str) -> "Benchmark":
    """Load the benchmark of that name.

    Raises:
        UnknownName: lists the known names.
        ConfigError: its file offers no benchmark of that name.
    """
    return load_registered(
        "benchmark", GROUP, {**BUILT_IN, **_files()}, name, _own, "See `parley list benchmarks`"
    )


def _files() -> dict[str, Path]:
    paths = map(Path, filter(None, os.environ.get(FILES_VARIABLE, "").split(os.pathsep)))
    return {path.stem: path for path in paths if path.is_file()}


def _own(name: str) -> "Benchmark":
    return import_module(BUILT_IN[name]).BENCHMARK if name in BUILT_IN else _of_file(_files()[name])


def _of_file(path: Path) -> "Benchmark":
    from tasks.benchmarks.contract import Benchmark

    module_name = f"parley_benchmark_{path.stem}"
    module = sys.modules.get(module_name)
    if module is None or module.__file__ != str(path):
        spec = spec_from_file_location(module_name, path)
        if spec is None or spec.loader is None:
            raise ConfigError(f"{path}: Python cannot import it. Does its name end in .py?")
        module = module_from_spec(spec)
        sys.modules[module_name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[module_name]
            raise
    offered = [value for value in vars(module).values() if isinstance(value, Benchmark)]
    if [one.name for one in offered] != [path.stem]:
        named = ", ".join(one.name for one in offered) or "none"
        raise ConfigError(
            f"{path}: it must offer one benchmark, of the name {path.stem!r}; it offers {named}"
        )
    return offered[0]
