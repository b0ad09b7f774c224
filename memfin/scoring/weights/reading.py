"""One scan of a reply for the whole vocabulary of constraints.

A checker hands over a table that keeps only the roles its constraints can use (``words``), so that a word
without meaning for them costs one list look-up. Numbers and weights are read when a rule asks for them.
"""

from bisect import bisect_left
from functools import cached_property
from itertools import pairwise
from operator import attrgetter
from typing import Final, NamedTuple

from memfin.scoring.constraints.words import Table, bounded, scanner
from memfin.scoring.numbers.quantities import Quantity, shares_at
from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis
from memfin.scoring.text.tries import few
from memfin.scoring.weights.allocations import weights
from memfin.scoring.weights.amounts import bare_shares, divided, out_of, portions, spent, tabled, taken
from memfin.scoring.weights.candidates import may_weigh, without_rates
from memfin.scoring.weights.held_amounts import held_and_added
from memfin.scoring.weights.proportions import may_stand
from memfin.scoring.weights.ratios import STOCK_BOND, TRIPLE_SIGN, dashed
from memfin.scoring.weights.roles import heads_weights
from memfin.scoring.weights.weight import Label, Weight

_WRAPPERS: Final = (
    "etf",
    "etfs",
    "指数基金",
    "tracker",
    "trackers",
    "index fund",
    "index funds",
    "index tracker",
)
_NO_LABEL: Final = Label("", -1, -1)
_MOST: Final = 64
"""Shares of one sentence that are read."""
_SAME: Final = 0.006
_REACH: Final = 24
_WIDE_REACH: Final = 60
"""Table rows, list items and English keep a share further from its label than Chinese prose does."""


SIGN_WIDTH: Final = 18
"""A share begins and ends at most this far from its sign."""


_SHARE_OF: Final = late(
    r"(?:%|percent|half|third|thirds|quarter|quarters|fifth|tenth|all|most|much|rest|"
    r"some) of (?:all )?(?:your |the |my )?$"
)


def _is_all_money(norm: str, label: Label) -> bool:
    """Say whether savings are all the money, of which a share goes somewhere: a quarter of your savings."""
    return (
        norm.startswith("savings", label.start)
        and not norm.startswith(" account", label.end)
        and _SHARE_OF.search(norm, max(0, label.start - 24), label.start) is not None
    )


class Hit(NamedTuple):
    """A word of a term at half-open offsets of ``Analysis.norm``; ``act`` when it is a way of dealing."""

    term: str
    start: int
    end: int
    act: bool


_MOVED: Final = late(
    r"\b(?:rais|lift|increas|bring|tak|push|mov|bump|go|step|build|top|grow|ramp|(?P<cut>cut|trim|"
    r"reduc|lower|"
    r"draw|run|shrink))\w*\b[^.;!?\n]{0,40}\bfrom $"
)
_ON: Final = late(r"(?:to|-|–)\s?")
_HEAD: Final = 60


def _reached(norm: str, share: Quantity) -> Quantity:
    """Return the share that a raise or a cut ends at: of from 45% to 58%, the 58%."""
    moved = share.low < share.high and _MOVED.search(norm, max(0, share.start - _HEAD), share.start)
    on = _ON.search(norm, share.start, share.end) if moved else None
    if not moved or on is None:
        return share
    end = share.low if moved["cut"] else share.high
    return share._replace(low=end, high=end, start=on.end())


