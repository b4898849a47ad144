"""Sends a message by a notification block of Prefect, which keeps its address on the server."""

import inspect


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
