"""The merged form of messages."""

from typing import Any

from tasks.language.endpoints.request_parts import is_merged, merged


def said(*pairs: tuple[str, str]) -> list[dict[str, Any]]:
    return [{"role": role, "content": text} for role, text in pairs]


def test_the_system_text_goes_into_the_first_user_message() -> None:
    assert merged(said(("system", "s"), ("user", "u"), ("assistant", "a"))) == said(
        ("user", "s\n\nu"), ("assistant", "a")
    )


def test_messages_of_one_role_are_joined_and_an_empty_answer_is_left_out() -> None:
    messages = said(
        ("user", "a"), ("assistant", ""), ("user", "b"), ("assistant", "c"), ("assistant", "d")
    )
    assert merged(messages) == said(("user", "a\n\nb"), ("assistant", "c\n\nd"))


def test_calls_and_their_results_stay_apart() -> None:
    call = {"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}
    results = [
        {"role": "tool", "content": "x", "tool_call_id": "1"},
        {"role": "tool", "content": "y", "tool_call_id": "2"},
    ]
    assert merged([call, *results]) == [call, *results]


def test_merging_changes_no_argument_and_twice_is_once() -> None:
    messages = said(("system", "s"), ("user", "u"), ("user", "v"))
    once = merged(messages)
    assert messages == said(("system", "s"), ("user", "u"), ("user", "v"))
    assert is_merged(once)
    assert not is_merged(messages)
