"""Settings: live with nine kinds of feedback or none, and static for the kinds worth replaying."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Literal

from sandbox.judging.runners.python_tests import case_classes
from schemas.dialog import Dialog, HistoryPolicy
from schemas.episode import (
    FEEDBACK_SETTINGS,
    GROUND_TRUTH,
    NO_FEEDBACK,
    ExecutionFeedback,
    Feedback,
    FeedbackSetting,
    VerbalFeedback,
)
from schemas.verdict import CaseVerdict, Outcome, ProgramVerdict
from tasks.benchmarks.program_runs import extraction_option
from tasks.benchmarks.setting import Option, Setting
from tasks.dialogue.simulated_feedback import FeedbackPrompt
from tasks.language.prompt import PromptTexts, backticks_for, fill, quote_text

PROMPT_NAMES = (
    "initial",
    "refine",
    "novice",
    "novice_case",
    "novice_example_compilation",
    "novice_example_execution",
    "expert",
    "expert_case",
    "expert_example_compilation",
    "expert_example_execution",
    "fields",
    "reminder",
)
PROMPTS = PromptTexts("tasks.benchmarks.convcode", PROMPT_NAMES)
GROUND_TRUTH_PROMPTS = PromptTexts("tasks.benchmarks.convcode", (*PROMPT_NAMES, "ground_truth"))
"""Prompts of the setting that shows the reference code.

Ids of other settings do not cover the texts of these prompts.
"""


NO_SYNTAX_ERRORS = "No syntax errors"
ALL_PASS = "Every test that was run passes."
WHOLE_PROGRAM = "ALL"
"""Test name for faults of the whole program, such as a time limit, as in upstream's logs."""
N_PARTIAL = 3
"""Number of tests in partial coverage (appendix B)."""
LONG = 8000
"""Length in characters from which execution feedback is cut to its first and last lines."""
_KEPT_LINES, _KEPT_FRONT, _KEPT_REAR = 5, 2000, 4000

Coverage = Literal["full", "first_three_tests", "upstream_first_three_methods"]
"""Tests whose failures are shown.

Upstream's variant counts all methods of the test classes, including `setUp`, and shows neither
module errors nor time limits.
"""


def compose(problem_prompt: str, code: str, feedback: Feedback) -> str:
    """Return the message that requests the next code: problem, previous code and feedback.

    Raises:
        ValueError: The feedback is empty.
    """
    parts = feedback_parts(feedback)
    if not parts:
        raise ValueError(
            "the feedback is empty, so no message can be composed. Keep the previous code instead"
        )
    return fill(PROMPTS["refine"], problem=problem_prompt, code=code.rstrip("\n"), feedback=parts)


def feedback_parts(feedback: Feedback) -> str:
    """Return each part of the feedback under its title, or "" if there is none."""
    titled = (
        ("Compilation feedback", feedback.compilation),
        ("Execution feedback", feedback.execution),
        ("User feedback", feedback.verbal),
    )
    return "\n\n".join(f"{title}:\n{text}" for title, text in titled if text is not None)


def compilation_text(report: ProgramVerdict) -> str:
    """Return the compiler's traceback, or the statement that there is no syntax error."""
    return NO_SYNTAX_ERRORS if report.compile_error is None else report.compile_error.rstrip("\n")


def execution_text(
    report: ProgramVerdict, coverage: Coverage, tests: tuple[str, ...]
) -> str | None:
    """Return name and traceback of each failing test that the coverage includes, or None.

    Module errors and time limits are shown for every coverage except upstream's.

    Args:
        report: Result of the program.
        coverage: Tests whose failures are shown.
        tests: Modules of test classes, from which upstream's variant takes the first methods.
    """
    is_upstreams = coverage == "upstream_first_three_methods"
    if report.module_error is not None:
        return None if is_upstreams else shortened(_block(WHOLE_PROGRAM, report.module_error))
    failing = [
        case
        for case in _covered(report.cases, coverage, tests)
        if case.outcome is not Outcome.PASSED
    ]
    hanging = [case for case in report.cases if case.outcome is Outcome.TIMEOUT]
    if is_upstreams:
        failing = [case for case in failing if case not in hanging]
    blocks = [_block(case.name.rpartition(".")[2].upper(), case.detail) for case in failing]
    if hanging and not is_upstreams and not any(case in hanging for case in failing):
        # No name, since the test may not be shown.
        blocks.append(_block(WHOLE_PROGRAM, hanging[0].detail))
    return shortened("\n\n".join(blocks)) if blocks else None


