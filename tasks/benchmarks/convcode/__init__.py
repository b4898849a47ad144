"""ConvCodeWorld and ConvCodeBench: code generation under nine kinds of feedback."""

from importlib.resources import files

from schemas.run import Limits
from tasks.benchmarks.contract import About, Benchmark, Data, Programs, Scores
from tasks.benchmarks.convcode.cast import cast
from tasks.benchmarks.convcode.exports import EXPORTS
from tasks.benchmarks.convcode.log_files.build_logs import BUILD
from tasks.benchmarks.convcode.scoring import IMPLICATIONS, MARTS, METRICS, due, score
from tasks.benchmarks.convcode.settings import plays, settings
from tasks.benchmarks.convcode.stage import BENCHMARK_NAME, MODULES, stage, test_runs
from tasks.benchmarks.results import Results
from tasks.benchmarks.setting import Play

LIMITS = Limits(
    cpu_s=60.0,
    wall_s=240.0,
    memory_mb=4096,
    processes=512,
    file_mb=128,
    tmp_mb=512,
    open_files=1024,
)
"""Limits of a task's programs. Tasks start servers, train small networks and wait.

Upstream allows 240 s and 30 GB. The CPU limit ends endless loops earlier.
"""


BENCHMARK = Benchmark(
    about=About(
        name=BENCHMARK_NAME,
        version="1",
        title="ConvCodeWorld",
        paper="ConvCodeWorld: Benchmarking Conversational Code Generation in Reproducible Feedback"
        " Environments",
    ),
    data=Data(
        stage=stage,
        sample=files(__name__) / "sample",
        versions=("bigcodebench", "humaneval", "mbpp", "mint", "sample"),
        default_version="bigcodebench",
        plays=plays,
        demo=files(__name__) / "demo.yaml",
        public=files(__name__) / "data.yaml",
    ),
    settings=settings(),
    play=Play(cast=cast),
    programs=Programs(
        test_runs=test_runs,
        limits=LIMITS,
        packages=("numpy", "pandas"),
        preload=("unittest.mock", "numpy", "pandas"),
        modules=MODULES,
        environments={"bigcodebench": "bigcodebench"},
    ),
    scores=Scores(metrics=METRICS, score=score, due=due, implications=IMPLICATIONS),
    results=Results(marts=MARTS, exports=EXPORTS, builds={"logs": BUILD}),
)
