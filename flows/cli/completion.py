"""Shell completion of names that `parley list` shows: settings, models, runs, episodes."""

from collections.abc import Callable

from schemas.errors import ParleyError
from tasks.storage.home import find_home


def names_of(kind: str) -> Callable[[str], list[str]]:
    """Return a function that completes the names of one kind.

    Args:
        kind: a kind that `parley list` accepts.
    """

    def complete(incomplete: str) -> list[str]:
        from flows.text.listings import listing

        try:
            _, rows = listing(find_home(), kind)
        except (ParleyError, OSError):  # completion cannot show an error
            return []
        return sorted({name for name, *_ in rows if name.startswith(incomplete)})

    return complete
