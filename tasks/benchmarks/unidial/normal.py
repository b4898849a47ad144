"""UniDial-EvalKit's normalised dialogue (paper section 2.1) as stored in its files.

Each dataset is first converted to this form.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

_RAW = ConfigDict(extra="allow", strict=True)


class MetricConfig(BaseModel):
    """Metric that the data define for a turn, with its arguments."""

    model_config = _RAW

    class_name: str
    args: dict[str, Any] = Field(default_factory=dict[str, Any])


class EvalConfig(BaseModel):
    """Evaluation of a turn: whether the model generates it, and which metrics measure it."""

    model_config = _RAW

    do_eval: bool = False
    metrics: list[MetricConfig] = Field(default_factory=list[MetricConfig])
    dynamic_config_source: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Source from which a dataset derives metrics if `metrics` is empty."""


class NormalTurn(BaseModel):
    """Turn of a normalised dialogue: a message, or the place of an answer to generate."""

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
        """Return True if the model under test generates the turn, regardless of its content."""
        return self.role == "assistant" and self.eval_config.do_eval


class DialogConfig(BaseModel):
    """Choice of a dialogue's history: reference answers, or the model's own."""

    model_config = _RAW

    use_reference_history: bool = False


class NormalDialog(BaseModel):
    """Dialogue in the normalised form."""

    model_config = _RAW

    dialog_id: int
    dialog_raw_info: dict[str, Any] = Field(default_factory=dict[str, Any])
    dialog_labels: dict[str, Any] = Field(default_factory=dict[str, Any])
    dialog_eval_config: DialogConfig = Field(default_factory=DialogConfig)
    dialog_turns: list[NormalTurn]


def scripted_turn(
    role: Literal["system", "user", "assistant"], content: str, **labels: Any
) -> NormalTurn:
    """Return a message from the data. `number_turns` sets its id."""
    return NormalTurn(turn_id=0, role=role, content=content, turn_labels=labels)


def answer_turn(
    reference: str | list[str] | None = None,
    *metrics: MetricConfig,
    document: Any = None,
    source: dict[str, Any] | None = None,
    **labels: Any,
) -> NormalTurn:
    """Return a turn that the model under test answers."""
    config = EvalConfig(do_eval=True, metrics=list(metrics), dynamic_config_source=source or {})
    return NormalTurn(
        turn_id=0,
        role="assistant",
        reference=reference,
        reference_document=document,
        eval_config=config,
        turn_labels=labels,
    )


def metric_config(name: str, **arguments: Any) -> MetricConfig:
    """Return a metric with its arguments."""
    return MetricConfig(class_name=name, args=arguments)
