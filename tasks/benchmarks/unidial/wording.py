"""Texts of questions and rubrics that `--templates DIR` may replace."""

from collections.abc import Mapping
from types import MappingProxyType

from tasks.benchmarks.templates import ANY, Template
from tasks.benchmarks.unidial.datasets import DATASETS, longmemeval, safedialbench
from tasks.benchmarks.unidial.rubrics import ABILITIES, GENERAL, RUBRICS

NORMALISED_SETTINGS = ("normalised", "tested_code")
"""Settings of normalised dialogues, which may use any rubric."""
_ANSWERS = {safedialbench.RUBRIC: ("identification", "handling", "consistency")}
_VARIANTS = {
    longmemeval.RUBRIC: longmemeval.KINDS,
    "mt_bench_101": tuple(ABILITIES),
    safedialbench.RUBRIC: tuple(
        dict.fromkeys(
            template.removesuffix("-evaluation") for template in safedialbench.TEMPLATES.values()
        )
    ),
    GENERAL: (ANY,),
}


def _judge_template(rubric: str) -> Template:
    own = (name for name, dataset in DATASETS.items() if rubric in dataset.rubrics)
    return Template(
        kind="judge",
        settings=(*own, *NORMALISED_SETTINGS),
        text=RUBRICS[rubric].prompt,
        needed=("answer",),
        variants=_VARIANTS.get(rubric, ()),
        answer=_ANSWERS.get(rubric, ("score",)),
    )


TEMPLATES: Mapping[str, Template] = MappingProxyType(
    {
        **{
            name: template
            for dataset in DATASETS.values()
            for name, template in dataset.questions.items()
        },
        **{name: _judge_template(name) for name in RUBRICS},
    }
)
