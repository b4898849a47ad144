"""What an environment is built from: pins, plain files, and a Python that tests can be graded
with.
"""

from typing import Any

import pytest
from pydantic import ValidationError

from tasks.storage.files.environments import Recipe

SOUND: dict[str, Any] = {
    "python": "3.11",
    "requirements": ("a==1.0", "b[c]==2.0.post1"),
    "pth": (("x.pth", "import a"),),
}


def test_pins_are_taken_as_they_are():
    assert Recipe(**SOUND).requirements == SOUND["requirements"]


@pytest.mark.parametrize(
    "line",
    [
        "a",
        "a>=1",
        "-e .",
        "--index-url=x",
        "a @ file:///x",
        "./a",
        "a==1.0 --hash=x",
        "a==1\n-r /etc/passwd",
        "a==*",
        "",
    ],
)
def test_a_requirement_is_a_pin(line: str):
    with pytest.raises(ValidationError, match="must be NAME==VERSION"):
        Recipe(**{**SOUND, "requirements": (line,)})


@pytest.mark.parametrize(
    "name", ["/tmp/x.pth", "../x.pth", "a/x.pth", ".pth", "x.py", "x.pth\n", "..pth"]
)
def test_a_start_up_file_is_a_plain_name(name: str):
    with pytest.raises(ValidationError, match=r"must be a plain name that ends in \.pth"):
        Recipe(**{**SOUND, "pth": ((name, ""),)})


@pytest.mark.parametrize(
    ("version", "said"),
    [("3.4", "3.5 or newer"), ("2.7", "3.5 or newer"), ("3", "as 3.11"), ("x", "as 3.11")],
)
def test_an_older_python_cannot_grade(version: str, said: str):
    with pytest.raises(ValidationError, match=said):
        Recipe(**{**SOUND, "python": version})
