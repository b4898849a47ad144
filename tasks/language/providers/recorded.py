"""Recorded answers: `recorded:FILE`."""

from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from schemas.errors import UsageError
from schemas.run import ModelEndpoint, ModelIdentity
from tasks.language.access import ModelAccess
from tasks.language.providers.contract import ModelProvider, OpenSettings, SpecSettings
from tasks.language.recorded_model import RecordedModel, load_recording, recording_name

if TYPE_CHECKING:
    from tasks.language.chat_model import ChatModel

NAME = "recorded"


def read(rest: str, settings: SpecSettings) -> ModelAccess:
    """Return the recording that a spec names, as a model."""
    settings.refuse_key()
    path = Path(rest).expanduser()
    recording = load_recording(path)
    identity = ModelIdentity(
        provider=NAME,
        name=settings.name or recording_name(path),
        revision=settings.revision or "",
        weights_digest=recording.digest,
    )
    return ModelAccess(identity, ModelEndpoint(path=str(path.absolute())))


def open_recording(access: ModelAccess, settings: OpenSettings) -> "ChatModel":
    """Open a recording after a check that its answers are unchanged."""
    identity, path = access.identity, Path(access.endpoint.path or access.identity.name)
    recording = load_recording(path)
    if identity.weights_digest not in ("", recording.digest):
        raise UsageError(
            f"recording {path}: its answers changed since the run began (digest"
            f" {recording.digest}, the run's is {identity.weights_digest}). Restore the file and"
            " repeat the command, or start a run on the new file"
        )
    return RecordedModel(identity, recording)


PROVIDER = ModelProvider(
    forms=("recorded:FILE",),
    read=read,
    open=open_recording,
    knows_answers=True,
    shown_name=lambda rest: recording_name(PurePath(rest)),
    located=lambda rest, folder: str(folder / rest),
)
