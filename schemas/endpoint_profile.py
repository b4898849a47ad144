"""Profile of an endpoint: which requests it accepts, and where its answers contain thoughts."""

from typing import Literal

from schemas.base import Frozen

TokenLimitName = Literal["max_tokens", "max_completion_tokens"]
MessageForm = Literal["native", "merged", "auto"]


class EndpointProfile(Frozen):
    """Form of one model's requests.

    Parley starts with the plain protocol, or with the profile that the user names, and learns the
    rest from the endpoint's refusals.
    """

    refused: tuple[str, ...] = ()
    """Parameters that the endpoint refused, sorted. Parley does not send them."""
    token_limit_name: TokenLimitName = "max_tokens"
    takes_schema: bool = True
    """True if the endpoint accepts the JSON schema of an answer."""
    takes_tools: bool = True
    """True if the endpoint accepts tools in the protocol's own fields. If False, the messages
    describe the tools."""
    messages: MessageForm = "auto"
    """`merged`: Parley joins the system text to the first user message, joins consecutive messages
    of one role and leaves out empty answers. `native`: the messages stay as the benchmark writes
    them. `auto`: native until the endpoint refuses such messages."""
    reasoning_fields: tuple[str, ...] = ("reasoning_content", "reasoning")
    """Fields of a message that may hold the model's thoughts. The first one with text counts."""
    reasoning_tags: str = "auto"
    """Tags around thoughts in an answer's text, used if the user names none (see
    `Sampling.reasoning_tags`)."""
    thoughts: tuple[str, ...] = ()
    """Places where thoughts were found, sorted: names of fields, `content` for a list of parts,
    `tags` for tags in the text."""

    def without(self, parameter: str) -> "EndpointProfile":
        """Return the profile with one more refused parameter."""
        return self.model_copy(update={"refused": tuple(sorted({*self.refused, parameter}))})

    def thinking(self, *places: str) -> "EndpointProfile":
        """Return a copy of the profile with more response fields that contain reasoning text."""
        return self.model_copy(
            update={"thoughts": tuple(sorted({*self.thoughts, *filter(None, places)}))}
        )

    def joined(self, other: "EndpointProfile") -> "EndpointProfile":
        """Merge two profiles of one endpoint, which two processes refined from the same profile."""
        update: dict[str, object] = {
            "refused": tuple(sorted({*self.refused, *other.refused})),
            "takes_schema": self.takes_schema and other.takes_schema,
            "takes_tools": self.takes_tools and other.takes_tools,
        }
        if other.token_limit_name != "max_tokens":
            update["token_limit_name"] = other.token_limit_name
        if other.messages == "merged":
            update["messages"] = other.messages
        return self.model_copy(update=update).thinking(*other.thoughts)

    @property
    def adaptations(self) -> tuple[str, ...]:
        """Differences that the profile makes to requests, as the tables show them."""
        without = tuple(f"without {name}" for name in self.refused)
        return without + (("merged messages",) if self.messages == "merged" else ())
