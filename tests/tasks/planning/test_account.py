"""What an invocation paid for, read from the episodes that it played."""

from schemas.dialog import Role
from schemas.episode import Step
from schemas.lake.rows import to_arrow
from tasks.planning.reporting.account import paid_steps
from tests.tasks.planning.test_report import episode


def step(role: Role, n_calls: int, tokens: int | None = None) -> Step:
    return Step(turn=1, role=role, content="x", n_calls=n_calls, input_tokens=tokens)


def test_steps_that_were_kept_or_cost_nothing_are_left_out() -> None:
    kept = step(Role.ASSISTANT, 1, 10)
    first = (step(Role.USER, 0), kept, step(Role.TOOL, 0), step(Role.ASSISTANT, 2, 30))
    second = (step(Role.USER, 3), step(Role.ASSISTANT, 0))
    played = [
        episode(name).model_copy(update={"steps": said})
        for name, said in (("a", first), ("b", second))
    ]
    assert paid_steps([to_arrow("episodes", played)], {"a": (first[0], kept)}) == [
        {"role": "assistant", "n_calls": 2, "input_tokens": 30, "output_tokens": None},
        {"role": "user", "n_calls": 3, "input_tokens": None, "output_tokens": None},
    ]
