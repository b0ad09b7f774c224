import json
from pathlib import Path
from typing import Any

import pytest

from memfin.contracts import Finding, ResolvedKey
from memfin.errors import UsageError
from memfin.metrics.aggregate import MetricsState
from memfin.metrics.interval import ratio_interval
from memfin.report import load_report, render_markdown_report
from memfin.report.common import configuration_section
from memfin.report.dialogs import script_language
from memfin.report.glossary import VALUE_LABELS, format_interval, labels, value_label
from memfin.report.model import Block, Report, Table
from tests.report.report_run_factory import (
    blocks,
    facts_of,
    metric,
    row,
    summary,
    table_rows,
    trace,
    turn,
    worst_cases,
    write_run,
)
from tests.support import each_case

RECORDED = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "recorded" / "20260219_101855"


def group(report: Report, title: str) -> dict[str, dict[str, str]]:
    headings, *rows = table_rows(report, title)
    return {each[0]: dict(zip(headings[1:], each[1:], strict=True)) for each in rows}


def test_metrics_by_group_come_from_the_rows_of_the_group(tmp_path: Path) -> None:
    traces = [
        trace("a", [turn(1), turn(2)], scenario_type="s1", difficulty="hard"),
        trace("b", [turn(1)], scenario_type="s2", difficulty="easy"),
    ]
    rows = [
        row("a", 1, key_hit_flags=[1]),
        row("a", 2, key_hit_flags=[0], key_hit_sources=[[]], pred_compliance_label="severe_violation"),
        row("b", 1, eligible_m5=False, judge_score_1_5=None),
    ]
    model = load_report(write_run(tmp_path, traces, rows))
    scenarios = group(model, "By scenario")
    assert scenarios["s1"]["M1 Key coverage"] == "50.0 %"
    assert scenarios["s1"]["M4 Severe violations"] == "50.0 %"
    assert scenarios["s2"]["M1 Key coverage"] == "100.0 %"
    assert scenarios["s2"]["M5 Rubric hit rate"] == "-"
    assert scenarios["s1"]["M2 Profile score"] == "40.0 %"
    assert list(group(model, "By difficulty")) == ["easy", "hard"]


def test_groups_have_intervals_with_the_dialogue_as_the_unit(tmp_path: Path) -> None:
    """Of two scenarios with the same shares, the dialogues of the second are each of one kind."""
    ids = [f"{scenario}-{number}" for scenario in ("s1", "s2") for number in range(8)]
    traces = [trace(name, [turn(1), turn(2)], scenario_type=name[:2]) for name in ids]
    flags = {name: [(0, 1), (int(name[-1]) % 2,) * 2][name.startswith("s2")] for name in ids}
    rows = [
        row(name, at + 1, key_hit_flags=[flag], key_hit_sources=[["short_term"] * flag])
        for name in ids
        for at, flag in enumerate(flags[name])
    ]
    report = load_report(write_run(tmp_path, traces, rows))
    (table,) = (each for each in blocks(report) if isinstance(each, Table) and each.title == "By scenario")
    place = table.headings.index("M1 Key coverage")
    apart, alike = (each[place] for each in table.rows)
    assert (apart.text, alike.text) == ("50.0 %", "50.0 %")
    for cell, clusters in ((apart, [(1, 2)] * 8), (alike, [(2, 2), (0, 2)] * 4)):
        assert cell.small == format_interval("key_coverage", ratio_interval(clusters))
    assert f"| 50.0 % ({alike.small}) |" in render_markdown_report(report)


def test_older_wordings_of_a_difficulty_make_no_group_of_their_own(tmp_path: Path) -> None:
    given = {"a": "med", "b": "medium", "c": "hard", "d": "of another world", "e": "easy"}
    traces = [trace(name, [turn()], difficulty=difficulty) for name, difficulty in given.items()]
    model = load_report(write_run(tmp_path, traces, [row(name) for name in given]))
    assert [each[:2] for each in table_rows(model, "By difficulty")[1:]] == [
        ["easy", "1"],
        ["medium", "2"],
        ["hard", "1"],
        ["of another world", "1"],
    ]


