"""How many calls may be under way: halved when the server complains, grown slowly while it does not."""


class AdaptiveConcurrency:
    """Additive increase, multiplicative decrease, between 1 and ``most``; pure state.

    ``round`` numbers the times between two halvings. A call remembers the round in which it
    started: of all calls that were under way together only the first refused one halves.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._successes = 0
        self.limit = most
        self.round = 0

    def succeeded(self) -> None:
        """Count an answer; as many of them as may be under way make room for one more."""
        self._successes += 1
        if self._successes >= self.limit:
            self._successes = 0
            self.limit = min(self._most, self.limit + 1)

    def refused(self, round_started: int) -> bool:
        """Count a refusal (HTTP 429) of a call that started in that round; say whether it halved."""
        if round_started != self.round:
            return False
        self.round += 1
        self._successes = 0
        halved = max(1, self.limit // 2)
        changed = halved != self.limit
        self.limit = halved
        return changed
