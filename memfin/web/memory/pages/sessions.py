"""Signed-in sessions of the pages: their user, expiry, and form secret."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from memfin.web.pages import fresh_secret

IDLE: Final = timedelta(minutes=30)
MAX_AGE: Final = timedelta(hours=8)
MAX_SESSIONS: Final = 10_000
"""Maximum number of sessions; the oldest end when there are more."""
MAX_PER_PERSON: Final = 20
"""Maximum number of sessions per person, so that nobody ends those of others."""


@dataclass(slots=True)
class Session:
    """One person signed in.

    Attributes:
        user_id: the user.
        token_id: the access token that was shown; the session ends with it.
        form_secret: the secret in every form of this session.
    """

    user_id: str
    token_id: str
    begun: datetime
    seen: datetime
    form_secret: str = field(default_factory=fresh_secret)


class Sessions:
    """All sessions, in memory: they end with the process. The tokens themselves are not kept."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._sessions: dict[str, Session] = {}

    def begin(self, user_id: str, token_id: str) -> str:
        """Begin a session and return the secret for its cookie."""
        now = self._clock()
        for key in [key for key, session in self._sessions.items() if self._is_over(session, now)]:
            del self._sessions[key]
        own = [key for key, session in self._sessions.items() if session.user_id == user_id]
        for key in own[: max(0, len(own) + 1 - MAX_PER_PERSON)]:
            del self._sessions[key]
        while len(self._sessions) >= MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        key = fresh_secret()
        self._sessions[key] = Session(user_id, token_id, now, now)
        return key

    def find(self, key: str) -> Session | None:
        """Return the session of a cookie, None when there is none or its time is over."""
        session = self._sessions.get(key)
        if session is None:
            return None
        now = self._clock()
        if self._is_over(session, now):
            del self._sessions[key]
            return None
        session.seen = now
        return session

    def end(self, key: str) -> None:
        """End a session."""
        self._sessions.pop(key, None)

    @staticmethod
    def _is_over(session: Session, now: datetime) -> bool:
        return now - session.seen >= IDLE or now - session.begun >= MAX_AGE
