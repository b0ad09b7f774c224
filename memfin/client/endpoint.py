"""Model endpoints: base URL, and name of the environment variable with the key."""

import base64
import os
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Final, Literal, Self

from yarl import URL

from memfin.errors import UsageError
from memfin.secrets import MASK, Scrubber

Role = Literal["judge", "agent", "client"]

COMMON_URL: Final = "OPENAI_BASE_URL"
COMMON_KEY: Final = "OPENAI_API_KEY"

_NOT_THERE: Final = frozenset({404, 405})
_VERSION: Final = re.compile(r"/(?:v\d+\w*|openai)(?:/|\Z)")


class Endpoint:
    """An OpenAI-compatible service: its base URL, such as ``http://127.0.0.1:8000/v1``, and its key.

    Only the name of the variable with the key is kept; the value is read when a request is made.
    Credentials in the URL, ``user:password@`` or a query, are sent but never shown: `base_url` and
    the representation hold the masked form. ``user:password`` goes out as basic authentication and
    then takes the place of the key.

    Raises:
        UsageError: the URL is not an HTTP URL.
    """

    def __init__(
        self,
        base_url: str,
        key_env: str | None = None,
        *,
        url_env: str | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.key_env = key_env
        self.url_env = url_env
        self._environ = os.environ if environ is None else environ
        url = parse_url(
            base_url,
            f"{url_env or 'the base URL'} is not an HTTP URL; it should look like http://127.0.0.1:8000/v1",
        )
        self._user, self._password = url.user, url.password
        self._url = url.with_user(None).with_fragment(None)
        self._scrubber: tuple[str, Scrubber] | None = None

    @classmethod
    def from_environment(cls, role: Role, environ: Mapping[str, str] | None = None) -> Self:
        """Return the endpoint of the judge, the agent or the model of simulated clients.

        The base URL is that of ``MEMFIN_JUDGE_BASE_URL``, ``MEMFIN_AGENT_BASE_URL`` or
        ``MEMFIN_CLIENT_BASE_URL``, else of ``OPENAI_BASE_URL``; the key that of the variable of the role
        that ends in ``_API_KEY``, else of ``OPENAI_API_KEY``, and none where none is set: a server of
        one's own needs none.

        Raises:
            UsageError: no base URL is set, it is not an HTTP URL, it has a user although there is a key,
                or no header can carry the key.
        """
        variables = os.environ if environ is None else environ
        names = (f"MEMFIN_{role.upper()}_BASE_URL", COMMON_URL)
        url_env = next((name for name in names if variables.get(name, "").strip()), None)
        if url_env is None:
            raise UsageError(
                f"no {role} endpoint: set {names[0]} (or {COMMON_URL}) to the base URL of an "
                "OpenAI-compatible server, such as http://127.0.0.1:8000/v1"
            )
        keys = (f"MEMFIN_{role.upper()}_API_KEY", COMMON_KEY)
        key_env = next((name for name in keys if variables.get(name, "").strip()), None)
        endpoint = cls(variables[url_env].strip(), key_env, url_env=url_env, environ=variables)
        if endpoint.has_user and key_env is not None:
            raise UsageError(
                f"{url_env} has a user or password and {key_env} a key; a request can carry only one of "
                "them: take the user out of the URL, or unset the key"
            )
        endpoint.headers()  # fails now for an unusable key, not at every request
        return endpoint

    @property
    def has_user(self) -> bool:
        """True if the URL has a user or a password, which replace the key."""
        return self._user is not None or self._password is not None

    @cached_property
    def base_url(self) -> str:
        """The base URL for display: without user and password, query values masked."""
        shown = str(self._url.with_query(None))
        names = "&".join(f"{name}={MASK}" for name in self._url.query)
        return f"{shown}?{names}" if names else shown

    def url(self, path: str) -> URL:
        """Return the URL of a request, with the query of the base URL. Secret."""
        joined = self._url.path.rstrip("/") + "/" + path.lstrip("/")
        return self._url.with_path(joined, keep_query=True)

    def headers(self) -> dict[str, str]:
        """Return the headers of a request, with the current key. Secret.

        Raises:
            UsageError: the key holds characters that no header can.
        """
        if self.has_user:
            pair = f"{self._user or ''}:{self._password or ''}".encode()
            return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
        key = self._key()
        if not key:
            return {}
        if not (key.isascii() and key.isprintable()):
            raise UsageError(
                f"the key in {self.key_env} contains a character that is not allowed in an HTTP header"
            )
        return {"Authorization": f"Bearer {key}"}

    def hint(self, status: int) -> str:
        """Return a hint at a wrong base URL for a status, or an empty string."""
        if status not in _NOT_THERE:
            return ""
        path = self._url.path.rstrip("/")
        if path.endswith("/completions"):
            return "; the base URL should end before /chat/completions"
        return "" if _VERSION.search(path) else "; the base URL of most servers ends in /v1"

    def scrubber(self) -> Scrubber:
        """Return a function that masks this endpoint's secrets."""
        key = self._key()
        if self._scrubber is None or self._scrubber[0] != key:
            user, password = self._user or "", self._password or ""
            pair = f"{user}:{password}" if user or password else ""
            self._scrubber = key, Scrubber([key, user, password, pair, *self._url.query.values()])
        return self._scrubber[1]

    def _key(self) -> str:
        return self._environ.get(self.key_env, "").strip() if self.key_env else ""

    def __repr__(self) -> str:
        return f"Endpoint({self.base_url!r}, key_env={self.key_env!r})"


def tls_hint(problem: OSError) -> str:
    """Return a hint for a failed ``https`` connection to a server that speaks ``http``."""
    return "; does the server speak http instead of https?" if "WRONG_VERSION_NUMBER" in str(problem) else ""


def parse_url(text: str, error: str) -> URL:
    """Parse an HTTP URL; raise `UsageError` with this text, which omits the URL: it may hold a password."""
    try:
        url = URL(text)
        usable = url.scheme in {"http", "https"} and bool(url.host) and url.port != 0
    except ValueError:
        usable, url = False, URL()
    if not usable:
        raise UsageError(error)
    return url