def test_a_property_that_all_dialogues_share_makes_no_table(tmp_path: Path) -> None:
    model = load_report(
        write_run(tmp_path, [trace("a", [turn()]), trace("b", [turn()])], [row("a"), row("b")])
    )
    assert "groups" not in {section.id for section in model.sections}


def test_the_language_is_told_by_script_and_said_to_be(tmp_path: Path) -> None:
    traces = [
        trace("a", [turn(user="基金定投适合我吗")]),
        trace("b", [turn(user="Is a bond fund right for me?")]),
    ]
    model = load_report(write_run(tmp_path, traces, [row("a"), row("b")]))
    assert list(group(model, "By language")) == ["English", "Chinese"]
    assert "script of the client" in render_markdown_report(model)


def test_script_language_reads_mixed_text_by_its_weight() -> None:
    assert script_language("我想买ETF和REITs，风险大吗？") == "zh"
    assert script_language("Should I buy 茅台 now or wait for a while?") == "en"
    assert script_language("123 !") is None


def test_a_skipped_line_with_a_taken_id_does_not_replace_the_dialogue(tmp_path: Path) -> None:
    skipped = trace("a", dialog_status="skipped", valid_dialog=False, skip_reason="duplicate_dialog_id")
    rows = [row("a", key_hit_flags=[0], key_hit_sources=[[]])]
    model = load_report(write_run(tmp_path, [skipped, trace("a", [turn(user="真的")]), skipped], rows))
    assert table_rows(model, "Skipped dialogues")[1:] == [["duplicate_dialog_id", "2"]]
    assert worst_cases(model)["Lowest key coverage"][0].question == "真的"


def test_a_worst_turn_shows_keys_sources_findings_and_labels(tmp_path: Path) -> None:
    reply = "我们承诺绝对保本，请放心。"
    shown = row(
        "a",
        2,
        resolved_keys=[
            ResolvedKey(key="history_turn_index:99", resolvable=False),
            ResolvedKey(key="profile_gt.risk_level_gt", resolvable=True, target_text="稳健"),
            ResolvedKey(key="profile_gt.horizon_gt", resolvable=True, target_text="2年以上"),
        ],
        key_hit_flags=[1, 0],
        key_hit_sources=[["short_term", "profile"], []],
        key_recoverability=["recoverable", "unrevealed"],
        pred_compliance_label="severe_violation",
        forbidden_hits=["保本保收益"],
        findings=[Finding(field="compliance", value="保本保收益", rule="promise.principal", start=4, end=8)],
    )
    model = load_report(write_run(tmp_path, [trace("a", [turn(1), turn(2, "保本吗", reply)])], [shown]))
    severe, keys = (cases[0] for cases in worst_cases(model).values())
    assert (severe.repeated, keys.repeated, keys.anchor) == (False, True, severe.anchor)
    shown_items = {each.label: each.items for each in severe.evidence}
    assert [(item.status, item.text) for item in shown_items["Required keys"]] == [
        ("unknown", "client's message 99: not resolvable"),
        ("hit", "risk level “稳健”: recalled from short-term window, profile context"),
        ("miss", "investment horizon “2年以上”: missed (not revealed before this turn)"),
    ]
    assert [piece.text for piece in severe.reply or () if piece.marked] == ["绝对保本"]
    assert (
        shown_items["Findings"][0].text
        == "compliance: promise of principal or return (rule promise.principal)"
    )
    assert [piece.text for piece in shown_items["Findings"][0].quote] == [
        "我们承诺",
        "绝对保本",
        "，请放心。",
    ]
    labels = [item.text for item in shown_items["Compliance"]]
    assert labels[1:] == ["promise of principal or return"]
    assert labels[0] == "severe violation, reference compliant"
    assert ", 8 characters of short-term window" in shown_items["Recall"][0].text
    assert shown_items["Recall"][1].text == "Short-term window: “user: 稳健”"


