"""Shards of a run: the part of a dataset's dialogues that one of several runs evaluates."""

import hashlib
import math
import re
from dataclasses import dataclass
from typing import Final, Self

from memfin.errors import UsageError

SHARDS: Final = ".shards"
"""Ending of the name of the directory of a run's shards."""

MAX_SHARDS: Final = 100_000

_FORM: Final = re.compile(r"([0-9]{1,6})/([0-9]{1,6})")
_RESERVED: Final = re.compile(r".*\.(shards|[0-9]+-of-[0-9]+)", re.DOTALL)


def is_reserved(run_id: str) -> bool:
    """Return True for a name whose run directory or progress log would be that of another run's shards."""
    return _RESERVED.fullmatch(run_id) is not None


@dataclass(frozen=True, slots=True)
class Shard:
    """Shard ``index`` of ``count``; the index counts from 0.

    Every line of a dataset is in exactly one of the ``count`` shards, whatever the machine or the process.
    """

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the shard written ``K/N``.

        Raises:
            UsageError: the text has another form, or K is not below N.
        """
        match = _FORM.fullmatch(text)
        if match is None or not int(match[1]) < int(match[2]) <= MAX_SHARDS:
            raise UsageError(f"shard {text!r}: must be K/N with K from 0 to N - 1, such as 0/4")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    @property
    def name(self) -> str:
        """The name of the shard's directory."""
        return f"{self.index}-of-{self.count}"

    def holds(self, dataset_index: int, user_id: str | None = None) -> bool:
        """Return True if a line of the dataset is in the shard; all lines of a user are in the same one.

        ``dataset_index`` is the line's number, from 1.
        """
        if user_id is None:
            return dataset_index % self.count == self.index
        digest = hashlib.blake2b(user_id.encode(errors="surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest) % self.count == self.index

    def lines(self, total: int) -> int:
        """Return the number of lines among the first ``total`` that the shard holds, if none has a user."""
        return math.ceil((total - (self.index or self.count) + 1) / self.count) if total else 0
