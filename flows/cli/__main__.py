"""Run the command `parley` with `python -m flows.cli`."""

from flows.cli.app import main

if __name__ == "__main__":
    main()
