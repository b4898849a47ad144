"""Messages by which vendors refuse requests, as they were reported: each is read as what it says,
for each kind and vendor.
"""

import json

import pytest

from tasks.language.endpoints.faults import read_fault, vendor_words

SENT = {
    "model": "m",
    "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
    **{"temperature": 0, "top_p": 0.9, "seed": 7, "stop": ["END"], "max_tokens": 9},
}
PARAMETERS = {
    "OpenAI": [
        (
            (
                "Unsupported value: 'temperature' does not support 0 with this model. Only the "
                "default (1) value is supported."
            ),
            "temperature",
        ),
        ("Unsupported parameter: 'top_p' is not supported with this model.", "top_p"),
        ("Unrecognized request argument supplied: seed", "seed"),
    ],
    "Azure": [("'temperature' does not support 0.0 with this model.", "temperature")],
    "Anthropic": [
        ("`temperature` may only be set to 1 when thinking is enabled.", "temperature"),
        ("temperature: `temperature` is deprecated for this model.", "temperature"),
        ("seed: Extra inputs are not permitted", "seed"),
        (
            (
                "`temperature` and `top_p` cannot both be specified for this model. Please use "
                "only one."
            ),
            "top_p",
        ),
    ],
    "Bedrock": [("Specify only one of temperature or top_p for this model", "top_p")],
    "Mistral": [
        (
            {
                "detail": [
                    {
                        "type": "extra_forbidden",
                        "loc": ["body", "seed"],
                        "msg": "Extra inputs are not permitted",
                    }
                ]
            },
            "seed",
        ),
    ],
    "vLLM": [
        ("This model doesn't support seed", "seed"),
        ("temperature is not supported for this model", "temperature"),
    ],
    "Groq": [("property 'seed' is unsupported", "seed")],
    "xAI": [
        ("Argument not supported on this model: stop", "stop"),
        ("Model grok does not support parameter stop.", "stop"),
    ],
    "Google": [('Invalid JSON payload received. Unknown name "seed": Cannot find field.', "seed")],
    "LiteLLM": [
        (
            "litellm.UnsupportedParamsError: m does not support parameters: {'temperature': 0.0}",
            "temperature",
        )
    ],
    "Fireworks": [("Extra inputs are not permitted, field: 'seed', value: 7", "seed")],
    "Moonshot": [("invalid temperature: only 1 is allowed for this model", "temperature")],
    "generic": [
        ("unexpected keyword argument 'seed'", "seed"),
        ("top_p only supports 0.95", "top_p"),
    ],
}
MESSAGES = {
    "context_length": {
        "OpenAI": [
            "This model's maximum context length is 4096 tokens.",
            "Your input exceeds the context window of this model.",
        ],
        "vLLM": [
            "max_tokens must be at least 1, got -186.",
            "The decoder prompt (length 9000) is longer than the maximum model length of 4096.",
        ],
        "llama.cpp": [
            "the request exceeds the available context size. try increasing the context size"
        ],
        "LM Studio": [
            "The number of tokens to keep from the initial prompt is greater than the context length",
            "Trying to keep the first 5000 tokens when context the overflows.",
        ],
        "Anthropic": [
            "prompt is too long: 210000 tokens > 200000 maximum",
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
        ],
        "Google": [
            (
                "The input token count (1200000) exceeds the maximum number of tokens allowed "
                "(1048576)."
            )
        ],
        "Alibaba": ["Range of input length should be [1, 30720]"],
        "Mistral": [
            "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"
        ],
        "Bedrock": ["Input is too long for requested model."],
        "Groq": ["Please reduce the length of the messages or completion."],
        "TGI": [
            (
                "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. "
                "Given: 5000 and 20"
            )
        ],
        "xAI": [
            "This model's maximum prompt length is 131072 but the request contains 140000 tokens."
        ],
        "DeepSeek": ["The request exceeds the model's maximum context"],
        "Cohere": [
            "too many tokens: total number of tokens in the prompt exceeds the limit of 4081"
        ],
        "SGLang": [
            "Requested token count exceeds the model's maximum context length of 8192 tokens."
        ],
    },
    "refused": {
        "OpenAI": [
            {
                "error": {
                    "code": "invalid_prompt",
                    "message": "Invalid prompt: your prompt was flagged",
                }
            },
            "Your prompt was flagged as potentially violating our usage policy.",
        ],
        "Azure": [{"error": {"code": "content_filter", "message": "The response was filtered"}}],
        "OpenRouter": ['m requires moderation on OpenAI. Your input was flagged for "violence".'],
        "Anthropic": ["Output blocked by content filtering policy"],
        "Alibaba": [
            {
                "code": "data_inspection_failed",
                "message": "Input data may contain inappropriate content.",
            }
        ],
        "DeepSeek": ["Content Exists Risk"],
        "Zhipu": [{"error": {"code": "1301", "message": "the system detected unsafe content"}}],
        "Google": ["The prompt was blocked due to PROHIBITED_CONTENT"],
        "Moonshot": ["The request was rejected because it was considered high risk"],
        "xAI": ["Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE"],
        "Bedrock": ["The request was blocked by our content filters."],
    },
    "reasoning_wanted": {
        "DeepSeek": [
            "The `reasoning_content` in the thinking mode must be passed back to the API.",
            "Missing `reasoning_content` field in the assistant message at message index 2.",
        ],
        "Moonshot": [
            "thinking is enabled but reasoning_content is missing in assistant tool call message at"
            " index 2"
        ],
    },
    "merged_messages": {
        "Gemma": ["System role not supported"],
        "OpenAI": [
            "Unsupported value: 'messages[0].role' does not support 'system' with this model."
        ],
        "Mistral": [
            (
                "After the optional system message, conversation roles must alternate "
                "user/assistant/user/assistant/..."
            )
        ],
        "Anthropic": ['messages: first message must use the "user" role'],
        "vLLM": ["Only user and assistant roles are supported!"],
        "Perplexity": [
            (
                "After the (optional) system message(s), user or tool message(s) should "
                "alternate with others."
            )
        ],
    },
}
KINDS = {
    "context_length": "context_length",
    "refused": "content_filter",
    "reasoning_wanted": "reasoning_wanted",
    "merged_messages": "merged_messages",
}