class Reading:
    """What one scan of a reply found."""

    def __init__(self, analysis: Analysis, table: Table) -> None:
        """Scan the reply; ``table`` gives the role of every pattern of `scanner`."""
        self.analysis: Final = analysis
        self.hits: Final[list[Hit]] = []
        self.frames: Final[dict[tuple[str, int], list[tuple[int, int, int]]]] = {}
        self._labelled: Final[list[tuple[str, int, int]]] = []
        self._labels: list[Label] | None = None
        self.all_in: Final[list[tuple[int, int]]] = []
        self.holding: Final[list[tuple[int, int]]] = []
        self._signs: Final[list[int]] = []
        self._shares: list[Quantity] | None = None
        self._candidates: list[Quantity] | None = None
        self._weights: list[Weight] | None = None
        norm = analysis.norm
        for index, start, end in scanner().automaton.find_matches_as_indexes(norm):
            role = table[index]
            if role is None or (role[-1] and not bounded(norm, start, end)):
                continue
            terms, acts, frames, asset_class, sign, _ = role
            if asset_class is not None:
                self._labelled.append((asset_class, start, end))
            if sign == "share":
                self._signs.append(start)
            elif sign == "all_in":
                self.all_in.append((start, end))
            elif sign == "hold":
                self.holding.append((start, end))
            for name in terms:
                self.hits.append(Hit(name, start, end, act=False))
            for name in acts:
                self.hits.append(Hit(name, start, end, act=True))
            for term, number, part in frames:
                self.frames.setdefault((term, number), []).append((part, start, end))

    @property
    def labels(self) -> list[Label]:
        """The words of asset classes."""
        if self._labels is None:
            self._labels = [Label(*found) for found in self._labelled]
            norm = self.analysis.norm
            if any(map(norm.__contains__, _WRAPPERS)):
                # 地方债etf is what stands in front: the word of the wrapper says nothing of its own.
                self._labels = [
                    label
                    for last, label in pairwise([_NO_LABEL, *self._labels])
                    if last.end < 0
                    or norm[last.end : label.start].strip(" ")
                    or norm[label.start : label.end] not in _WRAPPERS
                ]
            if "savings" in norm:
                self._labels = [label for label in self._labels if not _is_all_money(norm, label)]
        return self._labels

    @property
    def shares(self) -> list[Quantity]:
        """The shares (fractions) that the reply names."""
        if self._shares is None:
            found = shares_at(self.analysis.norm, self._signs) if self._signs else []
            self._shares = self._few(found)
            if "from " in self.analysis.norm:
                self._shares = [_reached(self.analysis.norm, share) for share in self._shares]
        return self._shares

    @cached_property
    def amounts(self) -> list[Quantity]:
        """The parts of a sum of money that the reply divides, as shares of it."""
        norm = self.analysis.norm
        parts = (
            held_and_added(norm)
            or divided(norm)
            or spent(norm)
            or tabled(norm)
            or taken(norm)
            or out_of(norm)
            or portions(norm)
        )
        found = [*parts, *bare_shares(norm)]
        return [part for part in self._few(found) if not self._repeats(part)] if found else found

    def _few(self, found: list[Quantity]) -> list[Quantity]:
        """Leave out what one sentence names beyond any plan: a reply that repeats itself without end."""
        if len(found) <= _MOST:
            return found
        return list(few(self.analysis, found, attrgetter("start"), _MOST))

    def _repeats(self, part: Quantity) -> bool:
        """Say whether an amount only repeats a share of its row or sentence: 短债 | 30% | 30万."""
        low, high = self.analysis.sentence_span(part.start)
        norm = self.analysis.norm
        tabled = self.analysis.line_kind(part.start) == "row"
        return any(
            low <= share.start < high
            and not norm.startswith(" other", max(0, share.start - 7))
            and (abs(share.low - part.low) < _SAME or (tabled and heads_weights(self.analysis, share)))
            for share in self.shares
        )

    @property
    def weights(self) -> list[Weight]:
        """The weights among the shares."""
        if self._weights is None:
            shares = sorted((*self.shares, *self.amounts), key=lambda share: share.start)
            told = weights(self.analysis, shares, self.labels, frozenset(self.candidates))
            self._weights = [*few(self.analysis, told, attrgetter("start"))]
        return self._weights

    @property
    def candidates(self) -> list[Quantity]:
        """The shares that may be weights, judged by the words right beside them."""
        if self._candidates is None:
            norm = self.analysis.norm
            found = [share for share in (*self.shares, *self.amounts) if may_weigh(norm, share)]
            kept = set(without_rates(self.analysis, found))
            self._candidates = [
                share for share in found if share in kept or heads_weights(self.analysis, share)
            ]
        return self._candidates

    def sign_near(self, low: int, high: int) -> bool:
        """Say whether a word of a share, or an amount of a divided sum, may stand in ``norm[low:high]``."""
        first = bisect_left(self._signs, low)
        return (first < len(self._signs) and self._signs[first] < high) or any(
            low <= amount.start < high for amount in self.amounts
        )

    def sign_beside(self, asset_class: str) -> bool:
        """Say whether `beside` can find anything for the class."""
        if not self._signs and not self.amounts:
            return False
        return any(
            self.sign_near(start - _WIDE_REACH - SIGN_WIDTH, end + _WIDE_REACH + SIGN_WIDTH)
            for name, start, end in self._labelled
            if name == asset_class
        )

    def beside(self, asset_class: str) -> list[Quantity]:
        """Return the candidates that may belong to a word of the class: near, in the same sentence."""
        found: list[Quantity] = []
        if not self.candidates:
            return found
        starts = [label.start for label in self.labels]
        for share in self.candidates:
            low, high = self.analysis.sentence_span(share.start)
            wide = (
                self.analysis.norm[low : low + 2].isascii() or self.analysis.line_kind(share.start) != "text"
            )
            reach = _WIDE_REACH if wide else _REACH
            first = bisect_left(starts, max(low, share.start - reach))
            last = bisect_left(starts, min(high, share.end + reach))
            if any(label.asset_class == asset_class for label in self.labels[first:last]):
                found.append(share)
        return found

    def names(self, asset_class: str) -> bool:
        """Say whether the reply has a word of the class."""
        return any(label[0] == asset_class for label in self._labelled)

    @cached_property
    def has_ratio(self) -> bool:
        """Say whether a stock-bond ratio (股六债四, 60/40) may stand in the reply."""
        norm = self.analysis.norm
        return (
            "0/" in norm
            or dashed(norm)
            or TRIPLE_SIGN.search(norm) is not None
            or STOCK_BOND.search(norm) is not None
            or may_stand(norm)
        )
