"""UniDial-EvalKit: multi-turn datasets in one schema, each of which is a setting."""

from dataclasses import replace
from functools import partial
from importlib.resources import files

from tasks.benchmarks.advanced import Judging
from tasks.benchmarks.contract import About, Benchmark, Data, Programs, Scores
from tasks.benchmarks.results import Recordings, Results
from tasks.benchmarks.setting import Play
from tasks.benchmarks.templates import Texts, Wording, owner_of
from tasks.benchmarks.unidial.convert import NAME
from tasks.benchmarks.unidial.exports import EXPORTS
from tasks.benchmarks.unidial.output import OUTPUT, published_answers, published_judgements
from tasks.benchmarks.unidial.rubrics import RUBRICS, judge_runs
from tasks.benchmarks.unidial.scoring import (
    MARTS,
    METRICS,
    RANGES,
    due,
    gold_answer,
    score,
    test_runs,
)
from tasks.benchmarks.unidial.settings import SETTINGS, TEMPLATES, cast, history_of
from tasks.benchmarks.unidial.stage import edition_of, plays, stage


def with_texts(texts: Texts) -> Benchmark:
    """Return the benchmark with custom texts of questions and rubrics.

    A rubric with a replaced prompt gets neither Parley's additional answer form nor drift cases
    (bundled cases that measure whether a judge's answers change), which fit only Parley's prompts.

    Args:
        texts: texts from `--templates DIR`, by template name.
    """
    questions = {
        name: text for name, text in texts.items() if TEMPLATES[owner_of(name)].kind == "question"
    }
    judge_texts = {name: text for name, text in texts.items() if name not in questions}
    rubrics = {
        name: replace(rubric, prompt=max(own.values(), key=len), is_reworded=True, drift=())
        if (
            own := {
                template: text
                for template, text in judge_texts.items()
                if owner_of(template) == name
            }
        )
        else rubric
        for name, rubric in RUBRICS.items()
    }
    return replace(
        BENCHMARK,
        data=replace(
            BENCHMARK.data, stage=partial(stage, texts=questions), edition=edition_of(questions)
        ),
        judging=Judging(rubrics, partial(judge_runs, texts=judge_texts)),
    )


BENCHMARK = Benchmark(
    about=About(
        name=NAME,
        version="1",
        title="UniDial-EvalKit",
        paper="UniDial-EvalKit: A Unified Toolkit for Evaluating Multi-Faceted Conversational"
        " Abilities",
    ),
    data=Data(
        stage=stage,
        sample=files(__name__) / "sample",
        versions=("current", "sample"),
        default_version="current",
        plays=plays,
        demo=files(__name__) / "demo.yaml",
        public=files(__name__) / "data.yaml",
    ),
    settings=SETTINGS,
    play=Play(cast=cast, gold_answer=gold_answer, history=history_of),
    programs=Programs(test_runs=test_runs),
    judging=Judging(RUBRICS, judge_runs),
    scores=Scores(
        metrics=tuple(metric.name for metric in METRICS.values()),
        score=score,
        due=due,
        ranges=RANGES,
    ),
    results=Results(marts=MARTS, exports=EXPORTS, folders={"output": OUTPUT}),
    recordings=Recordings(answers=published_answers, judgements=published_judgements),
    wording=Wording(TEMPLATES, with_texts),
)
