"""Process of the command `parley`, also started by `python -m flows.cli`."""

import atexit
import os
import sys
import threading
import traceback


def main() -> None:
    """Run the command, and end its process without taking the interpreter down.

    The last collection would search all modules of Prefect and Dask, which takes 0.9 s.

    This module imports the command only here: Dask's workers import the module that started the
    driver.
    """
    from flows.cli.app import main as run

    code = 0
    try:
        run()
    except SystemExit as ending:
        if isinstance(ending.code, str):
            print(ending.code, file=sys.stderr)
        code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    join_threads = threading._shutdown  # type: ignore[attr-defined]
    for step in (join_threads, atexit._run_exitfuncs, sys.stdout.flush, sys.stderr.flush):
        try:
            step()
        except BrokenPipeError:
            pass  # nobody reads the output
        except BaseException:  # noqa: BLE001 - as at an interpreter's end, it changes no exit code
            traceback.print_exc()
    os._exit(code)


if __name__ == "__main__":
    main()
