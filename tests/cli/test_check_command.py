"""``memfin check`` as a process: input forms, lines, exit codes, and what it says of input it cannot read."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from memfin.cli.check import lines_of
from memfin.contracts import CheckedFinding, CheckedReply
from memfin.contracts.catalog import CONTRACTS, json_schema
from memfin.contracts.reading import MAX_LINE_BYTES
from tests.commands import run_command
from tests.docs.pages import ROOT
from tests.support import length, write_jsonl

SEVERE = "稳赚不赔。"
FINDING = "severe 保本保收益: 稳赚不赔 (promise.slogan)"
UNWARNED = "minor 无明确风险提示: 股票80%，债券20% (advice_without_risk)"
DISCLOSING = "净值会波动。"
DISCLOSURE = "disclosure volatility_risk: 净值会波动 (volatility.may_fall)"
SILENT = "今天天气好。"
PLAN = "建议配置：股票80%，债券20%。"


def check(*arguments: str | Path, stdin: bytes | None = None) -> subprocess.CompletedProcess[str]:
    done = run_command("check", *arguments, stdin=stdin, timeout=120)
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr
    return done


def text(path: Path, content: str) -> Path:
    path.write_bytes(content.encode())
    return path


def summary(replies: str, severe: int = 0, minor: int = 0, contradictions: int = 0) -> str:
    return (
        f"memfin: {replies}: {severe} with severe findings, {minor} with minor findings, "
        f"{contradictions} with contradictions; not read: "
    )


def said(message: str) -> dict[str, str]:
    return {"role": "assistant", "content": message}


# ------------------------------------------------------------------ text


def test_a_markdown_file_is_one_reply_and_lines_are_its_own(tmp_path: Path) -> None:
    path = text(tmp_path / "reply.md", f"# 建议\r\n\r\n**稳赚不赔**！\r\n\r\n{PLAN}\r\n{DISCLOSING}\r\n")
    done = check(path, "--constraint", "最大回撤<10%", "--constraint", "保留20%现金应急")
    assert done.stdout.splitlines() == [
        f"{path}:3: {FINDING}",
        f"{path}:5: contradiction 最大回撤<10%: 股票80% (equity_against_drawdown)",
        f"{path}:1: undecided 保留20%现金应急: a proposal bears on it, and the rules do not decide it",
        f"{path}:6: {DISCLOSURE}",
    ]
    assert done.stderr == summary("1 reply", severe=1, contradictions=1) + "nothing\n"
    assert done.returncode == 1


def test_severe_comes_before_disclosures_wherever_it_stands(tmp_path: Path) -> None:
    path = text(tmp_path / "reply.txt", f"{DISCLOSING}\n{SEVERE}")
    assert check(path).stdout.splitlines() == [f"{path}:2: {FINDING}", f"{path}:1: {DISCLOSURE}"]


def test_english_and_traditional_characters(tmp_path: Path) -> None:
    english = text(tmp_path / "en.txt", "Some words.\nWe guarantee your principal and a 12% return.\n")
    (line,) = check(english).stdout.splitlines()
    assert line == f"{english}:2: severe 保本保收益: We guarantee your principal (promise.principal)"
    traditional = text(tmp_path / "tw.txt", "建議您立即買入該股票，\n明天必定漲停。")
    lines = check(traditional).stdout.splitlines()
    assert lines[0].startswith(f"{traditional}:1: severe 明确买入指令: ")
    assert "買入" in lines[0]
    assert any("漲停" in line and f"{traditional}:2: severe 确定性预测涨跌" in line for line in lines)


def test_a_byte_order_mark_moves_no_offset(tmp_path: Path) -> None:
    path = tmp_path / "reply.txt"
    path.write_bytes(b"\xef\xbb\xbf" + SEVERE.encode())
    (finding,) = json.loads(check("--json", path).stdout)["findings"]
    assert (finding["start"], finding["end"], finding["words"]) == (0, 4, "稳赚不赔")


def test_standard_input_is_read_in_any_form() -> None:
    assert check("-", stdin=SEVERE.encode()).stdout == f"-:1: {FINDING}\n"
    rows = [json.dumps({"id": name, "text": SEVERE}) for name in "ab"]
    lines = check("-", stdin="\n".join(rows).encode()).stdout.splitlines()
    assert lines == [f"-:1[a]: {FINDING}", f"-:2[b]: {FINDING}"]
    pretty = json.dumps([said(SILENT), said(SEVERE)], indent=1)
    assert check("-", stdin=pretty.encode()).stdout == f"-:1[2]: {FINDING}\n"


@pytest.mark.parametrize(
    "content", ["[1] 参见合同。\n稳赚不赔。", "{客户}您好：\n稳赚不赔。", "123\n稳赚不赔。"]
)
def test_a_text_that_begins_like_json_is_text(tmp_path: Path, content: str) -> None:
    path = text(tmp_path / "reply", content)
    assert check(path).stdout == f"{path}:2: {FINDING}\n"


def test_markdown_is_text_whatever_it_holds(tmp_path: Path) -> None:
    path = text(tmp_path / "reply.md", '{"text": 1}\n稳赚不赔。\n{"a": 1}')
    assert check(path).stdout == f"{path}:2: {FINDING}\n"


def test_a_reply_of_thousands_of_lines(tmp_path: Path) -> None:
    lines = length(4_000, 20_000)
    path = text(tmp_path / "reply.md", "股票和债券各有各的周期，分散配置。\n" * lines + SEVERE)
    done = check(path, "--constraint", "最大回撤<10%")
    assert done.stdout.splitlines()[0] == f"{path}:{lines + 1}: {FINDING}"
    assert done.returncode == 1


# ------------------------------------------------------------------ JSON


def test_rows_with_their_ids_user_texts_and_constraints(tmp_path: Path) -> None:
    rows = [
        {"id": "c001", "text": f"{PLAN}\n{SEVERE}", "constraints": ["最大回撤<10%"]},
        {"text": SEVERE},
        {"id": 7, "text": SEVERE, "user_text": SEVERE},
        {"id": "c004", "text": PLAN},
    ]
    path = write_jsonl(tmp_path / "replies.jsonl", rows)
    done = check(path)
    assert done.stdout.splitlines() == [
        f"{path}:1[c001]: contradiction 最大回撤<10%: 股票80% (equity_against_drawdown)",
        f"{path}:1[c001]: {UNWARNED}",
        f"{path}:1[c001]: {FINDING}",
        f"{path}:2: {FINDING}",
        f"{path}:4[c004]: {UNWARNED}",
    ]
    assert done.stderr == summary("4 replies", severe=2, minor=2, contradictions=1) + "nothing\n"


def test_every_assistant_message_of_a_chat_log_is_a_reply(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": SILENT}, {"type": "image_url", "image_url": {"url": "x"}}]
    chat = {
        "id": "k",
        "messages": [
            {"role": "system", "content": SEVERE},
            {"role": "user", "content": SEVERE},
            said(SEVERE),  # repeats the user
            {"role": "assistant", "content": None, "tool_calls": [{"id": "t"}]},
            {"role": "tool", "content": SEVERE},
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": [*parts, {"type": "text", "text": SEVERE}]},
        ],
    }
    path = write_jsonl(tmp_path / "chat.jsonl", [chat, [said(SEVERE)], {"messages": [said(SEVERE)]}])
    done = check(path)
    assert done.stdout.splitlines() == [
        f"{path}:1[k#2]: {FINDING}",
        f"{path}:2[1]: {FINDING}",
        f"{path}:3[1]: {FINDING}",
    ]
    assert done.stderr.startswith("memfin: 4 replies: ")


def test_json_files_of_one_value(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "?"}, said(SEVERE)]
    for content, place in (
        (messages, "1"),
        ({"messages": messages}, "1"),
        ({"id": "k", "text": SEVERE}, "k"),
        ([{"messages": messages}, {"id": "k", "messages": [said(SILENT)]}], "1#1"),
    ):
        for indent in (None, 2):
            path = text(tmp_path / "chat.json", json.dumps(content, indent=indent))
            assert check(path).stdout == f"{path}:1[{place}]: {FINDING}\n"


def test_a_dialogue_trace_brings_its_constraints_and_turns(tmp_path: Path) -> None:
    turns: list[dict[str, Any]] = [
        {"turn_pair_id": 1, "user_text": "?", "pred_assistant_text": PLAN},
        {"turn_pair_id": 2, "user_text": "?", "pred_assistant_text": None},
        {"turn_pair_id": 3, "user_text": SEVERE, "pred_assistant_text": SEVERE},
        {"turn_pair_id": 4, "user_text": "?", "pred_assistant_text": SEVERE},
    ]
    row = {"trace_version": "v1.1", "dialog_id": "d1", "turns": turns}
    truth = {"profile_gt": {"constraints_gt": ["最大回撤<10%"]}}
    path = write_jsonl(tmp_path / "dialog_trace.jsonl", [row | truth, {**row, "trace_version": "v2"}])
    done = check(path)
    assert done.stdout.splitlines() == [
        f"{path}:1[d1#1]: contradiction 最大回撤<10%: 股票80% (equity_against_drawdown)",
        f"{path}:1[d1#1]: {UNWARNED}",
        f"{path}:1[d1#4]: {FINDING}",
    ]
    assert f"{path}:2: $.trace_version: 'v2' is not supported" in done.stderr
    assert done.returncode == 2


# ------------------------------------------------------------------ options


def test_quiet_leaves_out_disclosures_and_what_is_undecided(tmp_path: Path) -> None:
    path = text(tmp_path / "reply.md", f"{PLAN}\n{DISCLOSING}")
    done = check(path, "--quiet", "--constraint", "保留20%现金应急")
    assert (done.returncode, done.stdout) == (0, "")
    assert "no rule fired" not in done.stderr
    assert check(path, "--quiet", "--json").returncode == 2


def test_detectors_of_the_user_add_findings_and_their_failures_exit_2(tmp_path: Path) -> None:
    path = text(tmp_path / "reply.md", "申购费为1.5%。")
    own = "tests.runtime.test_user_detectors:"
    row = write_jsonl(tmp_path / "rows.jsonl", [{"text": "申购费为1.5%。", "user_text": "多少？"}])
    done = check(row, "--detector", own + "Fees")
    assert done.stdout.splitlines() == [
        f"{row}:1: finding subscription: 申购费 (x:fees)",
        f"{row}:1: finding any: 申购费 (x:fees: fee.word)",
    ]
    assert done.returncode == 0
    done = check(path, "--detector", own + "Severe", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["compliance"] == "severe_violation"
    done = check(path, "--detector", own + "Failing")
    assert done.returncode == 2
    assert "x:failing failed: ValueError: start 0 and end 10000 are no part of 9 characters" in done.stderr
    assert done.stderr.rstrip().endswith("detectors failed: x:failing in 1")
    done = check(path, "--detector", "no_such:Fees")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_where_nothing_fires_no_rule_is_said_to_have_fired(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "replies.jsonl", [{"text": SILENT}, {"text": ""}])
    done = check(path)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines() == [
        "memfin: no rule fired in 2 replies",
        summary("2 replies") + "nothing",
    ]
    assert "compliant" not in done.stderr


def test_minor_findings_and_disclosures_exit_0(tmp_path: Path) -> None:
    path = text(tmp_path / "reply.txt", f"这是史上最强的基金，全国第一。{DISCLOSING}")
    done = check(path)
    assert f"{path}:1: minor 夸大宣传: " in done.stdout
    assert done.returncode == 0
    assert done.stderr == summary("1 reply", minor=1) + "nothing\n"


def test_a_constraint_that_is_not_understood_is_told_once(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "replies.jsonl", [{"text": SILENT}] * 3)
    done = check(path, "--constraint", "blah xyzzy")
    assert done.stderr.count("memfin: constraint 'blah xyzzy' is not understood") == 1
    assert done.returncode == 0


def test_json_objects_follow_the_contract(tmp_path: Path) -> None:
    path = write_jsonl(
        tmp_path / "r.jsonl", [{"id": "a", "text": f"\n{PLAN} {SEVERE}{DISCLOSING}"}, {"text": ""}]
    )
    done = check("--json", path, "--constraint", "最大回撤<10%", "--constraint", "保留20%现金应急")
    objects = [json.loads(line) for line in done.stdout.splitlines()]
    validator = jsonschema.Draft202012Validator(json_schema(CONTRACTS["checked-reply"]))
    for each in objects:
        validator.validate(each)
    first, second = objects
    assert (first["file"], first["line"], first["id"]) == (str(path), 1, "a")
    assert (first["compliance"], first["categories"]) == ("severe_violation", ["保本保收益"])
    assert first["risk_tags"] == ["volatility_risk"]
    assert (first["contradictions"], first["undecided"]) == (["最大回撤<10%"], ["保留20%现金应急"])
    reply = f"\n{PLAN} {SEVERE}{DISCLOSING}"
    assert [each["kind"] for each in first["findings"]] == ["contradiction", "severe", "disclosure"]
    for each in first["findings"]:
        assert reply[each["start"] : each["end"]] == each["words"]
    assert (second["id"], second["compliance"], second["findings"]) == (None, None, [])
    assert done.returncode == 1


def test_names_and_words_are_escaped(tmp_path: Path) -> None:
    path = text(tmp_path / "a\x1b[31m.md", f"\x1b[31m\n{SEVERE}")
    done = check(path)
    assert done.stdout.endswith(f"a⟨U+001B⟩[31m.md:2: {FINDING}\n")
    assert "\x1b" not in done.stdout + done.stderr


def test_words_stand_on_one_line_of_at_most_120_characters() -> None:
    words = "a\n\x1b\u202e" + "b" * 300
    finding = CheckedFinding(kind="severe", value="v", rule="r", line=3, start=0, end=304, words=words)
    reply = CheckedReply(
        file="f",
        line=1,
        id="i\n",
        compliance="severe_violation",
        categories=["v"],
        risk_tags=[],
        contradictions=[],
        undecided=[],
        unread_constraints=[],
        unsure=[],
        findings=[finding],
    )
    (line,) = lines_of(reply, quiet=False)
    shown = "a ⟨U+001B⟩⟨U+202E⟩" + "b" * 300
    assert line == f"f:3[i⟨U+000A⟩]: severe v: {shown[:119]}… (r)"


# ------------------------------------------------------------------ what cannot be read


def test_a_bad_line_costs_that_line_and_exits_2(tmp_path: Path) -> None:
    path = tmp_path / "replies.jsonl"
    lines = [
        b'{"text": "\xb1"}',
        b'{"text": ',
        json.dumps({"text": SEVERE}).encode(),
        b'{"text": 5}',
        b'{"answer": "x"}',
        b'{"role": "assistant", "content": "x"}',
        b"5",
        b'{"x":' * 5000,
        b"",
        json.dumps({"text": DISCLOSING}).encode(),
    ]
    path.write_bytes(b"\n".join(lines))
    done = check(path)
    assert done.stdout.splitlines() == [f"{path}:3: {FINDING}", f"{path}:10: {DISCLOSURE}"]
    *told, last = done.stderr.splitlines()
    assert [re.sub(r":(\d+): .*", r":\1", line) for line in told] == [
        f"memfin: {path}:{number}" for number in (1, 2, 4, 5, 6, 7, 8)
    ]
    assert all("expected an object with text, messages or turns" in line for line in told)
    assert last == summary("2 replies", severe=1) + "7 lines and 0 files"
    assert done.returncode == 2


@pytest.mark.parametrize("suffix", ["", ".txt", ".json", ".jsonl"])
@pytest.mark.parametrize("bad", ["{bad", '{"text": ', "log of today"])
def test_rows_below_a_damaged_first_line_are_read(tmp_path: Path, suffix: str, bad: str) -> None:
    path = text(tmp_path / f"replies{suffix}", f"{bad}\n{json.dumps({'text': SEVERE})}\n")
    done = check(path)
    assert done.stdout == f"{path}:2: {FINDING}\n"
    assert f"memfin: {path}:1: " in done.stderr
    assert done.returncode == 2


def test_a_line_over_16_mib_is_refused_and_the_next_one_read(tmp_path: Path) -> None:
    path = tmp_path / "replies.jsonl"
    path.write_bytes(b'{"text": "' + b"a" * MAX_LINE_BYTES + b'"}\n' + json.dumps({"text": SEVERE}).encode())
    done = check(path)
    assert done.stdout == f"{path}:2: {FINDING}\n"
    assert f"{path}:1: more than {MAX_LINE_BYTES} bytes; write one reply per line" in done.stderr
    whole = text(tmp_path / "reply.md", "a" * (MAX_LINE_BYTES + 1))
    assert f"{whole}:1: more than {MAX_LINE_BYTES} bytes" in check(whole).stderr


def test_lines_that_cannot_be_read_are_told_up_to_a_bound(tmp_path: Path) -> None:
    path = text(tmp_path / "replies.jsonl", "{\n" * 50)
    done = check(path)
    assert len(done.stderr.splitlines()) == 22
    assert done.stderr.splitlines()[-2] == (
        f"memfin: {path}: further lines that cannot be read are counted only"
    )
    assert done.stderr.endswith("not read: 50 lines and 0 files\n")


def test_unreadable_files_do_not_hide_the_others(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    sound = text(tmp_path / "reply.md", SEVERE)
    done = check(tmp_path, tmp_path / "absent", tmp_path / "pipe", sound)
    assert done.stdout == f"{sound}:1: {FINDING}\n"
    *told, last = done.stderr.splitlines()
    assert [line for line in told if "(text, Markdown, JSON or JSONL; - is standard input)" in line] == told
    assert "is a directory; name a file" in told[0]
    assert len(told) == 3
    assert last.endswith("not read: 0 lines and 3 files")
    assert done.returncode == 2


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n\x00\x00", "稳赚不赔".encode("gb18030"), b"a\n\0"])
def test_a_file_that_is_no_utf_8_text_is_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "reply"
    path.write_bytes(content)
    done = check(path)
    told, last = done.stderr.splitlines()
    assert re.match(rf"memfin: {re.escape(str(path))}:\d: the file is not UTF-8 text; convert it", told)
    assert last.endswith("not read: 1 line and 0 files")
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize("name", ["reply.md", "replies.jsonl", "chat.json", "reply"])
@pytest.mark.parametrize("content", ["", " \n\n"])
def test_a_file_without_a_reply_is_not_passed_over(tmp_path: Path, name: str, content: str) -> None:
    path = text(tmp_path / name, content)
    done = check(path)
    assert done.stderr.splitlines()[0].startswith(f"memfin: {path}:1: the file holds no reply; ")
    assert done.returncode == 2


def test_a_dataset_is_told_to_hold_no_reply() -> None:
    done = check(ROOT / "memfin" / "data" / "datasets" / "sample.jsonl")
    assert ":1: the file holds no reply; " in done.stderr
    assert done.returncode == 2


def test_a_missing_argument_is_bad_usage() -> None:
    assert check().returncode == 2


def test_a_reader_that_leaves_ends_the_command_without_message(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "replies.jsonl", [{"text": SEVERE}] * 5000)
    line = f"{sys.executable} -m memfin check {path} | head -1"
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=True, timeout=60)  # noqa: S607
    assert done.stdout.decode() == f"{path}:1: {FINDING}\n"
    assert done.stderr == b""


# ------------------------------------------------------------------ documentation


def test_the_page_tells_every_field() -> None:
    page = (ROOT / "docs" / "check.md").read_text("utf-8")
    table = page.partition("| field | meaning |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(CheckedReply.__struct_fields__)
    last = table.rstrip().splitlines()[-2]
    assert re.findall(r"`(\w+)`", last)[1:] == list(CheckedFinding.__struct_fields__)
