"""Benchmarks by name: ours, others' through the entry point group `parley.benchmarks`, and files that a user names."""

import os
import re
import sys
from collections.abc import Callable
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING

from schemas.errors import ConfigError, ParleyError
from schemas.outside.registry import Registry

if TYPE_CHECKING:
    from tasks.benchmarks.contract import Benchmark

FILES_VARIABLE = "PARLEY_BENCHMARKS"
"""Environment variable of the files of benchmarks, as PATH has folders: the workers of a run inherit it."""
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
"""Benchmark of examples and of the demo, where none is named."""


def resolve_name(text: str) -> str:
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
    if other != file and file.stem in BENCHMARKS.names():
        raise ConfigError(
            f"{path}: {other or 'another benchmark'} has the name {file.stem!r} already. Rename the file"
        )
    if other is None:
        os.environ[FILES_VARIABLE] = os.pathsep.join((*map(str, _files().values()), str(file)))
    return file.stem


def _load_file(path: Path) -> "Benchmark":
    from tasks.benchmarks.contract import Benchmark

    module_name = f"parley_benchmark_{path.stem}"
    module = sys.modules.get(module_name)
    if module is None or module.__file__ != str(path):
        spec = spec_from_file_location(module_name, path)
        assert spec, path  # its name ends in .py
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
    offered = [value for value in vars(module).values() if isinstance(value, Benchmark)]
    if [one.name for one in offered] != [path.stem]:
        others = ", ".join(repr(one.name) for one in offered) or "none"
        raise ConfigError(
            f"{path}: the file must offer one benchmark, of its own name {path.stem!r}; it offers {others}."
            f' Write @benchmark("{path.stem}") above the function that makes an Item of a row, or rename the file'
        )
    return offered[0]


def _import_fault(path: Path, error: Exception) -> str:
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"{path}:{error.lineno}: {type(error).__name__}: {error.msg}: {(error.text or '').strip()}. Correct this line"
    lines = [
        frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == str(path)
    ]
    place = f"{path}:{lines[-1]}" if lines else str(path)
    return f"{place}: the file cannot be imported: {type(error).__name__}: {error}. `python {path}` shows where it fails"
