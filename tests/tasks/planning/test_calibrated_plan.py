"""A slow machine's factor is in the plan's limits, where the record of the run shows it; an
ordinary machine changes no id.
"""

from pathlib import Path

from sandbox.calibration.factor import Calibration, keep, machine_name
from tasks.planning.plan import plan_run
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
from tasks.planning.why_rerun import differences
from tasks.storage.home import Home

REQUEST = EvaluationRequest(
    model=ModelRequest(spec="control:gold"),
    benchmark=BenchmarkRequest(name="codeif.static", dataset_version="sample"),
    sandbox="bubblewrap",
)


def calibrated(home: Home, factor: int) -> None:
    keep(
        Calibration(
            machine=machine_name(),
            sandbox="bubblewrap",
            factor=factor,
            slowest="own/x",
            slowest_cpu_s=1.0,
            n_references=1,
            n_passed=1,
            fingerprint="f",
            measured_at="2026-11-21T00:00:00Z",
        ),
        home.path,
    )


def test_a_factor_of_one_changes_no_run(tmp_path: Path) -> None:
    home = Home(tmp_path)
    before = plan_run(REQUEST, home)
    calibrated(home, 1)
    assert plan_run(REQUEST, home).run_id == before.run_id


def test_a_slow_machine_has_wider_limits_and_pays_for_no_dialogue_again(tmp_path: Path) -> None:
    home = Home(tmp_path)
    before = plan_run(REQUEST, home)
    calibrated(home, 2)
    after = plan_run(REQUEST, home)
    assert (after.spec.limits.cpu_s, after.spec.limits.wall_s) == (
        2 * before.spec.limits.cpu_s,
        2 * before.spec.limits.wall_s,
    )
    assert [w.episode_id for w in after.wanted] == [w.episode_id for w in before.wanted]
    named = {
        difference.field: difference.reruns for difference in differences(before.spec, after.spec)
    }
    assert named == {"limits.cpu_s": "tests", "limits.wall_s": "tests"}
    elsewhere = REQUEST.model_copy(update={"sandbox": "none"})
    assert plan_run(elsewhere, home).spec.limits == before.spec.limits
