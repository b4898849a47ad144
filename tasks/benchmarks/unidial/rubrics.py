"""What judges are asked, a rubric for each template that the data name; and which of an episode's answers they rate."""

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
from tasks.judging.drift import Case, DriftMessages
from tasks.judging.rubric import JudgeRun, Rubric
from tasks.language.chat_model import Message
from tasks.language.prompt import fill, load_prompt
from tasks.language.quotation import quote_messages, quote_text
from tasks.metrics.written_language import n_sentences, n_words

JUDGE = "llm_judge"
GENERAL = "general"
_LAST = 3
"""Messages of a conversation that are shown where only its latest part counts."""
ABILITIES = {
    "AR": "it understands what words such as `it` or `that one` refer back to.",
    "CC": "it answers the present question alone, and is not misled by the pattern of earlier questions and answers.",
    "CM": "it recalls what was said earlier, and uses it where it helps.",
    "CR": "it puts its earlier answer into other words, as asked, and keeps what it says.",
    "FR": "it gives its earlier answer another form, as asked, and keeps what it says.",
    "GR": "it draws right conclusions from all that was said so far, also where new facts come in.",
    "IC": "it asks back where the question is not clear, and answers fully once it is.",
    "MR": "it works out the mathematics step by step to the right result, building on earlier rounds.",
    "PI": "it takes initiative: it leads the talk on with fitting questions or remarks of its own.",
    "SA": "it stays by a right answer when the user doubts it with wrong claims.",
    "SC": "it sees where its earlier answer was wrong once the user says so, and mends it.",
    "SI": "it waits for the details of a task that was only announced, then does it for each input without being told again.",
    "TS": "it follows a sudden change of subject, and lets nothing of the earlier subject slip in.",
}
"""Thirteen abilities of MT-Bench-101 (section 3). Raise its rubric's version with them."""
RULES = {
    "abstention": "The question cannot be answered. Right is whoever says so, or says what is missing.",
    "knowledge-update": "Older facts may be told beside the newest one, as long as the newest is given as the answer.",
    "single-session-preference": "What is right are the user's wishes. An answer that makes good use of them is right.",
    "temporal-reasoning": "An answer must hold all of what is right. A count of days, weeks or months may be off by one.",
}
"""Of LongMemEval's kinds of questions. Raise its rubric's version with them."""
_RULE = "An answer must hold all of what is right; a part of it is not enough."
Heard = Sequence[tuple[Role, str]]


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
    talks = {"conversation": quote_messages(case["conversation"])} if "conversation" in case else {}
    return {**case, **talks, "answer": quote_text(answer), **_counts(answer)}


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
    """The ends that its scores are made of."""
    answer: Any = RUBRICS[rubric].answer
    return answer.SCALE


def rubric_of(arguments: Mapping[str, Any]) -> str:
    """The rubric that a metric `llm_judge` with these arguments means."""
    template = str(arguments.get("template_name", ""))
    if template in RUBRICS:
        return template
    if template.startswith(mt_bench_101.TEMPLATE.partition("_")[0]):
        return "mt_bench_101"
    if template in safedialbench.TEMPLATES.values():
        return safedialbench.RUBRIC
    return longmemeval.RUBRIC if "question_type" in arguments else GENERAL


def arguments_of(spec: MetricSpec) -> dict[str, Any]:
    """A metric's arguments as the data have them."""
    return {name: json.loads(value) for name, value in spec.arguments}


def judge_runs(request: JudgeRequest, texts: Texts = MappingProxyType({})) -> Sequence[JudgeRun]:
    """Return a judgement for each answer of the model that the data want rated by this rubric.

    Args:
        texts: a user's own texts of rubrics, in the place of Parley's.
    """
    runs: list[JudgeRun] = []
    rubric, dialog, episode = request.rubric, request.dialog, request.episode
    for turn in dialog.turns:
        asked = (
            arguments_of(spec) for spec in turn.metrics if spec.name == JUDGE and turn.is_generated
        )
        wanted = next((one for one in asked if rubric_of(one) == rubric), None)
        answer = None if wanted is None else episode.answer(turn.turn)
        if answer is not None and wanted is not None:
            values = _FILLED[rubric](turn, wanted, answer, heard(dialog, episode, turn.turn))
            runs.append(
                JudgeRun(
                    turn.turn,
                    rubric,
                    _messages(RUBRICS[rubric], _variant(rubric, wanted), values, texts),
                )
            )
    return runs


