"""A provider of models as another distribution would add it: one file.

Its models say the task again, in a Python comment.
"""

from schemas.errors import ConfigError
from schemas.run import ModelEndpoint, ModelIdentity
from tasks.language.access import ModelAccess
from tasks.language.chat_model import ChatRequest, Completion
from tasks.language.providers.contract import ModelProvider, OpenSettings, SpecSettings


class Parrot:
    """A model of the provider."""

    def __init__(self, identity: ModelIdentity) -> None:
        self.identity = identity

    async def complete(self, request: ChatRequest) -> Completion:
        lines = request.messages[-1].content.splitlines()
        said = "\n".join(f"# {self.identity.name}: {line}" for line in lines)
        return Completion(
            f"```python\n{said}\n```",
            "stop",
            input_tokens=3,
            output_tokens=len(lines),
            latency_s=0.0,
        )

    async def aclose(self) -> None:
        pass


def read(rest: str, given: SpecSettings) -> ModelAccess:
    if rest not in ("grey", "green"):
        raise ConfigError(f"model {given.text!r}: write parrot:grey or parrot:green")
    identity = ModelIdentity(provider="parrot", name=rest, revision=given.revision or "1")
    return ModelAccess(identity, ModelEndpoint())


def open_parrot(access: ModelAccess, settings: OpenSettings) -> Parrot:
    return Parrot(access.identity)


PROVIDER = ModelProvider(forms=("parrot:grey", "parrot:green"), read=read, open=open_parrot)
