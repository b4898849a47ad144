"""Dialogue-SWEBench: agents that talk with a user to resolve an issue of a repository.

The pipeline uses only `BENCHMARK`.
"""

from importlib.resources import files

from schemas.run import Limits
from tasks.benchmarks.advanced import Judging, Resources
from tasks.benchmarks.contract import About, Benchmark, Data, Programs, Scores
from tasks.benchmarks.dialogue_swebench.building import CONSTRUCTION
from tasks.benchmarks.dialogue_swebench.cast import cast
from tasks.benchmarks.dialogue_swebench.exports import EXPORTS
from tasks.benchmarks.dialogue_swebench.resources import IMAGES, RESOURCES, resolve_resources
from tasks.benchmarks.dialogue_swebench.rubrics import RUBRICS, judge_runs
from tasks.benchmarks.dialogue_swebench.scoring import (
    MARTS,
    METRICS,
    RANGES,
    due,
    gold_answer,
    score,
    test_runs,
)
from tasks.benchmarks.dialogue_swebench.settings import SETTINGS, choose_problems
from tasks.benchmarks.dialogue_swebench.stage import BENCHMARK_NAME, grade_routes, stage
from tasks.benchmarks.results import Results
from tasks.benchmarks.setting import Play
from tasks.storage.files.pulled_images import DISK

_LIMITS = Limits(
    cpu_s=900.0,
    wall_s=900.0,
    memory_mb=2048,
    processes=128,
    file_mb=128,
    tmp_mb=256,
    open_files=1024,
    output_kb=64,
)
"""Limits for one run of an instance's tests.

Sphinx's take 2 to 12 s; SWE-bench allows 30 minutes.
"""

BENCHMARK = Benchmark(
    about=About(
        name=BENCHMARK_NAME,
        version="2",
        title="Dialogue-SWEBench",
        paper="Dialogue-SWEBench: A Benchmark for Dialogue-Driven Coding Agents",
    ),
    data=Data(
        stage=stage,
        sample=files(__name__) / "sample",
        versions=("instances", "sample"),
        default_version="instances",
        demo=files(__name__) / "demo.yaml",
        public=files(__name__) / "data.yaml",
        chooses=choose_problems,
        grade_routes=grade_routes,
    ),
    settings=SETTINGS,
    resources=Resources(RESOURCES, resolve_resources, names=(IMAGES, DISK)),
    play=Play(cast=cast, gold_answer=gold_answer),
    programs=Programs(test_runs=test_runs, limits=_LIMITS, packages=("pytest",)),
    judging=Judging(RUBRICS, judge_runs),
    scores=Scores(metrics=METRICS, score=score, due=due, ranges=RANGES),
    results=Results(marts=MARTS, exports=EXPORTS),
    constructions={"queries": CONSTRUCTION},
)