def shortened(text: str) -> str:
    """Return the text, or its first and last lines if it has at least `LONG` characters.

    The bounds are upstream's.
    """
    if len(text) < LONG:
        return text
    lines = text.splitlines()
    n = min(_KEPT_LINES, max(1, len(lines) // 2))
    front, rear = "\n".join(lines[:n])[:_KEPT_FRONT], "\n".join(lines[-n:])[-_KEPT_REAR:]
    return f"{front}\n...\n{rear}"


def _covered(
    cases: tuple[CaseVerdict, ...], coverage: Coverage, tests: tuple[str, ...]
) -> tuple[CaseVerdict, ...]:
    if coverage == "full":
        return cases
    if coverage == "first_three_tests":
        return cases[:N_PARTIAL]
    methods = [
        f"{name}.{method}"
        for text in tests
        for name, own in case_classes(text).items()
        for method in own
    ]
    return tuple(case for case in cases if case.name in methods[:N_PARTIAL])


def _block(name: str, detail: str) -> str:
    return f"{name}\n{detail.rstrip()}"


Speaker = Literal["novice", "expert"]
_FENCE = "```python\n{code}\n```"
_HEADING = re.compile(
    r"^\W*(?:problem|program|solution known to be right"
    r"|(?:compilation |execution |user )?feedback|reasoning)\W*:",
    re.IGNORECASE | re.MULTILINE,
)
"""Line that resembles a heading of the prompt."""


def novice_prompt(problem_prompt: str, code: str, visible: Feedback) -> FeedbackPrompt:
    """Return the prompt of a user who sees the problem, the code and the shown feedback."""
    return _prompt("novice", visible, _case("novice", code, visible, problem=problem_prompt))


def expert_prompt(
    problem_prompt: str, reference: str, code: str, visible: Feedback
) -> FeedbackPrompt:
    """Return the prompt of a user who also sees the reference code."""
    right = reference.strip("\n")
    return _prompt(
        "expert", visible, _case("expert", code, visible, problem=problem_prompt, reference=right)
    )


def prompt_names(speaker: Speaker, shows_execution: bool) -> tuple[str, ...]:
    """Return the names of the prompts in a request to the simulator."""
    return speaker, _example(speaker, shows_execution), "fields", f"{speaker}_case"


def _prompt(speaker: Speaker, visible: Feedback, case: str) -> FeedbackPrompt:
    example = PROMPTS[_example(speaker, visible.execution is not None)]
    example_case, _, answer = example.partition("\n\nReasoning: ")
    reasoning, _, feedback = answer.partition("\nFeedback: ")
    return FeedbackPrompt(
        example=f"{PROMPTS[speaker]}\n\n{example_case}\n\n{PROMPTS['fields']}",
        example_reasoning=reasoning,
        example_feedback=feedback,
        case=f"{case}\n\n{PROMPTS['fields']}",
        reminder=PROMPTS["reminder"],
    )


def _example(speaker: Speaker, shows_execution: bool) -> str:
    """Return the name of the example with the same kinds of visible feedback."""
    return f"{speaker}_example_{'execution' if shows_execution else 'compilation'}"


def _case(speaker: Speaker, code: str, visible: Feedback, **values: str) -> str:
    """Return the text that the user sees, in which code and output cannot imitate another part.

    The code is in a fence longer than any of its own. Output with a line that resembles a heading
    is quoted.
    """
    fence, parts = backticks_for(code), visible.model_dump()
    if any(_HEADING.search(text) for text in parts.values() if text is not None):
        parts = {name: None if text is None else quote_text(text) for name, text in parts.items()}
    prompt = PROMPTS[f"{speaker}_case"].replace(_FENCE, _FENCE.replace("```", fence))
    return fill(
        prompt, **values, code=code.rstrip("\n"), feedback=feedback_parts(Feedback(**parts))
    )


TURNS = "turns"
COVERAGE = "coverage"
MOST_TURNS = 10
MOST_TOKENS_SPOKEN = 2048
"""Maximum tokens of a simulated user's answer (appendix B)."""

LIVE: Mapping[str, FeedbackSetting] = MappingProxyType(
    {
        f"live[{feedback.name}]": feedback
        for feedback in (NO_FEEDBACK, *FEEDBACK_SETTINGS, GROUND_TRUTH)
    }
)
STATIC: Mapping[str, FeedbackSetting] = MappingProxyType(
    {
        f"static[{feedback.name}]": feedback
        for feedback in FEEDBACK_SETTINGS
        if feedback.verbal is not VerbalFeedback.NONE
        and (feedback.execution, feedback.verbal) != (ExecutionFeedback.NONE, VerbalFeedback.NOVICE)
    }
)
"""Kinds of feedback with a simulated user.

A novice who sees only the compiler is excluded, since such a novice never comments on code that
compiles (section 4.3).
"""

_TURNS = Option(
    name=TURNS,
    values=tuple(str(n) for n in range(1, MOST_TURNS + 1)),
    default=str(MOST_TURNS),
    affects="episode",
    always_in_id=True,
    help="rounds of feedback after the first answer",
)
_COVERAGE = Option(
    name=COVERAGE,
    values=("first_three_tests", "upstream_first_three_methods"),
    default="first_three_tests",
    affects="episode",
    always_in_id=True,
    help="tests whose failures are shown: the first three, or those among the first three"
    " methods (without module errors and time limits)",
    upstream=("upstream_first_three_methods",),
)
_EXECUTION_HELP = {
    ExecutionFeedback.NONE: "",
    ExecutionFeedback.PARTIAL: ", the first three tests",
    ExecutionFeedback.FULL: ", all tests",
}
_VERBAL_HELP = {
    VerbalFeedback.NONE: "",
    VerbalFeedback.NOVICE: ", comments of a novice",
    VerbalFeedback.EXPERT: ", comments of an expert",
    VerbalFeedback.GROUND_TRUTH: ", the reference code (Table 7)",
}


@cache
def settings() -> dict[str, Setting]:
    """Return all settings by name."""
    return {name: _live(name, feedback) for name, feedback in LIVE.items()} | {
        name: Setting(
            name=name,
            help=f"logged code of a reference model; {_description(feedback)} (section 3)",
            options=(extraction_option("scoring"),),
            history=HistoryPolicy.LAST_CODE_AND_FEEDBACK,
            prompts=PROMPTS,
        )
        for name, feedback in STATIC.items()
    }


def feedback_turns(setting: str, options: Mapping[str, str]) -> int:
    """Return the maximum rounds of feedback, 0 without feedback and in static settings."""
    return int(options[TURNS]) if setting in LIVE and LIVE[setting].compilation else 0


def rounds(setting: str, options: Mapping[str, str]) -> int:
    """Return the number of rounds over which an episode is scored."""
    return 1 + feedback_turns(setting, options)


def plays(setting: str, dialog: Dialog) -> bool:
    """Return True if the dialog belongs to the setting. Live settings share their dialogs."""
    labels = dict(dialog.labels)
    if setting in LIVE:
        return labels.get("part") == "live"
    return labels.get("part") == "static" and labels.get("setting") == STATIC[setting].name


def _live(name: str, feedback: FeedbackSetting) -> Setting:
    options = (_TURNS,) if feedback.compilation else ()
    if feedback.execution is ExecutionFeedback.PARTIAL:
        options = (*options, _COVERAGE)
    options = (*options, extraction_option("episode" if feedback.compilation else "scoring"))
    return Setting(
        name=name,
        help=f"{_description(feedback)} (section 2)",
        options=options,
        needs_simulator=has_speaker(feedback),
        history=HistoryPolicy.LAST_CODE_AND_FEEDBACK,
        prompts=GROUND_TRUTH_PROMPTS if feedback == GROUND_TRUTH else PROMPTS,
        simulator_prompts=simulator_prompts(feedback),
        simulator_tokens=MOST_TOKENS_SPOKEN,
    )


def has_speaker(feedback: FeedbackSetting) -> bool:
    """Return True if a model plays a user who comments on the code."""
    return feedback.verbal in (VerbalFeedback.NOVICE, VerbalFeedback.EXPERT)


def simulator_prompts(feedback: FeedbackSetting) -> tuple[str, ...]:
    """Return the names of the simulated user's prompts in a round, or none without such a user."""
    if not has_speaker(feedback):
        return ()
    speaker = "novice" if feedback.verbal is VerbalFeedback.NOVICE else "expert"
    return prompt_names(speaker, feedback.execution is not ExecutionFeedback.NONE)


def _description(feedback: FeedbackSetting) -> str:
    if not feedback.compilation:
        return "one answer, no feedback"
    return f"compiler feedback{_EXECUTION_HELP[feedback.execution]}{_VERBAL_HELP[feedback.verbal]}"


@dataclass(frozen=True)
class Replay:
    """Logged turns of one task in one setting, read from a dialog's labels.

    A turn is not requested in two cases. After the reference model has solved the task, the turns
    of the model under test count as passed. If there was no feedback on the reference model's code,
    the failing result of that code is used.
    """

    n_turns: int
    """Number of turns in the logs, including turn 0."""
    requested_turns: frozenset[int]
    solved_at: int | None
    """First turn whose reference code passes. None if none does."""

    @staticmethod
    def of(dialog: Dialog) -> "Replay":
        """Return the turns from the labels of a static dialog."""
        labels = dict(dialog.labels)
        solved = labels.get("reference_solved_at")
        return Replay(
            n_turns=int(labels["last_iteration"]) + 1,
            requested_turns=frozenset(int(turn) for turn in labels["asked"].split(",")),
            solved_at=int(solved) if solved else None,
        )

    @staticmethod
    def iteration(dialog: Dialog) -> int:
        """Return the paper's turn number of a static dialog."""
        return int(dict(dialog.labels)["iteration"])

    @property
    def credited_from(self) -> int | None:
        """Return the first credited turn of this task, or None."""
        after = self.n_turns if self.solved_at is None else self.solved_at + 1
        return after if after < self.n_turns else None

    def turns_of(self, dialog: Dialog) -> tuple[int, ...]:
        """Return the turns scored on a dialog's episode.

        An episode scores its own turn. The episode of turn 0 also scores the turns without a
        request.
        """
        own = self.iteration(dialog)
        return tuple(
            t
            for t in range(self.n_turns)
            if t == own or (own == 0 and t not in self.requested_turns)
        )
