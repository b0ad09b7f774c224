"""Which Host headers the service answers to: a page elsewhere must not reach it under a name of its own."""

import ipaddress
import re
from collections.abc import Iterable
from typing import Any, Final

from aiohttp import web

from memfin.web.memory.problems import Handler, Problem

_HOST: Final = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?\Z")
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})


def is_loopback(host: str) -> bool:
    """Say whether an address to listen on can be reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class HostCheck:
    """Knows the names under which the service may be asked for.

    On loopback these are those of loopback. On another address it is the address itself, or any literal
    address when the service listens on all: a name of somebody else's that resolves to this machine, as
    in DNS rebinding, is none of them. Further names are given by whoever runs the service.
    """

    def __init__(self, bound: str, names: Iterable[str] = ()) -> None:
        """Take the address that is listened on, and further names, with or without brackets, no port."""
        own = f"[{bound}]" if ":" in bound else bound
        self._names = frozenset(name.lower() for name in (own, *names)) | (
            _LOOPBACK if is_loopback(bound) else frozenset()
        )
        self._any_literal = bound in {"0.0.0.0", "::"}  # noqa: S104 - it is only compared

    def allows(self, header: str) -> bool:
        """Say whether a Host header, port or not, names this service."""
        form = _HOST.match(header)
        if form is None:
            return False
        name = form["name"].lower()
        return name in self._names or (self._any_literal and _is_literal(name))

    @property
    def middleware(self) -> Any:
        """Refuse requests that are for another host."""

        @web.middleware
        async def host_check(request: web.Request, handler: Handler) -> web.StreamResponse:
            headers = request.headers.getall("Host", [])
            # a request line with a whole URL has a host of its own
            if len(headers) != 1 or not self.allows(headers[0]) or not self.allows(request.host):
                raise Problem(421, "unknown_host", "the service is not known by this Host")
            return await handler(request)

        return host_check


def _is_literal(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
