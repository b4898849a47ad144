"""UniDial-EvalKit's normalised dialogue (paper section 2.1), as its files hold it. Each dataset is read into this form first."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

_RAW = ConfigDict(extra="allow", strict=True)


class MetricConfig(BaseModel):
    """A metric with its arguments."""

    model_config = _RAW

    class_name: str
    args: dict[str, Any] = Field(default_factory=dict[str, Any])


class EvalConfig(BaseModel):
    """Whether the model under test says a turn, and what is measured there."""

    model_config = _RAW

    do_eval: bool = False
    metrics: list[MetricConfig] = Field(default_factory=list[MetricConfig])
    dynamic_config_source: dict[str, Any] = Field(default_factory=dict[str, Any])
    """What a dataset makes its metrics of, where `metrics` names none."""


class NormalTurn(BaseModel):
    """One message."""

    model_config = _RAW

    turn_id: int
    role: Literal["system", "user", "assistant"]
    content: str | None = None
    reference: str | list[str] | None = None
    reference_document: Any = None
    eval_config: EvalConfig = Field(default_factory=EvalConfig)
    turn_labels: dict[str, Any] = Field(default_factory=dict[str, Any])

    @property
    def is_generated(self) -> bool:
        """Whether the model under test says it, whatever content stands there."""
        return self.role == "assistant" and self.eval_config.do_eval


class DialogConfig(BaseModel):
    """Of the whole dialogue."""

    model_config = _RAW

    use_reference_history: bool = False


class NormalDialog(BaseModel):
    """One dialogue."""

    model_config = _RAW

    dialog_id: int
    dialog_raw_info: dict[str, Any] = Field(default_factory=dict[str, Any])
    dialog_labels: dict[str, Any] = Field(default_factory=dict[str, Any])
    dialog_eval_config: DialogConfig = Field(default_factory=DialogConfig)
    dialog_turns: list[NormalTurn]


def said(role: Literal["system", "user", "assistant"], content: str, **labels: Any) -> NormalTurn:
    """A message that stands in the data. Its place in the dialogue is its number (`numbered`)."""
    return NormalTurn(turn_id=0, role=role, content=content, turn_labels=labels)


def asked(
    reference: str | list[str] | None = None,
    *metrics: MetricConfig,
    document: Any = None,
    source: dict[str, Any] | None = None,
    **labels: Any,
) -> NormalTurn:
    """An answer of the model under test."""
    config = EvalConfig(do_eval=True, metrics=list(metrics), dynamic_config_source=source or {})
    return NormalTurn(
        turn_id=0,
        role="assistant",
        reference=reference,
        reference_document=document,
        eval_config=config,
        turn_labels=labels,
    )


def measured(name: str, **arguments: Any) -> MetricConfig:
    """A metric with its arguments."""
    return MetricConfig(class_name=name, args=arguments)
