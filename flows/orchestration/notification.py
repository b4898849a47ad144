"""Notifications through Prefect notification blocks, whose addresses lie on the Prefect server."""

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
    """Send a notification through a block.

    Args:
        name: the block, as `TYPE/NAME`.
        title: subject of the notification.
        text: body of the notification.

    Raises:
        ValueError: the block does not exist, or is not a notification block.
    """
    from prefect.blocks.abstract import NotificationBlock
    from prefect.blocks.core import Block
    from prefect.utilities.asyncutils import run_coro_as_sync

    block = Block.load(name)
    if not isinstance(block, NotificationBlock):
        raise ValueError(f"the Prefect block {name} is not a notification block")
    sending = block.notify(body=text, subject=title)
    if inspect.isawaitable(sending):  # blocks can be synchronous or asynchronous
        run_coro_as_sync(sending)


def knows_block(name: str, home: Path) -> bool | None:
    """Return True if the Prefect server has this notification block; None if no server is running.

    Args:
        name: the block, as `TYPE/NAME`.
        home: home whose server is asked if PREFECT_API_URL is not configured.
    """
    own = server_status(home) if configured_api_url() is None else None
    if own is None and configured_api_url() is None:
        return None
    import httpx
    from prefect.client.orchestration import get_client
    from prefect.exceptions import ObjectNotFound
    from prefect.settings import PREFECT_API_REQUEST_TIMEOUT, temporary_settings

    kind, _, block_name = name.partition("/")
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
            document = client.read_block_document_by_name(block_name, kind, include_secrets=False)
        except ObjectNotFound:
            return False
        except httpx.HTTPError:
            return None
    return document.block_schema is not None and "notify" in document.block_schema.capabilities
