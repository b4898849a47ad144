"""Rubrics for the judge templates that metrics in the data name, and judge runs of an episode."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from schemas.dialog import Dialog, MetricSpec, Role, Turn
from schemas.episode import Episode
from tasks.benchmarks.advanced import JudgeRequest
from tasks.benchmarks.templates import FORM, SYSTEM, Texts, owner_of, render
from tasks.benchmarks.unidial.answers import Rated, Safety, Scale, TenPoints, ThreeSums, YesNo
from tasks.benchmarks.unidial.convert import REFERENCE_HISTORY, label_of
from tasks.benchmarks.unidial.datasets import longmemeval, one_line
from tasks.judging.rubric import Case, JudgeRun, Rubric
from tasks.language.chat_model import Message
from tasks.language.prompt import fill, quote_messages, quote_text
from tasks.metrics.written_language import n_sentences, n_words

JUDGE = "llm_judge"
GENERAL = "general"
_LAST = 3
"""Number of messages shown if only the latest part of a conversation matters."""
ABILITIES = {
    "AR": "it understands what words such as `it` or `that one` refer back to.",
    "CC": (
        "it answers the present question alone, and is not misled by the pattern of earlier "
        "questions and answers."
    ),
    "CM": "it recalls what was said earlier, and uses it where it helps.",
    "CR": "it puts its earlier answer into other words, as asked, and keeps what it says.",
    "FR": "it gives its earlier answer another form, as asked, and keeps what it says.",
    "GR": "it draws right conclusions from all that was said so far, also where new facts come in.",
    "IC": "it asks back where the question is not clear, and answers fully once it is.",
    "MR": (
        "it works out the mathematics step by step to the right result, building on earlier rounds."
    ),
    "PI": "it takes initiative: it leads the talk on with fitting questions or remarks of its own.",
    "SA": "it stays by a right answer when the user doubts it with wrong claims.",
    "SC": "it sees where its earlier answer was wrong once the user says so, and mends it.",
    "SI": (
        "it waits for the details of a task that was only announced, then does it for each input "
        "without being told again."
    ),
    "TS": "it follows a sudden change of subject, and lets nothing of the earlier subject slip in.",
}
"""Thirteen abilities of MT-Bench-101 (section 3), part of the judge's prompt.

Increase the version of the rubric with any change.
"""
RULES = {
    "abstention": (
        "The question cannot be answered. Right is whoever says so, or says what is missing."
    ),
    "knowledge-update": (
        "Older facts may be told beside the newest one, as long as the newest is given as the "
        "answer."
    ),
    "single-session-preference": (
        "What is right are the user's wishes. An answer that makes good use of them is right."
    ),
    "temporal-reasoning": (
        "An answer must hold all of what is right. A count of days, weeks or months may be off "
        "by one."
    ),
}
"""Rule for each of LongMemEval's kinds of questions, part of the judge's prompt.

Increase the version of the rubric with any change.
"""
_RULE = "An answer must hold all of what is right; a part of it is not enough."
RoleMessages = Sequence[tuple[Role, str]]


_PACKAGE = "tasks.benchmarks.unidial"


def _rubric(name: str, prompt: str, form: type[Rated] | type[Safety]) -> Rubric:
    return Rubric.of_package(
        _PACKAGE,
        name,
        _shown,
        prompt,
        version="2",
        answer=form,
        values=lambda answer: {"": answer.score},
    )


def _shown(case: Case) -> Case:
    answer = case["answer"]
    conversation = (
        {"conversation": quote_messages(case["conversation"])} if "conversation" in case else {}
    )
    return {**case, **conversation, "answer": quote_text(answer), **_counts(answer)}


def _counts(answer: str) -> dict[str, str]:
    return {"n_words": str(n_words(answer)), "n_sentences": str(n_sentences(answer))}


RUBRICS = {
    rubric.name: rubric
    for rubric in (
        _rubric("expansion_evaluation", "document", TenPoints),
        _rubric("refinement_single_evaluation", "refinement_single", TenPoints),
        _rubric("refinement_multi_evaluation", "refinement_multi", TenPoints),
        _rubric("mt_bench_evaluation", "conversation", TenPoints),
        _rubric("mt_bench_101", "mt_bench_101", TenPoints),
        _rubric("math_chat_error_analysis", "error_analysis", ThreeSums),
        _rubric("math_chat_p2p_generation", "p2p_generation", ThreeSums),
        _rubric(one_line.CRITERION_RUBRIC, "criterion", YesNo),
        _rubric(longmemeval.RUBRIC, "remembered", YesNo),
        _rubric(one_line.SAFETY_RUBRIC, "safety", Safety),
        _rubric(GENERAL, "general", TenPoints),
    )
}


def scale_of(rubric: str) -> Scale:
    """Return the scale from which a rubric's scores are computed."""
    answer: Any = RUBRICS[rubric].answer
    return answer.SCALE


