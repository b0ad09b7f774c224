"""What the adapter tests share: a dialogue replayed with nothing but loopback in reach."""

import socket
from collections.abc import Callable
from typing import Any

import pytest

from memfin.agents import replay as replay_module
from memfin.agents.replay import Replay, ReplayOptions, replay_dialog
from memfin.dataset import normalize_dialog
from tests.support import dialog

QUESTIONS = [f"d1：我是稳健型，不使用杠杆，第{number}个问题怎么办？" for number in range(1, 9)]
"""What the user says in the turns of the dialogue, from the first on."""

REFERENCES = [f"第{number}个回答：市场存在不确定性，仅供参考。" for number in range(1, 9)]
"""What the reference replies say."""


def stay_on_loopback(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let no socket leave the machine; return the list that attempts are put on."""
    attempts: list[str] = []
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def guarded(method: Callable[[socket.socket, Any], Any]) -> Callable[[socket.socket, Any], Any]:
        def checked(self: socket.socket, address: Any) -> Any:
            if isinstance(address, tuple) and address[0] not in ("127.0.0.1", "::1"):
                attempts.append(str(address))
                raise ConnectionRefusedError(f"a test asked for {address}")
            return method(self, address)

        return checked

    def no_names(host: Any, *args: Any, **kwargs: Any) -> Any:
        if host in ("127.0.0.1", "::1", "localhost", None):
            return lookup(host, *args, **kwargs)
        attempts.append(str(host))
        raise socket.gaierror(f"a test looked up {host}")

    lookup = socket.getaddrinfo
    monkeypatch.setattr(socket.socket, "connect", guarded(connect))
    monkeypatch.setattr(socket.socket, "connect_ex", guarded(connect_ex))
    monkeypatch.setattr(socket, "getaddrinfo", no_names)
    return attempts


async def replayed(
    factory: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, turns: int = 3, **options: Any
) -> Replay:
    """Replay a dialogue of that many turns, with retries that do not wait."""
    monkeypatch.setattr(replay_module, "FIRST_BACKOFF", 0.0)
    settings = ReplayOptions(run_id="r", trace_version="v1.1", turn_timeout=60.0).replace(**options)
    return await replay_dialog(normalize_dialog(dialog("d1", turns)), 1, factory, settings)
