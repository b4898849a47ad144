"""A provider of models that another distribution adds by an entry point: `parley run` knows it like
one of ours.
"""

import os
from pathlib import Path

import pytest

from tests.flows.drivers import ROOT
from tests.flows.parley_command import SAMPLE, parley_process
from warehouse.connect import query

pytestmark = pytest.mark.slow


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Variables with which a distribution is found that has nothing but the provider."""
    info = tmp_path / "plugins" / "parley_parrot-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: parley-parrot\nVersion: 1\n", encoding="ascii"
    )
    (info / "entry_points.txt").write_text(
        "[parley.models]\nparrot = tests.tasks.language.parrot:PROVIDER\n", encoding="ascii"
    )
    return {"PYTHONPATH": os.pathsep.join((str(info.parent), str(ROOT)))}


def test_a_run_asks_a_model_of_it(served_home: Path, environ: dict[str, str]) -> None:
    command = (*SAMPLE, "--model", "parrot:grey", "--limit", "1", "--sandbox", "none", "--json")
    done = parley_process(served_home, *command, environ=environ).json()
    assert done["published"], done
    rows = query(
        served_home,
        "SELECT DISTINCT model FROM steps WHERE role = 'assistant' AND content LIKE '%# grey: %'",
    )[1]
    assert rows == [("parrot:grey",)]
    assert parley_process(served_home, *command, environ=environ).json()["model_calls"] == 0


def test_its_forms_are_listed_where_a_spec_is_none(home: Path, environ: dict[str, str]) -> None:
    done = parley_process(home, *SAMPLE, "--model", "parrot:red", environ=environ)
    assert (done.code, "write parrot:grey or parrot:green" in done.err) == (2, True)
    unknown = parley_process(home, *SAMPLE, "--model", "perrot:grey", environ=environ)
    assert unknown.code == 2
    assert "parrot:green" in unknown.err
    absent = parley_process(home, *SAMPLE, "--model", "parrot:grey")
    assert absent.code == 2
    assert "openai:MODEL[@BASE_URL]" in absent.err
    assert "parrot:green" not in absent.err
