"""``memfin rate-server`` as a process."""

import asyncio
import os
import re
import signal
import socket
import sys

import pytest

from memfin.cli.rates import command
from memfin.client.leases import TOKEN_VARIABLE, LeasedRate, RateLimits
from memfin.errors import MemfinError


async def test_the_server_prints_its_address_and_a_token_and_grants_after_its_silence() -> None:
    server = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "memfin", "rate-server", "--agent-rpm", "6000", "--bind", "127.0.0.1:0"),
        env={name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE},
        stdout=asyncio.subprocess.PIPE,
    )
    assert server.stdout is not None
    address = (await server.stdout.readline()).decode().strip()
    found = re.fullmatch(rf"{TOKEN_VARIABLE}=(\S+)", (await server.stdout.readline()).decode().strip())
    assert found is not None
    rate = LeasedRate(address, found[1], "agent", RateLimits(), patience=1.0, warn=print)
    await rate.start(0.0)
    await rate.close()
    server.send_signal(signal.SIGTERM)
    assert await server.wait() == 0


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "there is no limit"),
        (["--judge-rpm", "0"], "judge_rpm: must be more than 0"),
        (["--judge-rpm", "6", "--bind", "8770"], "'8770' is no address"),
        (
            ["--judge-rpm", "6", "--bind", "0.0.0.0:0"],
            "0.0.0.0 is no loopback address",
        ),
        (["--judge-rpm", "6", "--bind", "127.0.0.1:TAKEN"], "cannot listen on 127.0.0.1"),
    ],
)
def test_what_cannot_be_served_is_one_line(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], why: str
) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        arguments = [each.replace("TAKEN", port) for each in arguments]
        with pytest.raises(MemfinError, match=why), command.make_context("rate-server", arguments) as context:
            command.invoke(context)
