"""`parley compare`, as a person types it."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from flows.text.comparison import comparison_markdown
from flows.text.night import print_results
from flows.text.results import compared_rows
from schemas.run import RunSpec
from tasks.planning.reporting.report import RunReport
from tasks.storage.home import Home
from tests.flows.parley_command import parley
from tests.warehouse.comparison.checkpoints import (
    CheckpointRun,
    checkpoint,
    empty_lake,
    passing,
    rule,
    write,
)
from tests.warehouse.small_lake import SmallLake
from tests.warehouse.small_run import IA

pytestmark = pytest.mark.slow


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = empty_lake(tmp_path / "home")
    for night, (name, n_passed) in enumerate(
        (("step-1000", 18), ("step-2000-" + "long-name" * 8, 10)), start=1
    ):
        write(checkpoint(made, name), passing(n_passed), night)
        rule(checkpoint(made, name))
    lake = SmallLake(made)
    lake.write_simple(lake.gamma, "withheld")
    assert parley(made, "publish").code == 0
    return made


def test_two_checkpoints_are_compared_by_their_names_or_runs(home: Path) -> None:
    old, new = checkpoint(home, "step-1000"), checkpoint(home, "step-2000-" + "long-name" * 8)
    by_name = parley(home, "compare", "step-1000", new.subject.label, "--json").json()
    by_run = parley(home, "compare", old.run_id[:8], new.run_id, "--json").json()
    assert by_name == by_run
    [row] = by_name
    assert (row["metric"], row["run_id"], row["other_run_id"], row["against"]) == (
        IA,
        new.run_id,
        old.run_id,
        "asked",
    )
    assert (row["difference"], row["p_value"], row["event"]) == (
        pytest.approx(-0.4),
        pytest.approx(2 / 2**8),
        "regression",
    )
    shown = parley(home, "compare", "step-1000", new.subject.label)
    assert max(map(len, shown.out.splitlines())) <= 80
    assert "0.900  0.500  -0.400" in shown.out
    assert (
        "regression: instruction_accuracy 0.900 -> 0.500 (-0.400; threshold 0.01, q = 0.00781)"
        in " ".join(shown.out.split())
    )
    assert (
        json.loads(parley(home, "compare", "step-1000", new.run_id, "--metric", IA, "--json").out)
        == by_name
    )


def test_a_night_names_its_regressions(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = checkpoint(home, "step-2000-" + "long-name" * 8)
    report = RunReport(
        run_id=new.run_id,
        title="night",
        setting="codeif.static",
        model=new.subject.label,
        status="finished",
        episodes=20,
    )
    print_results(Home(home), [report])
    [told] = [line for line in capsys.readouterr().out.splitlines() if "regression" in line]
    assert "against its predecessor, regression: instruction_accuracy 0.900 -> 0.500" in told
    table = comparison_markdown(compared_rows(Home(home), [new.run_id])).splitlines()
    assert (
        len(table),
        table[2].endswith("| -0.400 | -0.600…-0.200 | 0.008 | 0.315 | regression | – |"),
    ) == (3, True)


@dataclass(frozen=True)
class MarkdownRun(CheckpointRun):
    """A run whose programs are extracted by another rule."""

    @property
    def spec(self) -> RunSpec:
        options = (("extraction", "markdown"),)
        return super().spec.model_copy(update={"scoring_options": options})


def test_options_that_forbid_a_comparison_are_named(home: Path) -> None:
    run = MarkdownRun(home, checkpoint(home, "other").subject, samples=1)
    write(run, passing(5), 3)
    rule(run, family="others")
    assert parley(home, "publish").code == 0
    done = parley(home, "compare", "coder", "other")
    assert done.code == 2
    differing = "extraction=unset for vllm:/models/step-1000, markdown for vllm:/models/other"
    assert f"Options of codeif.static differ: {differing}" in done.err


def test_names_that_cannot_be_compared_are_told_why(home: Path) -> None:
    same = parley(home, "compare", "step-1000", checkpoint(home, "step-1000").run_id)
    assert (same.code, "both names stand for run" in same.err) == (2, True)
    unknown = parley(home, "compare", "step-1000", "step-3000")
    assert (unknown.code, "known: vllm:/models/step-1000" in unknown.err) == (2, True)
    withheld = parley(home, "compare", "step-1000", "openai:gamma/7b=x")
    assert (
        withheld.code,
        "is withheld and has no published scores: too many infra faults" in withheld.err,
    ) == (2, True)
    metric = parley(home, "compare", "coder", "step-1000", "--metric", "nothing")
    assert (metric.code, f"known: {IA}" in metric.err) == (2, True)
