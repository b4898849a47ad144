"""Entry point of the command `parley`, also run by `python -m flows.cli`."""

import atexit
import gc
import os
import sys
import threading
import traceback

gc.set_threshold(200_000, 20, 10)
"""Collections during the imports took an eighth of a short command and of a night's driver, and
freed nothing. Dask workers import this module, so the line is also for their imports.
"""


def main() -> None:
    """Run the command, and end the process without the interpreter's full shutdown.

    The garbage collection of a shutdown takes 0.9 s, because Prefect and Dask have many modules.

    The import of the command is inside this function: each Dask worker imports this module, because
    it is the main module of the process that starts the workers.
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
