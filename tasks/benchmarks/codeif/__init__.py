"""CodeIF-Bench: instruction following in interactive code generation.

The pipeline uses only `BENCHMARK`.
"""

from importlib.resources import files

from schemas.run import Limits
from tasks.benchmarks.advanced import Resources, trees_below_resources
from tasks.benchmarks.codeif.cast import cast, history_of, planned_texts, test_runs
from tasks.benchmarks.codeif.construction.base_task import CONSTRUCTION
from tasks.benchmarks.codeif.construction.building import CONSTRUCTION as TASKS
from tasks.benchmarks.codeif.construction.repository_tasks import CONSTRUCTION as REPOSITORY_TASKS
from tasks.benchmarks.codeif.exports import EXPORTS
from tasks.benchmarks.codeif.projects import LAYOUT
from tasks.benchmarks.codeif.recording import LEVEL_1, import_recording, recorded_data
from tasks.benchmarks.codeif.scoring import MARTS, METRICS, due, score
from tasks.benchmarks.codeif.settings import PACKAGES, SETTINGS, strategy_slots
from tasks.benchmarks.codeif.stage import (
    BENCHMARK_NAME,
    CONSTRUCTION_REPOSITORIES,
    RESOURCE,
    fits,
    self_test,
    source_of,
    stage,
)
from tasks.benchmarks.contract import Benchmark, Data, Programs, Scores
from tasks.benchmarks.results import Axis, Recordings, Results
from tasks.benchmarks.setting import About, Play
from tasks.metrics.instruction_following import (
    conversation_accuracy_fraction,
    conversation_accuracy_strict,
    instruction_accuracy,
)

SAMPLE_REPOSITORIES = "sample-repositories"
"""Dataset version with bundled tasks of our own small project (folder `projects`)."""

BENCHMARK = Benchmark(
    about=About(
        name=BENCHMARK_NAME,
        version="1",
        title="CodeIF-Bench",
        paper="CodeIF-Bench: Evaluating Instruction-Following Capabilities of Large Language "
        "Models in Interactive Code Generation",
    ),
    data=Data(
        stage=stage,
        sample=files(__name__) / "sample",
        versions=(
            "current",
            "v0",
            LEVEL_1,
            "sample",
            SAMPLE_REPOSITORIES,
            CONSTRUCTION,
            CONSTRUCTION_REPOSITORIES,
        ),
        default_version="current",
        bundled={
            SAMPLE_REPOSITORIES: files(__name__) / "sample" / "repositories",
            CONSTRUCTION: files(__name__) / "sample" / "construction",
            CONSTRUCTION_REPOSITORIES: files(__name__) / "sample" / "repositories",
        },
        demo=files(__name__) / "demo.yaml",
        public=files(__name__) / "data.yaml",
    ),
    settings=SETTINGS,
    resources=Resources(
        {
            RESOURCE: "Projects in DevEval's layout, DOMAIN/PROJECT. `parley "
            "build codeif-repos --out DIR` creates such a folder"
        },
        trees_below_resources(source_of, fits),
        self_test=self_test,
    ),
    play=Play(cast=cast, user_texts=planned_texts, history=history_of),
    programs=Programs(
        test_runs=test_runs,
        limits=Limits(cpu_s=3.0, wall_s=20.0),
        packages=PACKAGES,
        preload=("pycodestyle", "mccabe", "radon.complexity"),
    ),
    scores=Scores(
        metrics=tuple(metric.name for metric, _, _ in METRICS),
        score=score,
        due=due,
        implications=(
            (conversation_accuracy_strict.name, 1.0, conversation_accuracy_fraction.name, 1.0),
            (conversation_accuracy_strict.name, 1.0, instruction_accuracy.name, 1.0),
        ),
    ),
    results=Results(
        marts=MARTS,
        exports=EXPORTS,
        layouts={"repos": LAYOUT},
        axes={
            "turn": Axis("turn (instruction given)"),
            "strategy_slot": Axis(
                "instruction strategy",
                lambda level: {slot: n for n, slot in strategy_slots(level).items()},
            ),
            "round_pair": Axis("pair of turns (instruction and its feedback)"),
        },
    ),
    constructions={"tasks": TASKS, "repository-tasks": REPOSITORY_TASKS},
    recordings=Recordings(answers=import_recording, raw_data=recorded_data),
)