def _messages(
    rubric: Rubric, variant: str, values: Mapping[str, str], texts: Texts
) -> tuple[Message, ...]:
    """Return what the judge is asked: in the user's words where there are some for this kind of row, else in Parley's.

    The form of the answer is added here only where the user words the rubric for other kinds of rows. A user's words get the
    answer as it is, as the authors' scripts show it; Parley's quote it.
    """
    name, system = (
        next(
            (
                one
                for one in (f"{rubric.name}.{variant}{end}", f"{rubric.name}{end}")
                if one in texts
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


def _variant(rubric: str, given: Mapping[str, Any]) -> str:
    """Return the kind of row, by which a user's templates may differ."""
    if rubric == longmemeval.RUBRIC:
        return "abstention" if given.get("abstention") else str(given.get("question_type", ""))
    template = str(given.get("template_name", ""))
    if rubric == safedialbench.RUBRIC:
        return template.removesuffix("-evaluation")
    return _task(given) if rubric == "mt_bench_101" else template


def _task(given: Mapping[str, Any]) -> str:
    return str(given.get("task", "")) or str(given["template_name"]).split("_")[1].upper()


def heard(dialog: Dialog, episode: Episode, turn: int) -> Heard:
    """What the model was shown of the dialogue's own rounds: with reference history, golden answers in the place of its own."""
    golden: dict[int, str] = {}
    if label_of(dialog, REFERENCE_HISTORY):
        golden = {
            one.turn: one.reference
            for one in dialog.turns
            if one.is_generated and one.reference is not None
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


def _quoted(messages: Heard) -> str:
    return quote_messages((role.value, text) for role, text in messages)


def _counted(turn: Turn, given: Mapping[str, Any], answer: str, before: Heard) -> dict[str, str]:
    constraints = given.get("constraints") or ()
    numbered = (
        "\n".join(f"{n}. {one}" for n, one in enumerate(constraints, 1))
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
    turn: Turn, given: Mapping[str, Any], answer: str, before: Heard
) -> dict[str, str]:
    return {"conversation": _quoted(before[-_LAST:]), "answer": answer, **_counts(answer)}


def _ability(turn: Turn, given: Mapping[str, Any], answer: str, before: Heard) -> dict[str, str]:
    task = _task(given)
    shown = {
        "ability": ABILITIES.get(task, task),
        "conversation": _quoted(before),
        "answer": answer,
    }
    return shown | {
        "reference": (turn.reference if task in mt_bench_101.COMPARED else None) or "(none)"
    }


def _analysis(turn: Turn, given: Mapping[str, Any], answer: str, before: Heard) -> dict[str, str]:
    shown = {
        "question": str(given.get("question", "")),
        "attempt": str(given.get("wrong_attempt", "")),
    }
    return shown | {"reference": turn.reference or "", "answer": answer}


def _generation(turn: Turn, given: Mapping[str, Any], answer: str, before: Heard) -> dict[str, str]:
    seed = {
        "question": str(given.get("seed_problem", "")),
        "solution": str(given.get("seed_solution", "")),
    }
    return seed | {"reference": turn.reference or "", "answer": answer}


def _criterion(turn: Turn, given: Mapping[str, Any], answer: str, before: Heard) -> dict[str, str]:
    return {"criterion": str(given.get("criteria", "")), "answer": answer}


def _remembered(turn: Turn, given: Mapping[str, Any], answer: str, before: Heard) -> dict[str, str]:
    rule = (
        RULES["abstention"]
        if given.get("abstention")
        else RULES.get(str(given["question_type"]), _RULE)
    )
    question = str(given.get("raw_question", ""))
    return {"question": question, "reference": turn.reference or "", "answer": answer, "rule": rule}


def _safety(turn: Turn, given: Mapping[str, Any], answer: str, before: Heard) -> dict[str, str]:
    harm = str(given["template_name"]).removesuffix("-evaluation")
    return {"harm": harm, "conversation": _quoted(before), "answer": answer}


def _general(turn: Turn, given: Mapping[str, Any], answer: str, before: Heard) -> dict[str, str]:
    asked = "\n".join(f"{name}: {value}" for name, value in given.items())
    return {
        "asked": asked,
        "conversation": _quoted(before[-_LAST:]),
        "answer": answer,
        "reference": turn.reference or "(none)",
    }


_FILLED: Mapping[str, Callable[[Turn, Mapping[str, Any], str, Heard], dict[str, str]]] = {
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
