"""Controls, whose scores are known in advance.

`control:gold` gives reference answers, `control:empty` empty ones.
"""

from typing import TYPE_CHECKING

from schemas.errors import ConfigError, UnknownName
from schemas.run import ModelEndpoint, ModelIdentity
from tasks.language.access import ModelAccess
from tasks.language.providers.contract import ModelProvider, OpenSettings, SpecSettings

if TYPE_CHECKING:
    from tasks.language.chat_model import ChatModel

NAME = "control"
FORMS = ("control:gold", "control:empty")


def read(rest: str, settings: SpecSettings) -> ModelAccess:
    """Return the control that a model spec names."""
    settings.refuse_name()
    if rest not in ("gold", "empty"):
        raise UnknownName("control", rest, FORMS)
    settings.refuse_key()
    settings.refuse_other_revision("1")
    return ModelAccess(ModelIdentity(provider=NAME, name=rest, revision="1"), ModelEndpoint())


def open_control(access: ModelAccess, settings: OpenSettings) -> "ChatModel":
    """Open a control as a model."""
    from tasks.language.recorded_model import ControlModel

    identity = access.identity
    if identity.name == "empty":
        return ControlModel(identity, lambda problem_id, turn: "")
    if settings.gold is None:
        raise ConfigError(f"model {identity.label}: this benchmark has no reference answers")
    return ControlModel(identity, settings.gold)


PROVIDER = ModelProvider(
    forms=FORMS, read=read, open=open_control, knows_answers=True, is_control=True
)
