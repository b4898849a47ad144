"""Rubrics for the judge templates that metrics in the data name, and judge runs of an episode."""

import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from schemas.dialog import Dialog, MetricSpec, Role, Turn
from schemas.episode import Episode
from tasks.benchmarks.advanced import JudgeRequest
from tasks.benchmarks.templates import FORM, SYSTEM, Texts, owner_of, render
from tasks.benchmarks.unidial.answers import Rated, Safety, Scale, TenPoints, ThreeSums, YesNo
from tasks.benchmarks.unidial.convert import REFERENCE_HISTORY, label_of
from tasks.benchmarks.unidial.datasets import (
    longmemeval,
    mt_bench_101,
    multi_challenge,
    safedialbench,
)
from tasks.judging.rubric import Case, DriftMessages, JudgeRun, Rubric
from tasks.language.chat_model import Message
from tasks.language.prompt import fill, load_prompt, quote_messages, quote_text
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
    text = load_prompt(_PACKAGE, prompt)
    drift = DriftMessages(_PACKAGE, name, text, _shown)
    return Rubric(
        name=name,
        version="2",
        prompt=text,
        answer=form,
        values=lambda answer: {"": answer.score},
        drift=drift,
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
        _rubric(multi_challenge.RUBRIC, "criterion", YesNo),
        _rubric(longmemeval.RUBRIC, "remembered", YesNo),
        _rubric(safedialbench.RUBRIC, "safety", Safety),
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
    if template.startswith(mt_bench_101.TEMPLATE.partition("_")[0]):
        return "mt_bench_101"
    if template in safedialbench.TEMPLATES.values():
        return safedialbench.RUBRIC
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
            values = _FILLED[rubric](
                turn, judge_arguments, answer, visible_messages(dialog, episode, turn.turn)
            )
            runs.append(
                JudgeRun(
                    turn.turn,
                    rubric,
                    _messages(RUBRICS[rubric], _variant(rubric, judge_arguments), values, texts),
                )
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
    if rubric == safedialbench.RUBRIC:
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


def _counted(
    turn: Turn, arguments: Mapping[str, Any], answer: str, before: RoleMessages
) -> dict[str, str]:
    constraints = arguments.get("constraints") or ()
    numbered = (
        "\n".join(f"{n}. {constraint}" for n, constraint in enumerate(constraints, 1))
        if len(constraints) > 1
        else "".join(constraints)
    )
    document = label_of(turn, "_reference_document") or turn.reference or ""
    shown = {
        "document": str(document),
        "request": before[-1][1],
        "constraints": numbered,
        "answer": answer,
    }
    return shown | _counts(answer)


def _in_conversation(
    turn: Turn, arguments: Mapping[str, Any], answer: str, before: RoleMessages
) -> dict[str, str]:
    return {"conversation": _quoted(before[-_LAST:]), "answer": answer, **_counts(answer)}


def _ability(
    turn: Turn, arguments: Mapping[str, Any], answer: str, before: RoleMessages
) -> dict[str, str]:
    task = _task(arguments)
    shown = {
        "ability": ABILITIES.get(task, task),
        "conversation": _quoted(before),
        "answer": answer,
    }
    return shown | {
        "reference": (turn.reference if task in mt_bench_101.COMPARED else None) or "(none)"
    }


def _analysis(
    turn: Turn, arguments: Mapping[str, Any], answer: str, before: RoleMessages
) -> dict[str, str]:
    shown = {
        "question": str(arguments.get("question", "")),
        "attempt": str(arguments.get("wrong_attempt", "")),
    }
    return shown | {"reference": turn.reference or "", "answer": answer}


def _generation(
    turn: Turn, arguments: Mapping[str, Any], answer: str, before: RoleMessages
) -> dict[str, str]:
    seed = {
        "question": str(arguments.get("seed_problem", "")),
        "solution": str(arguments.get("seed_solution", "")),
    }
    return seed | {"reference": turn.reference or "", "answer": answer}


def _criterion(
    turn: Turn, arguments: Mapping[str, Any], answer: str, before: RoleMessages
) -> dict[str, str]:
    return {"criterion": str(arguments.get("criteria", "")), "answer": answer}


def _remembered(
    turn: Turn, arguments: Mapping[str, Any], answer: str, before: RoleMessages
) -> dict[str, str]:
    rule = (
        RULES["abstention"]
        if arguments.get("abstention")
        else RULES.get(str(arguments["question_type"]), _RULE)
    )
    question = str(arguments.get("raw_question", ""))
    return {"question": question, "reference": turn.reference or "", "answer": answer, "rule": rule}


def _safety(
    turn: Turn, arguments: Mapping[str, Any], answer: str, before: RoleMessages
) -> dict[str, str]:
    harm = str(arguments["template_name"]).removesuffix("-evaluation")
    return {"harm": harm, "conversation": _quoted(before), "answer": answer}


def _general(
    turn: Turn, arguments: Mapping[str, Any], answer: str, before: RoleMessages
) -> dict[str, str]:
    arguments_text = "\n".join(f"{name}: {value}" for name, value in arguments.items())
    return {
        "asked": arguments_text,
        "conversation": _quoted(before[-_LAST:]),
        "answer": answer,
        "reference": turn.reference or "(none)",
    }


_FILLED: Mapping[str, Callable[[Turn, Mapping[str, Any], str, RoleMessages], dict[str, str]]] = {
    "expansion_evaluation": _counted,
    "refinement_single_evaluation": _counted,
    "refinement_multi_evaluation": _counted,
    "mt_bench_evaluation": _in_conversation,
    "mt_bench_101": _ability,
    "math_chat_error_analysis": _analysis,
    "math_chat_p2p_generation": _generation,
    multi_challenge.RUBRIC: _criterion,
    longmemeval.RUBRIC: _remembered,
    safedialbench.RUBRIC: _safety,
    GENERAL: _general,
}
