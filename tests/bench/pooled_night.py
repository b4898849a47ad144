"""One night of several runs, as the command line takes it: run as a process of its own, prints one
line of JSON.
"""

import argparse
import json
import os
import time
from pathlib import Path

from flows.night.reporting.progress import Board


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("requests", type=Path, help="a JSON list of requests")
    parser.add_argument("--runs-at-once", type=int, required=True)
    asked = parser.parse_args()
    from flows.night.invocation import run_night
    from tasks.planning.request import EvaluationRequest
    from tasks.storage.home import find_home

    requests = [
        EvaluationRequest.model_validate(one) for one in json.loads(asked.requests.read_text())
    ]
    board, began = Board(), time.monotonic()
    outcome = run_night(
        find_home(environ=os.environ), requests, board, runs_at_once=asked.runs_at_once
    )
    spent: dict[str, list[str]] = {}
    for one in board.times(outcome.night_id):
        spent.setdefault(f"{one.title} {one.run_id[:4]}", []).append(
            f"{one.stage} {one.seconds:.1f}"
        )
    statuses = [[report.status, report.reason, report.pending] for report in outcome.reports]
    print(json.dumps({"statuses": statuses, "night_s": time.monotonic() - began, "spent": spent}))


if __name__ == "__main__":
    main()
