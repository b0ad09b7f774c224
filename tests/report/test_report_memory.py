import tracemalloc
from pathlib import Path

import pytest

from memfin.contracts import RecallItem, RecallTrace
from memfin.report import load_report
from memfin.report.dialogs import DialogStats, Facts, GroupedMetrics
from tests.report.report_run_factory import row, trace, turn, write_run


def test_loading_holds_a_small_part_of_the_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # reading a document reserves this many bytes, never touched but counted by tracemalloc
    monkeypatch.setattr("memfin.contracts.reading.MAX_DOCUMENT_BYTES", 100_000)
    recall = RecallTrace(items=[RecallItem(content="记" * 60_000)])
    ids = [f"d{number}" for number in range(120)]
    traces = [trace(dialog_id, [turn(1, recall=recall)]) for dialog_id in ids]
    rows = [row(dialog_id, key_hit_flags=[0], key_hit_sources=[[]]) for dialog_id in ids]
    run_dir = write_run(tmp_path, traces, rows)
    size = (run_dir / "dialog_trace.jsonl").stat().st_size
    assert size > 20_000_000
    del traces, rows
    tracemalloc.start()
    try:
        load_report(run_dir)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < size / 8


def test_the_sums_of_a_group_do_not_grow_with_its_dialogues() -> None:
    grouped, stats = GroupedMetrics(), DialogStats()
    kinds = (Facts("s1", "easy", "zh"), Facts("s2", "easy", "zh"))
    for number in range(200):
        facts = kinds[number % 2]
        stats.facts[f"d{number}"] = facts
        grouped.add_row(row(f"d{number}", key_hit_flags=[int(number < 100)]), facts)
    assert [len(state.m1.result().by_dialog) for state in grouped._states.values()] == [1, 1]
    (table,) = grouped.tables(stats, {})
    assert [(found[0].text, found[1].text, found[3].text) for found in table.rows] == [
        ("s1", "100", "50.0 %"),
        ("s2", "100", "50.0 %"),
    ]


def test_any_number_of_scenarios_stays_bounded() -> None:
    grouped, stats = GroupedMetrics(), DialogStats()
    for number in range(100):
        facts = Facts(f"s{number:02d}", "easy", "zh")
        for copy in range(2 if number < 10 else 1):
            stats.facts[f"d{number}-{copy}"] = facts
        grouped.add_row(row(f"d{number}-0"), facts)
    (table,) = grouped.tables(stats, {})
    assert len(table.rows) == 30
    assert "70 smaller groups are left out" in table.note
    assert {f"s{number:02d}" for number in range(10)} <= {found[0].text for found in table.rows}
