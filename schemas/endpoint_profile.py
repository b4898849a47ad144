"""Profile of an endpoint: the requests that it takes for one model, and where it puts a model's thoughts."""

from typing import Literal

from schemas.base import Frozen

TokenLimitName = Literal["max_tokens", "max_completion_tokens"]
MessageForm = Literal["native", "merged", "auto"]


class EndpointProfile(Frozen):
    """Form of one model's requests. Parley learns it from the endpoint's refusals; a named profile begins with more."""

    refused: tuple[str, ...] = ()
    """Parameters that the endpoint refused, sorted. They are not sent."""
    token_limit_name: TokenLimitName = "max_tokens"
    takes_schema: bool = True
    """Whether it takes the JSON schema of an answer."""
    takes_tools: bool = True
    """Whether it takes tools by the protocol's own fields. Without them they are described in the messages."""
    messages: MessageForm = "auto"
    """`merged`: the system text is joined to the first user message, messages of one role in a row are joined, and empty answers
    are left out. `native`: as the benchmark writes them. `auto`: native until the endpoint refuses that."""
    reasoning_fields: tuple[str, ...] = ("reasoning_content", "reasoning")
    """Fields of a message that may hold the model's thoughts. The first that holds text counts."""
    reasoning_tags: str = "auto"
    """Marks of thoughts in an answer's text, where the user names none: see `Sampling.reasoning_tags`."""
    thoughts: tuple[str, ...] = ()
    """Places where thoughts were, sorted: names of fields, `content` for a list of parts, `tags` for marks in the text."""

    def without(self, parameter: str) -> "EndpointProfile":
        """Return the profile with one more refused parameter."""
        return self.model_copy(update={"refused": tuple(sorted({*self.refused, parameter}))})

    def thinking(self, *places: str) -> "EndpointProfile":
        """Return the profile with further places of thoughts."""
        return self.model_copy(
            update={"thoughts": tuple(sorted({*self.thoughts, *filter(None, places)}))}
        )

    def joined(self, other: "EndpointProfile") -> "EndpointProfile":
        """Return what two processes learnt of one endpoint that they began to ask with one profile."""
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
        """What requests lack or change because of it, as the tables show it."""
        without = tuple(f"without {name}" for name in self.refused)
        return without + (("merged messages",) if self.messages == "merged" else ())
