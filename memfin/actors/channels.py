"""Sending and receiving without a trip through the event loop where none is needed.

A memory stream's own ``send`` and ``receive`` give way to every other task each time, which costs
more than most messages take to handle. Here a full or an empty channel makes the caller wait, and
work at a stretch is cut into slices, so that no other task waits long.
"""

import time
from collections.abc import AsyncIterator
from typing import Final, TypeVar

import anyio
import anyio.lowlevel
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

M = TypeVar("M")

SLICE: Final = 0.0005
"""Seconds an actor works on waiting messages before other tasks get their turn: two or three turns' worth."""


async def send(channel: MemoryObjectSendStream[M], message: M) -> None:
    """Put a message into the channel; wait only while the channel is full.

    Raises:
        BrokenResourceError: the receivers have gone; when they went because everything is cancelled,
            the cancellation comes first.
    """
    try:
        try:
            channel.send_nowait(message)
        except anyio.WouldBlock:
            await channel.send(message)
    except anyio.BrokenResourceError:
        for _ in range(2):  # a scope's cancellation comes round once in each round of the loop
            await anyio.lowlevel.checkpoint()
        raise


async def messages(channel: MemoryObjectReceiveStream[M]) -> AsyncIterator[M]:
    """Yield the messages of a channel until it ends; give way at least every `SLICE` seconds."""
    resumed = time.perf_counter()
    while True:
        try:
            message = channel.receive_nowait()
        except anyio.EndOfStream:
            return
        except anyio.WouldBlock:
            try:
                message = await channel.receive()
            except anyio.EndOfStream:
                return
            resumed = time.perf_counter()
        yield message
        if time.perf_counter() - resumed > SLICE:
            await anyio.lowlevel.checkpoint()
            resumed = time.perf_counter()


def waiting(channel: MemoryObjectReceiveStream[M], most: int) -> list[M]:
    """Return the messages that wait in the channel now, at most so many."""
    found: list[M] = []
    while len(found) < most:
        try:
            found.append(channel.receive_nowait())
        except (anyio.WouldBlock, anyio.EndOfStream):
            break
    return found