def test_a_row_without_its_turn_in_the_trace_is_shown_without_message(tmp_path: Path) -> None:
    rows = [row("a", 9, key_hit_flags=[0]), row("stranger", 1, key_hit_flags=[0])]
    model = load_report(write_run(tmp_path, [trace("a", [turn(1)])], rows))
    assert worst_cases(model)["Lowest key coverage"][0].question == "(the trace lacks this turn)"
    assert any(warning.title == "Files do not belong together" for warning in model.warnings)


def test_failures_of_dialogues_turns_and_judges_are_grouped(tmp_path: Path) -> None:
    broken = turn(1, reply=None, turn_status="timeout", error="no answer within 120 s")
    traces = [
        trace("a", [broken, turn(2)], dialog_status="partial"),
        trace("b", [broken], dialog_status="failed", dialog_error="factory raised ValueError: no key"),
    ]
    model = load_report(write_run(tmp_path, traces, [row("a", 2, judge_error="HTTP 503")]))
    assert {(found[0], found[2]) for found in table_rows(model, "Failures")[1:]} == {
        ("turn: timed out", "2"),
        ("dialogue", "1"),
        ("judge", "1"),
    }


def test_failed_turns_and_replies_without_content_stand_above_the_cards(tmp_path: Path) -> None:
    failed = turn(4, reply=None, turn_status="error", error="HTTP 500")
    turns = [*(turn(number, f"问题{number}", f"问题{number}") for number in (1, 2, 3)), failed]
    model = load_report(write_run(tmp_path, [trace("a", turns)], [row("a")]))
    alerts, cards = model.sections[0].blocks
    assert cards.kind == "cards"
    assert isinstance(alerts, Block)
    assert [(each.title, each.detail.partition(")")[0]) for each in alerts.items] == [
        ("Turns failed", "1 of 4 (25.0 %"),
        ("Echoed user turns", "3 of 3 (100.0 %"),
    ]


@each_case(
    ("agent", "shown"),
    [
        ("openai:m", {"Agent": "openai:m", "Memory": "builtin", "System prompt": "p.txt"}),
        ("m:f", {"Agent": "model-x"}),
    ],
)
def test_the_head_names_what_stands_before_a_model(tmp_path: Path, agent: str, shown: dict[str, str]) -> None:
    run_dir = write_run(tmp_path, [trace("a", [turn()])], [row("a")], extras=True)
    config = json.loads((run_dir / "config.json").read_text())
    config["settings"] |= {"agent": agent, "agent_memory": "builtin", "agent_system": "p.txt"}
    (run_dir / "config.json").write_text(json.dumps(config))
    facts = dict(load_report(run_dir).facts)
    assert {name: facts[name] for name in ("Agent", "Memory", "System prompt") if name in facts} == shown


def test_statistics_and_configuration_are_taken_when_they_are_there(tmp_path: Path) -> None:
    model = load_report(write_run(tmp_path, [trace("a", [turn()])], [row("a")], extras=True))
    time = facts_of(model, "Time")
    assert (time["Wall time"], time["Retries"]) == ("1 min 15 s", "3")
    assert ["agent", "echo"] in table_rows(model, "Settings")
    assert ["dataset sha256", "cdcdcdcdcdcd…"] in table_rows(model, "Inputs of the fingerprint")
    assert facts_of(model, "")["Fingerprint"] == "abababababab…"
    assert dict(model.facts)["History"] == "forced"
    assert dict(model.facts)["Judge"] == "heuristic"


def test_settings_are_rows_in_words() -> None:
    hashes = {"risk_tags.toml": "ef" * 32}
    settings: dict[str, Any] = {
        "lexicon_hashes": hashes,
        "limit": None,
        "gate": [],
        "score_chars": 100_000,
        "quiet": True,
    }
    found = configuration_section(None, settings, None)
    assert found is not None
    (tables,) = (block for block in found.blocks if block.kind == "columns")
    assert [[cell.text for cell in row] for row in tables.items[0].rows] == [
        ["lexicon hashes: risk_tags.toml", "efefefefefef…"],
        ["quiet", "yes"],
        ["score chars", "100,000"],
    ]


