"""Completes names in a shell: settings, models, runs, episodes, as `parley list` has them."""

from collections.abc import Callable

from schemas.errors import ParleyError
from tasks.storage.home import find_home


def names_of(what: str) -> Callable[[str], list[str]]:
    """Return a function that completes the beginning of a name of this kind.

    Args:
        what: a kind of things that `parley list` knows.
    """

    def complete(incomplete: str) -> list[str]:
        from flows.text.listings import listing

        try:
            _, rows = listing(find_home(), what)
        except (ParleyError, OSError):  # a shell that completes has no place for an error
            return []
        return sorted({name for name, *_ in rows if name.startswith(incomplete)})

    return complete
