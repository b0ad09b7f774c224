import anyio
import pytest
from anyio.lowlevel import checkpoint

from memfin.actors.channels import messages, send, waiting


async def test_a_full_channel_makes_the_sender_wait() -> None:
    sender, receiver = anyio.create_memory_object_stream[int](1)
    sent: list[int] = []

    async def produce() -> None:
        async with sender:
            for number in range(3):
                await send(sender, number)
                sent.append(number)

    async with anyio.create_task_group() as group, receiver:
        group.start_soon(produce)
        await anyio.wait_all_tasks_blocked()
        assert sent == [0]
        assert [message async for message in messages(receiver)] == [0, 1, 2]


async def test_messages_give_way_to_other_tasks() -> None:
    sender, receiver = anyio.create_memory_object_stream[int](5000)
    for number in range(5000):
        sender.send_nowait(number)
    sender.close()
    turns = 0
    total = 0
    done = False

    async def other() -> None:
        nonlocal turns
        while not done:
            turns += 1
            await checkpoint()

    async with anyio.create_task_group() as group, receiver:
        group.start_soon(other)
        async for message in messages(receiver):
            total += sum(range(message % 100))
        done = True
    assert total > 0
    assert turns > 1


async def test_what_waits_is_taken_up_to_a_bound() -> None:
    sender, receiver = anyio.create_memory_object_stream[int](5)
    with sender, receiver:
        for number in range(5):
            sender.send_nowait(number)
        assert waiting(receiver, 3) == [0, 1, 2]
        assert waiting(receiver, 3) == [3, 4]
        assert waiting(receiver, 3) == []


async def test_a_receiver_that_was_cancelled_away_is_a_cancellation_and_no_error() -> None:
    sender, receiver = anyio.create_memory_object_stream[int](5)
    with anyio.CancelScope() as scope, sender:
        scope.cancel()
        receiver.close()
        await send(sender, 1)
    assert scope.cancelled_caught


async def test_a_receiver_that_has_gone_is_an_error() -> None:
    sender, receiver = anyio.create_memory_object_stream[int](5)
    receiver.close()
    with sender, pytest.raises(anyio.BrokenResourceError):
        await send(sender, 1)
