"""Benchmarks by name: built-in ones, plug-ins, and files named on the command line.

Plug-ins use the entry point group `parley.benchmarks`. `builds`, `layouts` and `constructions` are
all that `parley build` can make. This module imports nothing that reads files, so that these lists
appear without delay.
"""

import os
import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, TypeVar

from schemas.errors import ConfigError, ParleyError
from schemas.outside.registry import Registry

if TYPE_CHECKING:
    from tasks.benchmarks.advanced import Construction
    from tasks.benchmarks.contract import Benchmark
    from tasks.benchmarks.results import Build, Layout

FILES_VARIABLE = "PARLEY_BENCHMARKS"
"""Environment variable with the files of benchmarks, separated as in PATH.

The workers of a run inherit it.
"""
Part = TypeVar("Part")
_FILE = re.compile(r"(?P<path>.+\.py)(:(?P<setting>[\w-]+))?")


def _files() -> dict[str, Path]:
    paths = map(Path, filter(None, os.environ.get(FILES_VARIABLE, "").split(os.pathsep)))
    return {path.stem: path for path in paths if path.is_file()}


def _file_loaders() -> "dict[str, Callable[[], Benchmark]]":
    return {name: partial(_load_file, path) for name, path in _files().items()}


BENCHMARKS: "Registry[Benchmark]" = Registry(
    "benchmark",
    "parley.benchmarks",
    {
        "codeif": "tasks.benchmarks.codeif:BENCHMARK",
        "convcode": "tasks.benchmarks.convcode:BENCHMARK",
        "dialogue_swebench": "tasks.benchmarks.dialogue_swebench:BENCHMARK",
        "talk2code": "tasks.benchmarks.talk2code:BENCHMARK",
        "unidial": "tasks.benchmarks.unidial:BENCHMARK",
    },
    _file_loaders,
    "See `parley list benchmarks`",
)
FIRST = next(iter(BENCHMARKS.built_in))
"""First built-in benchmark, used in examples and in the demo by default."""


def resolve_name(text: str) -> str:
    """Return the BENCHMARK.SETTING that a text means.

    A text `path/to/bench.py[:SETTING]` registers the file as a benchmark. Other texts are returned
    unchanged.

    Raises:
        ConfigError: The file does not exist, or another benchmark has its name.
    """
    if (match := _FILE.fullmatch(text)) is None:
        return text
    name = _add_file(match["path"])
    return f"{name}.{match['setting']}" if match["setting"] else name


def _add_file(path: str) -> str:
    """Register the benchmark of a file in this process and its child processes.

    Returns:
        Name of the benchmark, which is the name of the file.
    """
    file = Path(path).absolute()
    if not file.is_file():
        raise ConfigError(
            f"{path}: no such file. A benchmark is a name from `parley list benchmarks` or "
            "the path of a .py file"
        )
    other = _files().get(file.stem)
    if other != file and file.stem in BENCHMARKS.names():
        raise ConfigError(
            f"{path}: {other or 'another benchmark'} already has the name {file.stem!r}. "
            "Rename the file"
        )
    if other is None:
        os.environ[FILES_VARIABLE] = os.pathsep.join((*map(str, _files().values()), str(file)))
    return file.stem


def folder_of(name: str) -> Path:
    """Return the folder of the file that defines a benchmark."""
    BENCHMARKS.require(name)
    file = _files().get(name) or import_module(BENCHMARKS.module_of(name)).__file__
    assert file, name
    return Path(file).parent


def _load_file(path: Path) -> "Benchmark":
    from tasks.benchmarks.contract import Benchmark

    module_name = f"parley_benchmark_{path.stem}"
    module = sys.modules.get(module_name)
    if module is None or module.__file__ != str(path):
        spec = spec_from_file_location(module_name, path)
        assert spec, path  # The file name ends in .py, so there is a spec.
        assert spec.loader, path
        module = module_from_spec(spec)
        sys.modules[module_name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException as error:
            del sys.modules[module_name]
            if isinstance(error, Exception) and not isinstance(error, ParleyError):
                raise ConfigError(_import_fault(path, error)) from error
            raise
    benchmarks = [value for value in vars(module).values() if isinstance(value, Benchmark)]
    if [benchmark.name for benchmark in benchmarks] != [path.stem]:
        others = ", ".join(repr(benchmark.name) for benchmark in benchmarks) or "none"
        raise ConfigError(
            f"{path}: the file must define one benchmark named {path.stem!r}, but defines {others}."
            f' Write @benchmark("{path.stem}") above the function that returns an Item, or rename'
            " the file"
        )
    return benchmarks[0]


def _import_fault(path: Path, error: Exception) -> str:
    if isinstance(error, SyntaxError) and error.filename == str(path):
        line = (error.text or "").strip()
        return f"{path}:{error.lineno}: {type(error).__name__}: {error.msg}: {line}. Fix this line"
    lines = [
        frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == str(path)
    ]
    place = f"{path}:{lines[-1]}" if lines else str(path)
    return (
        f"{place}: the file cannot be imported: {type(error).__name__}: {error}. "
        f"`python {path}` shows where it fails"
    )


def builds() -> "dict[str, tuple[Benchmark, Build]]":
    """Return every benchmark's builds by command-line name."""
    return _by_command_name(lambda benchmark: benchmark.results.builds)


def layouts() -> "dict[str, Layout]":
    """Return every benchmark's layouts by command-line name."""
    found = _by_command_name(lambda benchmark: benchmark.results.layouts)
    return {name: layout for name, (_, layout) in found.items()}


def constructions() -> "dict[str, tuple[Benchmark, Construction]]":
    """Map each NAME of `parley build NAME` to its benchmark and its construction of a dataset."""
    return _by_command_name(lambda benchmark: benchmark.constructions)


def _by_command_name(
    parts_of: "Callable[[Benchmark], Mapping[str, Part]]",
) -> "dict[str, tuple[Benchmark, Part]]":
    return {
        f"{benchmark.name}-{name}": (benchmark, part)
        for benchmark in map(BENCHMARKS.load, BENCHMARKS.names())
        for name, part in parts_of(benchmark).items()
    }