def rubric_of(arguments: Mapping[str, Any]) -> str:
    """Return the rubric for a metric `llm_judge` with these arguments."""
    template = str(arguments.get("template_name", ""))
    if template in RUBRICS:
        return template
    if template.startswith(one_line.MT_BENCH_TEMPLATE.partition("_")[0]):
        return "mt_bench_101"
    if template in one_line.SAFETY_TEMPLATES.values():
        return one_line.SAFETY_RUBRIC
    return longmemeval.RUBRIC if "question_type" in arguments else GENERAL


def arguments_of(spec: MetricSpec) -> dict[str, Any]:
    """Return a metric's arguments as stated in the data."""
    return {name: json.loads(value) for name, value in spec.arguments}


def judge_runs(request: JudgeRequest, texts: Texts = MappingProxyType({})) -> Sequence[JudgeRun]:
    """Return a judge run for each answer of the model that this rubric rates.

    Args:
        request: Rubric and episode.
        texts: Custom rubric prompts from `--templates`, which replace Parley's.
    """
    runs: list[JudgeRun] = []
    rubric, dialog, episode = request.rubric, request.dialog, request.episode
    for turn in dialog.turns:
        specs_arguments = (
            arguments_of(spec) for spec in turn.metrics if spec.name == JUDGE and turn.is_generated
        )
        judge_arguments = next(
            (arguments for arguments in specs_arguments if rubric_of(arguments) == rubric), None
        )
        answer = None if judge_arguments is None else episode.answer(turn.turn)
        if answer is not None and judge_arguments is not None:
            before = visible_messages(dialog, episode, turn.turn)
            case = _Answer(turn, judge_arguments, answer, before)
            values = {**_FILLED[rubric](case), "answer": answer}
            variant = _variant(rubric, judge_arguments)
            runs.append(
                JudgeRun(turn.turn, rubric, _messages(RUBRICS[rubric], variant, values, texts))
            )
    return runs


def _messages(
    rubric: Rubric, variant: str, values: Mapping[str, str], texts: Texts
) -> tuple[Message, ...]:
    """Return the judge's messages: the custom prompt for this kind of row, or else Parley's.

    A custom prompt contains the answer verbatim, as in the authors' scripts. Parley's prompt quotes
    the answer, and ends with the answer form only if custom prompts replace it for other kinds of
    rows.
    """
    name, system = (
        next(
            (
                key
                for key in (f"{rubric.name}.{variant}{end}", f"{rubric.name}{end}")
                if key in texts
            ),
            None,
        )
        for end in ("", f".{SYSTEM}")
    )
    shown = {**values, FORM: rubric.form}
    opening = () if system is None else (Message(Role.SYSTEM, render(texts[system], shown)),)
    if name is not None:
        return (*opening, Message(Role.USER, render(texts[name], shown)))
    quoted = {**values, "answer": quote_text(values["answer"])}
    own = (*opening, Message(Role.USER, fill(rubric.prompt, **quoted)))
    return rubric.with_form(own) if rubric.name in map(owner_of, texts) else own


def _variant(rubric: str, arguments: Mapping[str, Any]) -> str:
    """Return the kind of row, for which `--templates` may have a separate prompt."""
    if rubric == longmemeval.RUBRIC:
        return (
            "abstention" if arguments.get("abstention") else str(arguments.get("question_type", ""))
        )
    template = str(arguments.get("template_name", ""))
    if rubric == one_line.SAFETY_RUBRIC:
        return template.removesuffix("-evaluation")
    return _task(arguments) if rubric == "mt_bench_101" else template


