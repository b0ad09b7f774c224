"""``memfin dataset new`` and ``add``: dialogues from a prompt, from options and from JSON."""

import json
from pathlib import Path
from threading import Thread

import pytest

from memfin.cli.dataset import append_dialogs
from tests.commands import run_command
from tests.support import dialog, read_jsonl, write_jsonl

USER = "我是稳健型，钱可以放2年以上，流动性要求中等，最大回撤<10%，不使用杠杆。想买宽基指数基金。"
REPLY = "净值会波动，过去的表现不代表未来。"
LEVELS = ["--risk-level", "low", "--horizon", "short", "--liquidity-need", "low"]


def typed(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def test_a_typed_dialogue_takes_accepted_and_edited_suggestions(tmp_path: Path) -> None:
    path = tmp_path / "my.jsonl"
    first = [USER, REPLY, "怎么买？", "", "", "资产配置", "hard", *[""] * 5]
    labels = ["", "no such risk", "信用风险; volatility_risk", "", "-", "history_turn_index:1", "", "", ""]
    done = run_command("dataset", "new", path, "--lang", "zh", stdin=typed(*first, *labels, ""))
    assert done.returncode == 0, done.stderr
    assert "客户" in done.stderr
    assert "'no such risk'" in done.stderr
    (found,) = read_jsonl(path)
    assert found["dialog_id"] == "my-1"
    assert (found["scenario_type"], found["difficulty"], found["language"]) == ("资产配置", "hard", "zh")
    assert found["profile_gt"] == {
        "risk_level_gt": "稳健",
        "horizon_gt": "2年以上",
        "liquidity_need_gt": "中",
        "constraints_gt": ["最大回撤<10%", "不使用杠杆"],
        "preferences_gt": ["宽基指数基金"],
    }
    tags = found["turns"][1]["turn_tags"]
    assert "profile_gt.constraints_gt[1]" in tags["memory_required_keys_gt"]
    assert tags["risk_disclosure_required_gt"] == ["信用风险", "volatility_risk"]
    assert (tags["compliance_label_gt"], tags["explainability_rubric_gt"]) == ("compliant", [])
    assert found["turns"][3]["text"] == ""
    assert found["turns"][3]["turn_tags"]["memory_required_keys_gt"] == ["history_turn_index:1"]
    assert run_command("dataset", "check", path).returncode == 0


def test_what_was_complete_stays_when_the_session_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "my.jsonl"
    whole = [USER, "", "", *[""] * 7, *[""] * 4]
    done = run_command(
        "dataset", "new", path, "--lang", "en", stdin=typed(*whole, "Another one", "unfinished")
    )
    assert done.returncode == 130
    assert f"dialogues written to {path}: 1" in done.stderr
    assert len(read_jsonl(path)) == 1
    done = run_command("dataset", "new", path, stdin=typed(*whole))
    assert (done.returncode, "exists already" in done.stderr) == (2, True)
    done = run_command("dataset", "add", path, "--lang", "en", stdin=typed(*whole))
    assert [each["dialog_id"] for each in read_jsonl(path)] == ["my-1", "my-2"]


def test_a_dialogue_of_options_is_appended_to_the_file_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    before = json.dumps(dialog("d-2", 1)).encode()  # the last line has no end
    path.write_bytes(before)
    path.chmod(0o600)
    words = ["--user", "Hello", "--assistant", "", "--user", USER, "--assistant", REPLY, "--tag", "波动风险"]
    words += ["--tag", "1:compliant", "--tag", "history_turn_index:1", "--constraint", "no leverage"]
    done = run_command("dataset", "add", path, *words, *LEVELS)
    assert done.returncode == 0, done.stderr
    assert path.read_bytes().startswith(before + b"\n")
    assert path.stat().st_mode & 0o777 == 0o600
    added = read_jsonl(path)[1]
    assert added["dialog_id"] == "d-3"
    assert added["profile_gt"]["constraints_gt"] == ["no leverage"]
    first, second = (added["turns"][place]["turn_tags"] for place in (1, 3))
    assert (first["compliance_label_gt"], first["risk_disclosure_required_gt"]) == ("compliant", [])
    assert second["risk_disclosure_required_gt"] == ["波动风险"]
    assert second["memory_required_keys_gt"] == ["history_turn_index:1"]
    done = run_command("dataset", "add", path, "--user", USER, "--assistant", REPLY, "--suggest")
    assert done.returncode == 0, done.stderr
    assert read_jsonl(path)[2]["turns"][1]["turn_tags"]["risk_disclosure_required_gt"] == [
        "past_performance_not_future",
        "volatility_risk",
    ]


@pytest.mark.parametrize("indent", [None, 1])
def test_dialogues_of_json_are_appended_with_their_ids(tmp_path: Path, indent: int | None) -> None:
    path = write_jsonl(tmp_path / "d.jsonl", [dialog("d0", 1)])
    given = dialog("d1", 1) | {"note": "kept"}
    content = json.dumps(given, indent=indent)
    content += "" if indent else "\n" + json.dumps(dialog("d2", 1))
    done = run_command("dataset", "add", path, "--from", "-", stdin=content.encode())
    assert done.returncode == 0, done.stderr
    assert read_jsonl(path)[1] == given
    assert len(read_jsonl(path)) == (2 if indent else 3)


@pytest.mark.parametrize(
    ("words", "content", "line"),
    [
        (["--user", "a"], "", "1 --user, but 0 --assistant"),
        (["--suggest"], "", "add --user TEXT --assistant TEXT"),
        (["--user", "a", "--assistant", "b"], "", "Client's risk level: give one of 保守, "),
        (["--user", "a", "--assistant", "b", *LEVELS, "--tag", "x"], "", "--tag 'x': is no risk tag, memory"),
        (["--user", "a", "--assistant", "b", *LEVELS, "--tag", "2:compliant"], "", "--tag '2:compliant'"),
        (
            ["--user", "a", "--assistant", "b", *LEVELS, "--tag", "history_turn_index:9"],
            "",
            "Memory keys: 'history_turn_index:9' is not known, or does not resolve",
        ),
        (["--user", "\udcff", "--assistant", "b", *LEVELS], "", "holds bytes that are not UTF-8"),
        (["--from", "-"], "[]", "--from -: there are no dialogues in it"),
        (["--from", "-"], "{", "--from -: no JSON object"),
        (["--from", "-"], "7", "--from -: no JSON object"),
        (["--from", "-"], '{"turns": []}', "dialogue 1: $.turns: the list is empty"),
        (["--from", "-"], json.dumps(dialog("d0", 1)), "dialog_id 'd0' is in the file already"),
        (["--from", "gone.json"], "", "gone.json"),
    ],
)
def test_what_cannot_be_added_is_one_line_and_the_file_stays(
    tmp_path: Path, words: list[str], content: str, line: str
) -> None:
    path = write_jsonl(tmp_path / "d.jsonl", [dialog("d0", 1)])
    before = path.read_bytes()
    done = run_command("dataset", "add", path, *words, "--lang", "en", stdin=content.encode())
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert line in done.stderr
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["d.jsonl"]


def test_what_could_not_be_written_is_not_asked_for(tmp_path: Path) -> None:
    done = run_command("dataset", "new", tmp_path / "gone" / "d.jsonl")
    assert (done.returncode, "there is no directory" in done.stderr) == (2, True)
    path = write_jsonl(tmp_path / "d.jsonl", [dialog("d0", 1)])
    done = run_command("dataset", "add", path, "--lang", "en", stdin=b"\n")
    assert (done.returncode, done.stderr.endswith(f"dialogues written to {path}: 0\n")) == (0, True)
    assert len(read_jsonl(path)) == 1


def test_a_file_that_is_not_there_is_not_made_by_add(tmp_path: Path) -> None:
    done = run_command("dataset", "add", tmp_path / "d.jsonl", "--user", "a", "--assistant", "b", *LEVELS)
    assert (done.returncode, "no such file" in done.stderr) == (2, True)
    (tmp_path / "d.jsonl").touch()
    done = run_command("dataset", "add", tmp_path / "d.jsonl", "--user", "a", "--assistant", "b", *LEVELS)
    assert done.returncode == 0, done.stderr
    assert len(read_jsonl(tmp_path / "d.jsonl")) == 1


def test_two_that_add_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "my.jsonl"
    path.write_text("")
    dialogs = [{name: value for name, value in dialog("d", 1).items() if name != "dialog_id"}]
    threads = [Thread(target=append_dialogs, args=(path, dialogs)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each["dialog_id"] for each in read_jsonl(path)] == [f"my-{number}" for number in range(1, 9)]