def test_every_value_and_count_of_a_metric_has_a_label_of_its_own() -> None:
    for result in MetricsState().results().values():
        names = [*result.micro, *result.counts]
        shown = [value_label(name) for name in names]
        assert len(set(shown)) == len(shown)
        assert not [label for label in shown if "_" in label]
        assert [name for name in names if name not in {**labels("values"), **VALUE_LABELS}] == []
    assert value_label("my_metric") == "My metric"


def test_without_statistics_times_come_from_trace_and_manifest(tmp_path: Path) -> None:
    failed = turn(3, reply=None, turn_status="error", error="x", latency_ms=99999.0)
    model = load_report(write_run(tmp_path, [trace("a", [turn(1), turn(2), failed])], [row("a")]))
    time = facts_of(model, "Time")
    assert time["Wall time"] == "1 h 02 min 03 s"
    assert time["Turns answered"] == "2"
    assert (time["Latency, median"], time["Latency, max"]) == ("100 ms", "200 ms")


def test_the_weakest_dialogues_are_listed_when_there_are_many(tmp_path: Path) -> None:
    ids = [f"d{number:02d}" for number in range(40)]
    values = {dialog_id: {"key_coverage": number / 40} for number, dialog_id in enumerate(ids)}
    result = summary()
    result.metrics.clear()
    result.metrics["m1_context_continuity"] = metric(
        "m1_context_continuity", {"key_coverage": 0.5}, by_dialog=values
    )
    traces = [trace(dialog_id, [turn()]) for dialog_id in reversed(ids)]
    model = load_report(write_run(tmp_path, traces, [], result))
    (dialogs,) = [section for section in model.sections if section.id == "dialogues"]
    (table,) = [block for block in dialogs.blocks if isinstance(block, Table)]
    assert [found[0].text for found in table.rows] == ids[:25]
    assert "15 more dialogues are left out" in table.note
    (spread,) = [block for block in blocks(model) if block.kind == "histograms"]
    assert spread.items[0].counts == (4,) * 10


def test_dialogues_with_severe_violations_come_first(tmp_path: Path) -> None:
    result = summary()
    values = {name: {"severe_violation_rate": rate} for name, rate in (("a", 0.0), ("b", 0.5), ("c", 0.1))}
    result.metrics.clear()
    result.metrics["m4_compliance"] = metric(
        "m4_compliance", {"severe_violation_rate": 0.2}, by_dialog=values
    )
    run_dir = write_run(tmp_path, [trace(name, [turn()]) for name in values], [], result)
    sections = {section.id: section for section in load_report(run_dir).sections}
    (table,) = [block for block in sections["dialogues"].blocks if isinstance(block, Table)]
    assert [found[0].text for found in table.rows] == ["b", "c", "a"]


def test_the_older_drafts_names_are_read(tmp_path: Path) -> None:
    run_dir = write_run(
        tmp_path, [trace("a", [turn()])], [row("a", pred_compliance_label="severe_violation")]
    )
    for name, old, new in (
        ("turn_eval.jsonl", "severe_violation", "severe"),
        ("dialog_trace.jsonl", '"turn_status"', '"status"'),
    ):
        path = run_dir / name
        text = path.read_text("utf-8")
        assert old in text
        path.write_text(text.replace(old, new), "utf-8")
    model = load_report(run_dir)
    assert "Severe violations" in worst_cases(model)
    assert "No dialogue, turn or judgement failed." in render_markdown_report(model)


@pytest.mark.parametrize(
    "missing", ["run_manifest.json", "metrics_summary.json", "turn_eval.jsonl", "dialog_trace.jsonl"]
)
def test_a_missing_file_is_named(tmp_path: Path, missing: str) -> None:
    run_dir = write_run(tmp_path)
    (run_dir / missing).unlink()
    with pytest.raises(UsageError, match=missing.replace(".", r"\.")) as caught:
        load_report(run_dir)
    assert "\n" not in str(caught.value)