def _task(arguments: Mapping[str, Any]) -> str:
    return str(arguments.get("task", "")) or str(arguments["template_name"]).split("_")[1].upper()


def visible_messages(dialog: Dialog, episode: Episode, turn: int) -> RoleMessages:
    """Return the messages of the dialogue that the model saw before its answer of a turn.

    Turns of a shared context are left out. With reference history, golden answers replace the
    model's answers.
    """
    golden: dict[int, str] = {}
    if label_of(dialog, REFERENCE_HISTORY):
        golden = {
            dialog_turn.turn: dialog_turn.reference
            for dialog_turn in dialog.turns
            if dialog_turn.is_generated and dialog_turn.reference is not None
        }
    shown = (
        step
        for step in episode.messages
        if step.turn < turn or (step.turn == turn and step.role is Role.USER)
    )
    return [
        (
            step.role,
            golden.get(step.turn, step.content) if step.role is Role.ASSISTANT else step.content,
        )
        for step in shown
    ]


def _quoted(messages: RoleMessages) -> str:
    return quote_messages((role.value, text) for role, text in messages)


@dataclass(frozen=True)
class _Answer:
    """Answer to judge, with its turn and the messages before it."""

    turn: Turn
    arguments: Mapping[str, Any]
    """Arguments of the metric."""
    text: str
    before: RoleMessages

    def argument(self, name: str) -> str:
        return str(self.arguments.get(name, ""))

    @property
    def latest_messages(self) -> str:
        return _quoted(self.before[-_LAST:])


def _counted(answer: _Answer) -> dict[str, str]:
    constraints = answer.arguments.get("constraints") or ()
    numbered = (
        "\n".join(f"{n}. {constraint}" for n, constraint in enumerate(constraints, 1))
        if len(constraints) > 1
        else "".join(constraints)
    )
    document = label_of(answer.turn, "_reference_document") or answer.turn.reference or ""
    shown = {
        "document": str(document),
        "request": answer.before[-1][1],
        "constraints": numbered,
    }
    return shown | _counts(answer.text)


def _ability(answer: _Answer) -> dict[str, str]:
    task = _task(answer.arguments)
    reference = answer.turn.reference if task in one_line.COMPARED else None
    return {
        "ability": ABILITIES.get(task, task),
        "conversation": _quoted(answer.before),
        "reference": reference or "(none)",
    }


def _remembered(answer: _Answer) -> dict[str, str]:
    rule = (
        RULES["abstention"]
        if answer.arguments.get("abstention")
        else RULES.get(str(answer.arguments["question_type"]), _RULE)
    )
    question, reference = answer.argument("raw_question"), answer.turn.reference or ""
    return {"question": question, "reference": reference, "rule": rule}


def _general(answer: _Answer) -> dict[str, str]:
    return {
        "asked": "\n".join(f"{name}: {value}" for name, value in answer.arguments.items()),
        "conversation": answer.latest_messages,
        "reference": answer.turn.reference or "(none)",
    }


_FILLED: Mapping[str, Callable[[_Answer], dict[str, str]]] = {
    "expansion_evaluation": _counted,
    "refinement_single_evaluation": _counted,
    "refinement_multi_evaluation": _counted,
    "mt_bench_evaluation": lambda answer: {
        "conversation": answer.latest_messages,
        **_counts(answer.text),
    },
    "mt_bench_101": _ability,
    "math_chat_error_analysis": lambda answer: {
        "question": answer.argument("question"),
        "attempt": answer.argument("wrong_attempt"),
        "reference": answer.turn.reference or "",
    },
    "math_chat_p2p_generation": lambda answer: {
        "question": answer.argument("seed_problem"),
        "solution": answer.argument("seed_solution"),
        "reference": answer.turn.reference or "",
    },
    one_line.CRITERION_RUBRIC: lambda answer: {"criterion": answer.argument("criteria")},
    longmemeval.RUBRIC: _remembered,
    one_line.SAFETY_RUBRIC: lambda answer: {
        "harm": str(answer.arguments["template_name"]).removesuffix("-evaluation"),
        "conversation": _quoted(answer.before),
    },
    GENERAL: _general,
}
"""Rubric -> function that returns the texts of its prompt's placeholders, except `answer`."""
