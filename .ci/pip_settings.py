"""Print pip's configuration as the variables that uv reads, one `export NAME=VALUE` a line.

uv reads `UV_*` variables only, so pip's settings are translated. A setting without a translation ends the program with status 1,
and pip installs. Variables for uv that are set already win.
"""

import ast
import os
import shlex
import subprocess
import sys

PLACES = {"global": 0, "install": 1, ":env:": 2}
"""Section of pip's configuration -> its rank; a higher one wins."""
NAMES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "no-index": "UV_NO_INDEX",
    "constraint": "UV_CONSTRAINT",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "proxy": "ALL_PROXY",
}
"""pip's setting -> uv's variable."""
SEPARATORS = {"UV_FIND_LINKS": ",", "UV_INDEX": " ", "UV_CONSTRAINT": " "}
"""Variable that holds a list -> what separates its items."""
WITHOUT_EFFECT = frozenset(
    {
        *(
            "break-system-packages",
            "cache-dir",
            "config-file",
            "default-timeout",
            "disable-pip-version-check",
            "no-cache-dir",
        ),
        *(
            "no-color",
            "no-input",
            "no-python-version-warning",
            "no-warn-script-location",
            "prefer-binary",
            "progress-bar",
        ),
        *(
            "quiet",
            "require-virtualenv",
            "retries",
            "root-user-action",
            "timeout",
            "user",
            "verbose",
        ),
    }
)
"""Settings that change no installed file."""


def pip_settings() -> dict[str, str]:
    """Return pip's settings for an installation, each from the place that wins."""
    command = (sys.executable, "-m", "pip", "config", "list")
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows: list[tuple[int, str, str]] = []
    for key, value in (line.split("=", 1) for line in listed.splitlines()):
        place, _, name = key.rpartition(".")
        if place in PLACES:
            rows.append((PLACES[place], name, ast.literal_eval(value)))
    return {name: value for _, name, value in sorted(rows)}


def main() -> None:
    """Print the variables, or end with status 1 and the settings that uv cannot be told."""
    settings = pip_settings()
    if unknown := settings.keys() - NAMES.keys() - WITHOUT_EFFECT:
        sys.exit(
            f"pip is configured by {', '.join(sorted(unknown))}, which uv does not read: pip installs, which takes minutes"
        )
    variables = {NAMES[name]: value for name, value in settings.items() if name in NAMES}
    for name, separator in SEPARATORS.items():
        if name in variables:
            variables[name] = separator.join(variables[name].split())
    variables["UV_INDEX_STRATEGY"] = (
        "unsafe-best-match"  # of several indexes pip takes the pinned version from any
    )
    for name, value in variables.items():
        if name not in os.environ:
            print(f"export {name}={shlex.quote(value)}")


if __name__ == "__main__":
    main()
