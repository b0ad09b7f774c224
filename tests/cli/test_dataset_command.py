"""``memfin dataset check``: findings with their places, and counts of the labels."""

from pathlib import Path

from tests.commands import run_command
from tests.support import dialog, write_jsonl


def test_labels_are_counted_and_those_without_effect_found(tmp_path: Path) -> None:
    wrong = dialog("d0", 3)
    wrong["turns"][1]["turn_tags"] = {
        "memory_required_keys_gt": ["profile_gt.constraints_gt[0]", "profile_gt.constraints_gt[9]"],
        "risk_disclosure_required_gt": ["波动风险", "no such risk"],
    }
    wrong["turns"][3]["turn_tags"] = {}
    del wrong["turns"][5]["turn_tags"]
    path = write_jsonl(tmp_path / "d.jsonl", [wrong, 7])
    done = run_command("dataset", "check", path)
    place = f"{path}:1: $.turns[1].turn_tags"
    assert done.stdout.splitlines() == [
        f"{path}:1: $.turns[5].turn_tags: missing (its turn pair is not scored)",
        f"{path}:2: $: expected an object, got 7 (skip_reason not_an_object)",
        f"{place}.memory_required_keys_gt[1]: 'profile_gt.constraints_gt[9]' does not resolve",
        f"{place}.risk_disclosure_required_gt[1]: 'no such risk' is not known",
    ]
    assert done.stderr.splitlines() == [
        "memfin: 1 dialogue, 1 skipped; 3 turn pairs, 2 without labels",
        "memfin: memory_required_keys_gt: profile_gt.constraints_gt[0] 1, profile_gt.constraints_gt[9] 1",
        "memfin: risk_disclosure_required_gt: 波动风险 1, no such risk 1",
        "memfin: compliance_label_gt: none",
        "memfin: explainability_rubric_gt: none",
        "memfin: 4 findings",
    ]
    assert done.returncode == 1


def test_a_sound_dataset_has_no_findings(tmp_path: Path) -> None:
    done = run_command("dataset", "check", write_jsonl(tmp_path / "d.jsonl", [dialog("d0", 2)]))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.endswith("memfin: no findings\n")
    done = run_command("dataset", "check", tmp_path / "none.jsonl")
    assert (done.returncode, done.stderr) == (2, f"memfin: dataset {tmp_path}/none.jsonl: no such file\n")
