"""`python -m flows.cli` is the command `parley`."""

from flows.cli.app import main

if __name__ == "__main__":
    main()
