"""Talk2Code: dialogues with users of three levels, on two tracks.

The pipeline uses only `BENCHMARK`.
"""

from importlib.resources import files

from schemas.run import Limits
from tasks.benchmarks.advanced import Judging
from tasks.benchmarks.contract import About, Benchmark, Data, Programs, Scores
from tasks.benchmarks.results import Axis, Results
from tasks.benchmarks.setting import Play
from tasks.benchmarks.talk2code.construction.building import CONSTRUCTION
from tasks.benchmarks.talk2code.exports import EXPORTS
from tasks.benchmarks.talk2code.measures import RUBRICS, judge_runs, texts_to_embed
from tasks.benchmarks.talk2code.scoring import IMPLICATIONS, MARTS, METRICS, RANGES, due, score
from tasks.benchmarks.talk2code.settings import SETTINGS, cast, gold_answer, test_runs
from tasks.benchmarks.talk2code.stage import BENCHMARK_NAME, has_dialogue, stage

BENCHMARK = Benchmark(
    about=About(
        name=BENCHMARK_NAME,
        version="1",
        title="Talk2Code",
        paper=(
            "Talk2Code: A Multi-Turn Interaction Benchmark with Dual-Track Evaluation for Code "
            "Generation"
        ),
    ),
    data=Data(
        stage=stage,
        sample=files(__name__) / "sample",
        versions=("dialogues", "sample", "tasks"),
        bundled={"tasks": files(__name__) / "tasks"},
        default_version="dialogues",
        plays=has_dialogue,
        demo=files(__name__) / "demo.yaml",
        public=files(__name__) / "data.yaml",
    ),
    settings=SETTINGS,
    play=Play(cast=cast, gold_answer=gold_answer),
    programs=Programs(test_runs=test_runs, limits=Limits(cpu_s=10.0, wall_s=60.0)),
    judging=Judging(RUBRICS, judge_runs),
    scores=Scores(
        metrics=METRICS,
        score=score,
        texts_to_embed=texts_to_embed,
        due=due,
        ranges=RANGES,
        implications=IMPLICATIONS,
    ),
    results=Results(marts=MARTS, exports=EXPORTS, axes={"level": Axis("level of the user")}),
    constructions={"dialogues": CONSTRUCTION},
)
