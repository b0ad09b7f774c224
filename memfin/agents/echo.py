"""The lower bound: an agent that gives the client's own words back and observes nothing."""

from memfin.agents.protocol import Observer, Session


class EchoAgent:
    """Answers every turn with the user's words; it has no memory, so history is nothing to it."""

    def __init__(self, session: Session, observer: Observer) -> None:
        del session, observer  # the signature is the factory's; an echo has no use for either

    async def reply(self, user_text: str) -> str:
        """Return `user_text` unchanged."""
        return user_text

    async def commit(self, assistant_text: str) -> None:
        """Accept a reply for the history, which an echo does not keep."""

    async def close(self) -> None:
        """End the session."""

    def snapshot(self) -> bytes:
        """Return the state between turns: there is none."""
        return b""

    def restore(self, state: bytes) -> None:
        """Go on from a snapshot, which holds nothing."""
