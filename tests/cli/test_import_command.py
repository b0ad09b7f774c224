"""``memfin import chat``: messages, CSV and transcripts become dialogues that run."""

import json
from pathlib import Path
from typing import Any

import pytest

from memfin.chats import Unread, read_chats
from memfin.errors import UsageError
from memfin.runtime.api import run_eval_parallel
from memfin.validation import validate_path
from tests.commands import run_command
from tests.support import read_jsonl

USER = {"role": "user", "text": "Is it safe?"}
REPLY = {"role": "assistant", "text": "It can fall.", "turn_tags": {}}


def chats(path: Path, content: str) -> list[Any]:
    path.write_bytes(content.encode())
    return list(read_chats(path))


def lines(*values: Any) -> str:
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)


def said(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


def test_messages_become_turns_and_keep_their_ids(tmp_path: Path) -> None:
    conversation = [
        said("system", "You are an adviser."),
        said(
            "user",
            [{"type": "text", "text": "Is it"}, {"type": "image_url"}, {"type": "text", "text": "safe?"}],
        ),
        {"role": "assistant", "content": None, "tool_calls": []},
        said("tool", "42"),
        said("assistant", "It can"),
        said("assistant", "fall."),
    ]
    (found,) = chats(tmp_path / "a.jsonl", lines({"id": "c-1", "messages": conversation}))
    assert found == {
        "dialog_id": "c-1",
        "language": "en",
        "profile_gt": {},
        "turns": [USER | {"text": "Is it\nsafe?"}, REPLY | {"text": "It can\nfall."}],
    }


def test_names_are_made_of_the_content_and_stay_the_same(tmp_path: Path) -> None:
    first, second = (
        {"messages": [said("user", question), said("assistant", "好。")]} for question in ("一？", "二？")
    )
    one, two = chats(tmp_path / "a.jsonl", lines(first, second))
    assert one["dialog_id"].startswith("chat-")
    assert one["language"] == "zh"
    assert chats(tmp_path / "b.jsonl", lines(second, first)) == [two, one]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "Input data was truncated"),
        ("[1]", "expected an object with a list of messages"),
        (lines({"messages": [1]}), "messages[0]: expected an object"),
        (lines({"messages": [said("narrator", "x")]}), "messages[0]: unknown role 'narrator'"),
        (lines({"messages": [said("user", 3)]}), "messages[0]: the content is no text"),
        (lines({"messages": [said("user", "x")]}), "no user turn is followed by an assistant turn"),
        (lines({"messages": []}), "the list is empty"),
    ],
)
def test_a_line_that_is_no_conversation_is_named(line: str, reason: str, tmp_path: Path) -> None:
    good = lines({"messages": [said("user", "x"), said("assistant", "y")]})
    first, second = chats(tmp_path / "a.jsonl", good + line)
    assert first["turns"]
    assert isinstance(second, Unread)
    assert second.line == 2
    assert second.reason.startswith(reason)


CSV = """\ufeffSession_ID,role,content,timestamp
b,user,"Is it
safe?",2026-01-01T10:00:00Z
a,assistant,It can fall.,2026-01-01T10:00:05Z
a,user,Is it safe?,2026-01-01T10:00:01Z

b,assistant,It can fall.,soon
b,assistant,It can fall.,2026-01-01T11:00:00+00:00
a,user,too,many,columns
"""


def test_rows_are_grouped_and_in_order_of_time(tmp_path: Path) -> None:
    late, columns, one, two = chats(tmp_path / "a.csv", CSV)
    assert late == (7, "'soon' is no time; expected a number of seconds or ISO 8601")
    assert columns == (9, "5 columns, but the header has 4")
    assert (one["dialog_id"], one["turns"]) == ("b", [USER | {"text": "Is it\nsafe?"}, REPLY])
    assert (two["dialog_id"], two["turns"]) == ("a", [USER, REPLY])
    assert chats(tmp_path / "b.csv", "id,text\n1,x\n")[0].reason.startswith(
        "the header has no column dialog_id"
    )


TRANSCRIPT = """# First

**User:** Is it safe?

**Assistant**: It can fall.

---

- It pays interest.
---
用户：安全吗？
助手：

净值会波动。
"""


def test_transcripts_begin_again_at_titles_and_rules(tmp_path: Path) -> None:
    one, two = chats(tmp_path / "a.md", TRANSCRIPT)
    assert one["dialog_id"] == "First"
    assert one["turns"] == [USER, REPLY | {"text": "It can fall.\n\n---\n\n- It pays interest."}]
    assert [turn["text"] for turn in two["turns"]] == ["安全吗？", "净值会波动。"]
    stray, *_ = chats(tmp_path / "b.txt", "Hello\nUser: a\nAssistant: b\n")
    assert stray == (1, "stands before the first speaker, such as User: or 用户：")


def test_a_file_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown kind of chat log"):
        chats(tmp_path / "a.pdf", "")
    for name, content in (("a.md", b"User: \xff"), ("a.csv", b"session,role,content\n1,user,\xff\n")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UsageError, match="is not UTF-8"):
            list(read_chats(tmp_path / name))
    with pytest.raises(UsageError, match="cannot read"):
        list(read_chats(tmp_path / "none.md"))


def test_the_command_writes_a_dataset_that_runs(tmp_path: Path) -> None:
    log, out = tmp_path / "a.jsonl", tmp_path / "data.jsonl"
    log.write_text(lines({"messages": [said("user", "x"), said("assistant", "y")]}) + "{}\n")
    done = run_command("import", "chat", log, "--out", out)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"{log}:2: expected an object with a list of messages",
        f"memfin: {out}: 1 dialogue; 1 part of {log} not read",
    ]
    assert len(read_jsonl(out)) == 1
    assert all("denominator of M2" in finding.message for finding in validate_path(out))
    summary = run_eval_parallel(out, "r", agent_factory="echo", runs_dir=str(tmp_path))
    assert summary.counters.valid_dialogs == 1
    done = run_command("import", "chat", log, "--out", out)
    assert (done.returncode, done.stderr) == (2, f"memfin: {out} exists already; name another file\n")
    log.write_text("{}\n")
    done = run_command("import", "chat", log, "--out", tmp_path / "other.jsonl")
    assert done.returncode == 2
    assert done.stderr.endswith("holds no conversation that can be read; nothing was written\n")
    assert not (tmp_path / "other.jsonl").exists()
