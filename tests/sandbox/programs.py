"""Programs for tests, many in a text file: a line `### name`, then the program."""

from pathlib import Path


def programs(file_name: str) -> dict[str, str]:
    """Name -> program, in the file's order."""
    _, *sections = (Path(__file__).parent / file_name).read_text().split("\n### ")
    return {section.partition("\n")[0]: section.partition("\n")[2].strip("\n") + "\n" for section in sections}
