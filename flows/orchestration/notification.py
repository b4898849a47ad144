"""Sends a message by a notification block of Prefect, which keeps its address on the server."""

import inspect
from contextlib import nullcontext
from pathlib import Path

from flows.orchestration.server import server_status
from flows.orchestration.settings import (
    HEALTH_LIMIT_S,
    changed_environment,
    client_settings,
    configured_api_url,
)


def send_by_block(name: str, title: str, text: str) -> None:
    """Send it.

    Args:
        name: the block, as `TYPE/NAME`.

    Raises:
        ValueError: there is no such block, or it sends nothing.
    """
    from prefect.blocks.abstract import NotificationBlock
    from prefect.blocks.core import Block
    from prefect.utilities.asyncutils import run_coro_as_sync

    block = Block.load(name)
    if not isinstance(block, NotificationBlock):
        raise ValueError(f"block {name} is no notification block")
    sending = block.notify(body=text, subject=title)
    if inspect.isawaitable(sending):  # a block may offer either
        run_coro_as_sync(sending)


def knows_block(name: str, home: Path) -> bool | None:
    """Whether a Prefect server has this notification block; None where no server runs that would say.

    Args:
        name: the block, as `TYPE/NAME`.
        home: the home whose own server is asked where none is configured.
    """
    own = server_status(home) if configured_api_url() is None else None
    if own is None and configured_api_url() is None:
        return None
    import httpx
    from prefect.client.orchestration import get_client
    from prefect.exceptions import ObjectNotFound
    from prefect.settings import PREFECT_API_REQUEST_TIMEOUT, temporary_settings

    kind, _, called = name.partition("/")
    using = (
        changed_environment(client_settings(home.resolve() / "prefect", own.api_url))
        if own
        else nullcontext()
    )
    with (
        using,
        temporary_settings({PREFECT_API_REQUEST_TIMEOUT: HEALTH_LIMIT_S}),
        get_client(sync_client=True) as client,
    ):
        try:
            found = client.read_block_document_by_name(called, kind, include_secrets=False)
        except ObjectNotFound:
            return False
        except httpx.HTTPError:
            return None
    return found.block_schema is not None and "notify" in found.block_schema.capabilities
