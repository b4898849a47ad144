"""Conversion of an endpoint's answers to completions."""

from schemas.endpoint_profile import EndpointProfile
from tasks.language.chat_model import CUT_OFF, ChatRequest, Completion
from tasks.language.endpoints.answers import Answer
from tasks.language.endpoints.reasoning import AUTO, Thought, without_reasoning
from tasks.language.endpoints.tool_text import calls_in


def thought_of(answer: Answer, request: ChatRequest, profile: EndpointProfile) -> Thought:
    """Return the answer's text without its reasoning. The request's tags override the profile's."""
    if not request.sampling.omit_reasoning:
        return Thought(answer.content)
    tags = request.sampling.reasoning_tags
    return without_reasoning(answer.content, profile.reasoning_tags if tags == AUTO else tags)


def completion_of(
    answer: Answer,
    thought: Thought,
    request: ChatRequest,
    latency_s: float,
    n_calls: int,
    *,
    as_text: bool,
) -> Completion:
    """Return the completion for an answer. If `as_text`, its text contains the tool calls."""
    content, calls = (
        calls_in(thought.answer, request.tools) if as_text else (thought.answer, answer.calls)
    )
    is_cut_off = thought.is_cut_off or (
        answer.finish_reason == "length" and not content and not calls
    )
    return Completion(
        content=content,
        finish_reason=CUT_OFF if is_cut_off else answer.finish_reason,
        input_tokens=answer.input_tokens,
        output_tokens=answer.output_tokens,
        latency_s=latency_s,
        served_model=answer.served_model,
        n_calls=n_calls,
        calls=calls,
        reasoning="\n\n".join(filter(None, (answer.reasoning, thought.reasoning))),
        reasoning_tokens=answer.reasoning_tokens,
    )