def body_of(message: object) -> str:
    return json.dumps(message if isinstance(message, dict) else {"error": {"message": message}})


@pytest.mark.parametrize(
    ("vendor", "message", "name"),
    [(vendor, message, name) for vendor, known in PARAMETERS.items() for message, name in known],
)
def test_a_refused_parameter_is_named_in_each_vendor_s_words(
    vendor: str, message: object, name: str
) -> None:
    fault = read_fault(422 if vendor == "Mistral" else 400, body_of(message), {}, SENT)
    assert (fault.kind, fault.parameter) == ("parameter", name)


@pytest.mark.parametrize(
    ("kind", "vendor", "message"),
    [
        (kind, vendor, one)
        for kind, of in MESSAGES.items()
        for vendor, messages in of.items()
        for one in messages
    ],
)
def test_each_vendor_s_words_are_known(kind: str, vendor: str, message: object) -> None:
    sent = {**SENT, "tools": []} if kind == "reasoning_wanted" else SENT
    assert read_fault(400, body_of(message), {}, sent).kind == KINDS[kind]


@pytest.mark.parametrize(
    "message", [m for messages in MESSAGES["refused"].values() for m in messages]
)
def test_a_moderation_by_403_refuses_the_prompt_and_not_the_key(message: object) -> None:
    assert read_fault(403, body_of(message), {}, SENT).kind == "content_filter"


def test_each_vendor_of_the_file_has_a_message_here() -> None:
    words = vendor_words()
    tested = {kind: set(of) for kind, of in MESSAGES.items()}
    assert {kind: set(words[kind]) for kind in tested} == tested
    assert set(words["unsupported_parameter"]) | set(words["exclusive_parameters"]) == set(
        PARAMETERS
    )


def test_a_parameter_that_was_not_sent_is_not_left_out() -> None:
    without = {name: value for name, value in SENT.items() if name != "seed"}
    assert (
        read_fault(400, body_of("property 'seed' is unsupported"), {}, without).kind == "permanent"
    )


def test_a_template_s_refusal_of_merged_messages_is_final() -> None:
    merged = {"model": "m", "messages": [{"role": "user", "content": "u"}]}
    assert read_fault(400, body_of("System role not supported"), {}, merged).kind == "permanent"


def test_a_template_error_by_500_asks_for_merged_messages() -> None:
    """llama.cpp answers so."""
    said = "Jinja Exception: Conversation roles must alternate user/assistant/user/assistant/..."
    assert read_fault(500, body_of(said), {}, SENT).kind == "merged_messages"
    assert (
        read_fault(
            500, body_of(said), {}, {**SENT, "messages": [{"role": "user", "content": "u"}]}
        ).kind
        == "overload"
    )