def test_an_unfinished_run_is_told_from_a_broken_one(tmp_path: Path) -> None:
    (write_run(tmp_path) / "metrics_summary.json").unlink()
    with pytest.raises(UsageError, match=r"not finished; memfin resume .* goes on with it$"):
        load_report(tmp_path)


def test_directories_that_are_no_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a run directory"):
        load_report(tmp_path)
    with pytest.raises(UsageError, match="no such directory"):
        load_report(tmp_path / "absent")
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="not a directory"):
        load_report(tmp_path / "file")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("run_manifest.json", b"{"),
        ("run_manifest.json", b"[1]"),
        ("metrics_summary.json", b"\xff\xfe"),
        ("metrics_summary.json", b'{"run_id": "r", "trace_version": "v2"}'),
        ("turn_eval.jsonl", b'{"dialog_id": 1}\n'),
        ("turn_eval.jsonl", b"not json\n"),
        ("dialog_trace.jsonl", b'{"dialog_id": "a"}\n'),
        ("dialog_trace.jsonl", b"[" * 5000 + b"\n"),
        ("run_stats.json", b"{}"),
        ("config.json", b"null"),
    ],
)
def test_an_unusable_file_is_one_line_that_names_it(tmp_path: Path, name: str, content: bytes) -> None:
    run_dir = write_run(tmp_path, [trace("a", [turn()])], [row("a")], extras=True)
    (run_dir / name).write_bytes(content)
    with pytest.raises(UsageError) as caught:
        load_report(run_dir)
    message = str(caught.value)
    assert message.startswith(str(run_dir / name))
    assert f"memfin validate {run_dir / name}" in message
    assert "\n" not in message


def test_a_malformed_by_dialog_table_is_named(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path)
    path = run_dir / "metrics_summary.json"
    document = json.loads(path.read_text("utf-8"))
    document["metrics"]["m3_risk_coverage"]["by_dialog"] = {"a": {"risk_coverage": "high"}}
    path.write_text(json.dumps(document), "utf-8")
    with pytest.raises(UsageError, match=r"m3_risk_coverage\.by_dialog.*risk_coverage"):
        load_report(run_dir)


def test_the_error_has_the_number_of_the_bad_line(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, [], [row("a"), row("b")])
    with (run_dir / "turn_eval.jsonl").open("ab") as file:
        file.write(b"\n{}\n")
    with pytest.raises(UsageError, match=r"turn_eval\.jsonl:4: "):
        load_report(run_dir)


def test_replies_scored_on_their_beginning_are_counted_in_a_warning(tmp_path: Path) -> None:
    rows = [row("a", 1, scored_chars=100_000), row("a", 2)]
    model = load_report(write_run(tmp_path, [trace("a", [turn(1), turn(2)])], rows))
    (warning,) = [each for each in model.warnings if each.title == "Replies scored on their beginning"]
    assert warning.level == "warning"
    assert warning.detail.startswith("1 of 2 scored replies")
    assert "100,000 characters" in warning.detail


def test_observations_that_were_left_out_are_counted_in_a_warning(tmp_path: Path) -> None:
    broken = "malformed observation recall: Expected `str | null`, got `int` - at `$.items[0].item_id`"
    turns = [turn(1, observation_error=broken), turn(2, observation_error=broken), turn(3)]
    model = load_report(write_run(tmp_path, [trace("a", turns)], [row("a", 1)]))
    (warning,) = [each for each in model.warnings if each.title == "Observations left out"]
    assert warning.level == "warning"
    assert warning.detail.startswith("2 of 3 (66.7 %) turns have an observation")
    assert f"because: {broken}." in warning.detail


@pytest.mark.skipif(not RECORDED.is_dir(), reason="the recorded run is not beside the checkout")
def test_the_recorded_run_loads() -> None:
    model = load_report(RECORDED)
    assert model.run_id == "20260219_101855"
    assert "### Severe violations (10 turns" in render_markdown_report(model)
    assert any("all 37 reference labels" in warning.detail for warning in model.warnings)
    assert facts_of(model, "Time")["Wall time"] == "49 min 58 s"
