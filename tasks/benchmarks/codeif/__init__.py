"""CodeIF-Bench: instruction following in interactive code generation. `BENCHMARK` is all that the pipeline sees."""

from importlib.resources import files

from schemas.run import Limits
from tasks.benchmarks.codeif.cast import HISTORY, PROMPTS, STATIC, cast
from tasks.benchmarks.codeif.programs import ANSWER_CLEANUP, UPSTREAM_V0, test_runs
from tasks.benchmarks.codeif.recording import import_recording, recorded_data
from tasks.benchmarks.codeif.scoring import METRICS, score
from tasks.benchmarks.codeif.stage import BENCHMARK_NAME, stage
from tasks.benchmarks.codeif.strategies import PACKAGES
from tasks.benchmarks.contract import Benchmark, Data, Programs, Scores
from tasks.benchmarks.play import Play
from tasks.benchmarks.results import Recordings, Results
from tasks.benchmarks.setting import About, Option, Setting
from tasks.metrics.instruction_following import (
    conversation_accuracy_fraction,
    conversation_accuracy_strict,
    instruction_accuracy,
)

_HISTORY = Option(
    name=HISTORY,
    values=("on_policy", UPSTREAM_V0),
    default="on_policy",
    affects="episode",
    always_in_id=True,
    help="what the model sees of the past: its own dialogue, or what the published n_round runs sent",
)
_ANSWER_CLEANUP = Option(
    name=ANSWER_CLEANUP,
    values=("none", UPSTREAM_V0),
    default="none",
    affects="scoring",
    always_in_id=True,
    help="upstream_v0 deletes docstrings and blank lines from follow-up answers, as the published verdicts were made",
)

BENCHMARK = Benchmark(
    about=About(
        name=BENCHMARK_NAME,
        version="1",
        title="CodeIF-Bench",
        paper="CodeIF-Bench: Evaluating Instruction-Following Capabilities of Large Language Models in Interactive Code"
        " Generation",
    ),
    data=Data(
        stage=stage,
        sample=files(__name__) / "sample",
        versions=("current", "v0", "sample"),
        default_version="current",
        demo=files(__name__) / "demo.yaml",
    ),
    settings={
        STATIC: Setting(
            name=STATIC,
            help="the instructions come in the dataset's order, without feedback (section 3.1)",
            options=(_HISTORY, _ANSWER_CLEANUP),
            prompts=PROMPTS,
        )
    },
    play=Play(cast=cast),
    programs=Programs(
        test_runs=test_runs,
        limits=Limits(cpu_s=3.0, wall_s=20.0),
        packages=PACKAGES,
        preload=("pycodestyle", "mccabe", "radon.complexity"),
    ),
    scores=Scores(
        metrics=tuple(metric.name for metric, _, _ in METRICS),
        score=score,
        implications=(
            (conversation_accuracy_strict.name, 1.0, conversation_accuracy_fraction.name, 1.0),
            (conversation_accuracy_strict.name, 1.0, instruction_accuracy.name, 1.0),
        ),
    ),
    results=Results(marts=tuple(files(__name__) / "marts" / name for name in ("codeif_turns.sql", "codeif_strategies.sql"))),
    recordings=Recordings(answers=import_recording, raw_data=recorded_data),
)
