"""Reliability over repeats: pass^k, the probability that k repeats of a dialogue all pass.

A dialogue passes a repeat when every turn was answered and scored, and none is a severe violation or
contradicts a constraint of the client. Turns without labels neither pass nor fail: only what is found fails.
A simulated client must have been contented, too; a dialogue in which its words did not fit the sheet in any
repeat is left out. A question of a benchmark passes as its score says.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import UNSET

from memfin.contracts.rag import SUMMARY as RAG_SUMMARY
from memfin.contracts.rag import iter_individual_results
from memfin.contracts.reading import iter_jsonl
from memfin.contracts.soak import PassK, Reliability
from memfin.contracts.turn_eval import TurnEvalRow, is_variant
from memfin.metrics.interval import ratio_interval
from memfin.metrics.state import is_failed, is_read


def turn_passes(row: TurnEvalRow) -> bool:
    """Return True if a turn was answered and scored, and nothing that fails its dialogue was found."""
    left = row.client is not UNSET and not row.client.success
    severe = row.pred_compliance_label == "severe_violation" and is_read(row, "compliance")
    contradicts = row.constraint_contradiction and is_read(row, "contradiction")
    return not (is_failed(row) or severe or contradicts or left)


def count_passes(runs: Sequence[Path]) -> dict[str, int]:
    """Return the number of runs that each dialogue, or question, passes, of those that are in all runs."""
    found: dict[str, list[bool]] = {}
    for run in runs:
        for name, passed in _passed(run).items():
            found.setdefault(name, []).append(passed)
    return {name: sum(passed) for name, passed in found.items() if len(passed) == len(runs)}


def _passed(run: Path) -> dict[str, bool]:
    if (run / RAG_SUMMARY).is_file():
        return {one.id: one.passed for one in iter_individual_results(run / RAG_SUMMARY)}
    found: dict[str, bool] = {}
    spoiled: set[str] = set()
    for _, row in iter_jsonl(run / "turn_eval.jsonl", TurnEvalRow):
        if is_variant(row):
            continue
        found[row.dialog_id] = found.get(row.dialog_id, True) and turn_passes(row)
        if row.client is not UNSET and row.client.misspoken:
            spoiled.add(row.dialog_id)
    return {name: passed for name, passed in found.items() if name not in spoiled}


def all_pass(passes: int, repeats: int, k: int) -> float:
    """Return the unbiased estimate that k repeats all pass: the share of the subsets of k that do."""
    return math.comb(passes, k) / math.comb(repeats, k)


def reliability(passes: Mapping[str, int], repeats: int) -> Reliability:
    """Return pass^k for k from 1 to ``repeats``: means over dialogues, with the dialogue as sampling unit."""
    found = []
    for k in range(1, repeats + 1 if passes else 1):
        shares = [all_pass(each, repeats, k) for each in passes.values()]
        interval = ratio_interval(((share, 1.0) for share in shares), graded=True)
        found.append(PassK(k=k, value=math.fsum(shares) / len(shares), ci95=interval))
    return Reliability(repeats=repeats, pass_k=found, passes=dict(sorted(passes.items())))


def spread(items: Sequence[PassK], points: int) -> list[PassK]:
    """Return at most so many items at even distances, the first and the last among them."""
    places = {round(step * (len(items) - 1) / (points - 1)) for step in range(points)}
    return [items[at] for at in sorted(places) if items]
