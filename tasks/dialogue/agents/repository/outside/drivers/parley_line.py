"""HTTP connection of a driver to Parley, which provides model, tools and the simulated user."""

import json
import sys
import urllib.request
from typing import Any

LONGEST_S = 86_400


def address() -> str:
    """Return the address that the script was started with."""
    return sys.argv[1]


def ask(path: str, **body: Any) -> dict[str, Any]:
    """Send a request to Parley and wait for its answer.

    Raises:
        OSError: Parley has ended, so this process should end as well.
    """
    data = json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{address()}/{path}", data, headers)
    with urllib.request.urlopen(request, timeout=LONGEST_S) as answer:
        return json.loads(answer.read())
