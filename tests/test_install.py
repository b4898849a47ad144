"""What `make install` tells uv of pip's configuration: packages come from where the user's pip has them from."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.own_files import ROOT

PROGRAM = re.search(r"^define SETTINGS_FOR_UV\n(.*?)^endef$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.S | re.M)


def exported(tmp_path: Path, configuration: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """What the Makefile's program says where pip is configured like this."""
    assert PROGRAM is not None
    file = tmp_path / "pip.conf"
    file.write_text(configuration)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_", "SSL_"))}
    alone = {
        "PIP_CONFIG_FILE": str(file),
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
        "XDG_CONFIG_DIRS": str(tmp_path),
    }
    return subprocess.run((sys.executable, "-c", PROGRAM[1]), capture_output=True, text=True, env=kept | alone | environ)


def variables(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """The variables as a shell sees them."""
    assert done.returncode == 0, done.stderr
    shown = subprocess.run(("sh", "-c", f"{done.stdout}\nenv"), capture_output=True, text=True, env={}, check=True).stdout
    return {name: value for name, _, value in (line.partition("=") for line in shown.splitlines()) if name[:3] in ("UV_", "SSL")}


def test_indexes_links_and_certificates_are_handed_on(tmp_path: Path) -> None:
    done = exported(
        tmp_path,
        "[global]\nindex-url = http://one.test/simple\nextra-index-url =\n  http://two.test/simple\n  http://three.test/simple\n"
        "cert = /certificates/it's.pem\ntimeout = 60\n[install]\nfind-links = /wheels /more\n[list]\nformat = columns\n",
    )
    wanted = {
        "UV_DEFAULT_INDEX": "http://one.test/simple",
        "UV_INDEX": "http://two.test/simple http://three.test/simple",
        "UV_FIND_LINKS": "/wheels,/more",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "SSL_CERT_FILE": "/certificates/it's.pem",
    }
    assert wanted.items() <= variables(done).items()


def test_a_variable_for_pip_wins_over_its_files_and_one_for_uv_over_both(tmp_path: Path) -> None:
    configuration = "[global]\nindex-url = http://one.test/simple\nfind-links = /wheels\n"
    done = exported(tmp_path, configuration, PIP_INDEX_URL="http://two.test/simple", UV_FIND_LINKS="/mine")
    assert variables(done)["UV_DEFAULT_INDEX"] == "http://two.test/simple"
    assert "UV_FIND_LINKS" not in done.stdout


def test_what_uv_has_no_word_for_leaves_it_to_pip(tmp_path: Path) -> None:
    done = exported(tmp_path, "[install]\nconstraint = /pins.txt\n")
    assert done.returncode == 1
    assert "constraint" in done.stderr
