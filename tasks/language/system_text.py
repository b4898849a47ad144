"""System text of the user, such as a deployment's prompt, before the benchmark's system text."""

from dataclasses import dataclass, replace
from pathlib import Path

from schemas.dialog import Role
from schemas.errors import ConfigError, UsageError
from schemas.outside.display import plain_line
from schemas.run import ModelIdentity
from tasks.language.chat_model import ChatModel, ChatRequest, Completion, Message

_BETWEEN = "\n\n"


def read_system_text(path: Path) -> str:
    """Return the text of a file, without surrounding white space.

    Raises:
        UsageError: The file cannot be read.
        ConfigError: The file is empty or is not UTF-8.
    """
    try:
        text = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise UsageError(
            f"system prompt {plain_line(str(path))}: {error.strerror or error}. Name a text file"
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(
            f"system prompt {plain_line(str(path))}: the file is not UTF-8. Save it as UTF-8 text"
        ) from None
    if not text:
        raise ConfigError(
            f"system prompt {plain_line(str(path))}: the file is empty. Write the text into it, or"
            " remove the option"
        )
    return text


def with_system_text(request: ChatRequest, text: str) -> ChatRequest:
    """Return the request with the text at the beginning of its system message, or as a new one.

    One message contains both texts, with an empty line between them, since several chat templates
    reject a second system message.
    """
    first, *rest = request.messages
    if first.role is Role.SYSTEM:
        return replace(
            request, messages=(Message(Role.SYSTEM, f"{text}{_BETWEEN}{first.content}"), *rest)
        )
    return replace(request, messages=(Message(Role.SYSTEM, text), first, *rest))


@dataclass(frozen=True)
class PromptedModel:
    """Model whose requests begin with a system text. See `ChatModel`."""

    model: ChatModel
    text: str

    @property
    def identity(self) -> ModelIdentity:
        """Return the identity of the model."""
        return self.model.identity

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer one request. See `ChatModel.complete`."""
        return await self.model.complete(with_system_text(request, self.text))

    async def aclose(self) -> None:
        """Close the model."""
        await self.model.aclose()
