"""Adaptation of an endpoint's profile after a rejection, so that the next request is accepted."""

from schemas.endpoint_profile import EndpointProfile
from tasks.language.endpoints.faults import Fault


def adapt(profile: EndpointProfile, fault: Fault) -> EndpointProfile | None:
    """Return the profile that a rejection suggests, or None if no other form can help."""
    match fault.kind:
        case "token_limit_name":
            return profile.model_copy(update={"token_limit_name": "max_completion_tokens"})
        case "answer_schema":
            return profile.model_copy(update={"takes_schema": False})
        case "no_tools":
            return profile.model_copy(update={"takes_tools": False})
        case "parameter":
            return profile.without(fault.parameter)
        case "merged_messages" if profile.messages != "native":
            return profile.model_copy(update={"messages": "merged"})
        case _:
            return None
