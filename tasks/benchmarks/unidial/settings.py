"""Settings, one for each dataset and two for normalised dialogues; participants.

`TEMPLATES` has the texts of questions and rubrics that `--templates DIR` may replace.

UniDial-EvalKit normalises the dialogues of the two. Each dialogue determines if the model sees
golden answers or its own.
"""

from collections.abc import Mapping
from types import MappingProxyType

from schemas.dialog import Dialog, HistoryPolicy
from schemas.run import Limits
from tasks.benchmarks.program_runs import extraction_option
from tasks.benchmarks.setting import (
    MOST_STEPS,
    CastRequest,
    Options,
    Setting,
    own_texts,
    scripted_cast,
)
from tasks.benchmarks.templates import ANY, Template
from tasks.benchmarks.unidial.convert import REFERENCE_HISTORY, label_of
from tasks.benchmarks.unidial.datasets import DATASETS, longmemeval, one_line
from tasks.benchmarks.unidial.datasets.source import MOST_TOKENS
from tasks.benchmarks.unidial.rubrics import ABILITIES, GENERAL, RUBRICS
from tasks.benchmarks.unidial.scoring import CODE_READING, LOOSE
from tasks.benchmarks.unidial.stage import NORMALISED, TESTED
from tasks.dialogue.engine import Cast

SETTINGS: Mapping[str, Setting] = {
    **{
        name: Setting(
            name=name,
            help=dataset.help,
            options=(CODE_READING,) if name == "memorycode" else (),
            rubrics=dataset.rubrics,
            runs_programs=False,
            most_tokens=dataset.max_tokens,
            metrics=(LOOSE[name].name,) if name in LOOSE else (),
        )
        for name, dataset in DATASETS.items()
    },
    NORMALISED: Setting(
        name=NORMALISED,
        help="dialogues normalised by UniDial-EvalKit, of any other dataset",
        options=(CODE_READING,),
        rubrics=tuple(RUBRICS),
        runs_programs=False,
        most_tokens=MOST_TOKENS,
    ),
    TESTED: Setting(
        name=TESTED,
        help="normalised dialogues whose answers are programs (metric `unit_tests`)",
        options=(CODE_READING, extraction_option("scoring")),
        rubrics=tuple(RUBRICS),
        limits=Limits(cpu_s=10.0, wall_s=60.0),
        most_tokens=MOST_TOKENS,
    ),
}
_ANSWERS = {one_line.SAFETY_RUBRIC: ("identification", "handling", "consistency")}
_VARIANTS = {
    longmemeval.RUBRIC: longmemeval.KINDS,
    "mt_bench_101": tuple(ABILITIES),
    one_line.SAFETY_RUBRIC: tuple(
        dict.fromkeys(
            template.removesuffix("-evaluation") for template in one_line.SAFETY_TEMPLATES.values()
        )
    ),
    GENERAL: (ANY,),
}


def _judge_template(rubric: str) -> Template:
    own = (name for name, dataset in DATASETS.items() if rubric in dataset.rubrics)
    return Template(
        kind="judge",
        settings=(*own, NORMALISED, TESTED),
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
"""Texts of questions and rubrics that `--templates DIR` may replace."""


STEPS_A_MESSAGE = 2
"""Increase of an agent's step limit per message of a long context."""


def cast(request: CastRequest) -> Cast:
    """Return the participants of one dialogue."""
    return scripted_cast(
        request.subject_participant(history_of(request.dialog, request.options)),
        own_texts(request.dialog, request.options),
        MOST_STEPS + STEPS_A_MESSAGE * request.dialog.context_turns,
    )


def history_of(dialog: Dialog, options: Options) -> HistoryPolicy:
    """Return the history that the data name for a dialogue."""
    shows_golden = label_of(dialog, REFERENCE_HISTORY)
    return HistoryPolicy.REFERENCE if shows_golden else HistoryPolicy.ON_POLICY
