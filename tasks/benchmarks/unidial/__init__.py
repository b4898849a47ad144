"""UniDial-EvalKit: multi-turn datasets through one schema, each a setting. `BENCHMARK` is all that the pipeline sees."""

from importlib.resources import files

from tasks.benchmarks.contract import About, Benchmark, Data, Judging, Scores
from tasks.benchmarks.play import Play
from tasks.benchmarks.results import Recordings, Results
from tasks.benchmarks.setting import Setting
from tasks.benchmarks.unidial.cast import cast
from tasks.benchmarks.unidial.convert import NAME, gold_answer
from tasks.benchmarks.unidial.datasets import DATASETS
from tasks.benchmarks.unidial.exports import EXPORTS
from tasks.benchmarks.unidial.recording import published_answers, published_judgements
from tasks.benchmarks.unidial.rubrics import RUBRICS, judge_runs
from tasks.benchmarks.unidial.scoring import CODE_READING, METRICS, RANGES, due, score
from tasks.benchmarks.unidial.stage import NORMALISED, plays, stage

SETTINGS = {
    **{
        name: Setting(
            name=name,
            help=dataset.help,
            options=(CODE_READING,) if name == "memorycode" else (),
            rubrics=dataset.rubrics,
            runs_programs=False,
        )
        for name, dataset in DATASETS.items()
    },
    NORMALISED: Setting(
        name=NORMALISED,
        help="dialogues that UniDial-EvalKit has normalised, of a dataset that is not among these",
        options=(CODE_READING,),
        rubrics=tuple(RUBRICS),
        runs_programs=False,
    ),
}
BENCHMARK = Benchmark(
    about=About(
        name=NAME,
        version="1",
        title="UniDial-EvalKit",
        paper="UniDial-EvalKit: A Unified Toolkit for Evaluating Multi-Faceted Conversational Abilities",
    ),
    data=Data(
        stage=stage,
        sample=files(__name__) / "sample",
        versions=("current", "sample"),
        default_version="current",
        plays=plays,
        demo=files(__name__) / "demo.yaml",
    ),
    settings=SETTINGS,
    play=Play(cast=cast, gold_answer=gold_answer),
    judging=Judging(RUBRICS, judge_runs),
    scores=Scores(metrics=tuple(metric.name for metric in METRICS.values()), score=score, due=due, ranges=RANGES),
    results=Results(marts=(files(__name__) / "marts" / "unidial_pooled.sql",), exports=EXPORTS),
    recordings=Recordings(answers=published_answers, judgements=published_judgements),
)
