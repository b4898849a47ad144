"""Position of an answer and its tests in a tree of files.

The answer replaces a definition, and tests are added to their files.
"""

from schemas.base import Frozen


class Definition(Frozen):
    """Function or method that the answer replaces."""

    name: str
    """Name, with its class if it has one, such as `Queue.put`."""
    first_line: int
    """1-based number of the definition's first line in the dataset's version of the file."""
    last_line: int
    """1-based number of the definition's last line in the dataset's version of the file. If the
    file has other text at these lines, Parley searches for the definition by name."""


class AddedTest(Frozen):
    """Test that the tree lacks."""

    node_id: str
    """Node id in pytest's form."""
    text: str
    """Function, or method without its indentation. It is appended to the node's class, or to its
    file."""


class Placing(Frozen):
    """Positions of code and tests in a tree of files."""

    definition: Definition
    added: tuple[AddedTest, ...] = ()
    folders: tuple[str, ...] = ()
    """Folders of the tree that are on Python's import path, beside the tree itself."""
    environment: str = ""
    """Folder of the tree with the packages that its tests import, including their version of
    pytest; empty if it has none."""
