"""ConvCodeWorld and ConvCodeBench: code generation under nine kinds of feedback. `BENCHMARK` is all that the pipeline sees."""

from importlib.resources import files

from schemas.problem import Problem
from schemas.run import Limits
from tasks.benchmarks.contract import Benchmark
from tasks.benchmarks.convcode.build_logs import BUILD
from tasks.benchmarks.convcode.cast import cast
from tasks.benchmarks.convcode.exports import EXPORTS
from tasks.benchmarks.convcode.packages import MODULES
from tasks.benchmarks.convcode.programs import test_runs
from tasks.benchmarks.convcode.scoring import IMPLICATIONS, MARTS, METRICS, due_scores, score
from tasks.benchmarks.convcode.settings import plays, rounds, settings
from tasks.benchmarks.convcode.stage import BENCHMARK_NAME, stage

LIMITS = Limits(cpu_s=60.0, wall_s=240.0, memory_mb=4096, processes=512, file_mb=128, tmp_mb=512, open_files=1024)
"""Tasks start servers, train small networks and wait: upstream gives each 240 s and 30 GB. What hangs in a loop ends sooner."""


def gold_answer(problem: Problem, turn: int) -> str:
    """The dataset's reference program, fenced; the same in each round."""
    return f"```python\n{problem.reference_code}\n```"


BENCHMARK = Benchmark(
    name=BENCHMARK_NAME,
    version="1",
    title="ConvCodeWorld",
    paper="ConvCodeWorld: Benchmarking Conversational Code Generation in Reproducible Feedback Environments",
    dataset_versions=("bigcodebench", "humaneval", "mbpp", "mint", "sample"),
    default_dataset_version="bigcodebench",
    settings=settings(),
    metrics=METRICS,
    limits=LIMITS,
    packages=("numpy", "pandas"),
    preload=("unittest.mock", "numpy", "pandas"),
    stage=stage,
    sample=files(__name__) / "sample",
    cast=cast,
    test_runs=test_runs,
    score=score,
    due_scores=due_scores,
    gold_answer=gold_answer,
    marts=MARTS,
    exports=EXPORTS,
    builds={"logs": BUILD},
    fixed_rounds=False,
    rounds=rounds,
    plays=plays,
    implications=IMPLICATIONS,
    modules=MODULES,
    demo=files(__name__) / "demo.yaml",
)
