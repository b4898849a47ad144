"""`--decide` as it is typed: a rule, or a refusal that names the remedy."""

import pytest

from flows.cli.options import parse_decide
from schemas.errors import ConfigError
from schemas.night.decision import DecisionRule


def test_a_rule_names_baseline_margin_alpha_and_metrics() -> None:
    rule = parse_decide("baseline=control:gold,margin=0.02,alpha=0.1,metric=a,metric=b")
    assert rule == DecisionRule(baseline="control:gold", margin=0.02, alpha=0.1, metrics=("a", "b"))


def test_margin_and_alpha_have_usual_values() -> None:
    assert parse_decide("baseline=predecessor") == DecisionRule(
        baseline="predecessor", margin=0.03, alpha=0.05
    )


@pytest.mark.parametrize("text", [None, "off"])
def test_without_a_rule_everything_is_asked(text: str | None) -> None:
    assert parse_decide(text) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("margin=0.03", "has no baseline"),
        ("baseline=a,baseline=b", "occurs twice"),
        ("baseline=a,level=1", "'level=1': expected baseline="),
        ("gold", "'gold': expected baseline="),
    ],
)
def test_another_form_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_decide(text)
