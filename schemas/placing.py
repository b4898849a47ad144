"""How an answer and its tests get into a tree of files: the answer takes a definition's place, tests are added to their files."""

from schemas.base import Frozen


class Definition(Frozen):
    """A function or method of the file that the answer changes."""

    name: str
    """With its class, where it has one: `Queue.put`."""
    first_line: int
    last_line: int
    """As the dataset counts them, from 1. Where the file has other lines there, the definition of that name is looked for."""


class AddedTest(Frozen):
    """A test that the tree lacks."""

    node_id: str
    """As pytest names it."""
    text: str
    """A function, or a method without its indentation: it is put at the end of the node's class, or of its file."""


class Placing(Frozen):
    """Where code and tests go."""

    definition: Definition
    added: tuple[AddedTest, ...] = ()
    folders: tuple[str, ...] = ()
    """Folders of the tree that Python imports from, beside the tree itself."""
    environment: str = ""
    """Folder of the tree with the packages that its tests import, pytest's own version among them; empty where it has none."""
