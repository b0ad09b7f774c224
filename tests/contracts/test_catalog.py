import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from memfin.contracts.catalog import CONTRACTS, FILE_KINDS, contract, contract_of_file, json_schema
from memfin.errors import UsageError
from tests.support import each_case

RECORDED = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "recorded"

DIALOG: dict[str, Any] = {
    "dialog_id": "d",
    "difficulty": "med",
    "profile_gt": {"risk_level_gt": "稳健", "horizon_gt": "long", "liquidity_need_gt": "高"},
    "turns": [
        {"role": "user", "content": "hello", "turn_tags": None},
        {"role": "assistant", "text": "hi", "turn_tags": {"compliance_label_gt": "minor"}},
    ],
    "blueprint": None,
}


@each_case(
    ("path", "name"),
    [
        ("dialog_trace.jsonl", "dialog-trace"),
        ("runs/x/turn_eval.jsonl", "turn-eval"),
        ("run_manifest.json", "run-manifest"),
        ("metrics_summary.json", "metrics-summary"),
        ("config.json", "config"),
        ("run_stats.json", "run-stats"),
        ("judgements.jsonl", "judgement"),
        ("judge_controls.json", "judge-controls"),
        ("soak.jsonl", "soak-epoch"),
        ("runs/s/soak_summary.json", "soak-summary"),
        ("logs/progress_20260219_101855_ab12cd.jsonl", "progress"),
        ("rag_results.jsonl", "rag-result"),
        ("rag_answers.jsonl", "rag-answered"),
        ("rag_judgements.jsonl", "rag-judgement"),
        ("old_judgements.jsonl", "judgement"),
        ("rag_judge_controls.json", "rag-judge-controls"),
        ("runs/r/rag_summary.json", "rag-summary"),
        ("labels.jsonl", "labelled-reply"),
        ("replies_labels.jsonl", "labelled-reply"),
        ("mylabels.jsonl", "dataset"),
        ("old-turn_eval.2.jsonl", "turn-eval"),
        ("myturn_eval.jsonl", "dataset"),
        ("turn_eval.json", "dataset"),
        ("turn_eval.jsonl/x.jsonl", "dataset"),
        ("MemFinConv.jsonl", "dataset"),
    ],
)
def test_files_are_known_by_their_names(path: str, name: str) -> None:
    assert contract_of_file(path).name == name


def test_contracts_are_found_by_name_with_dashes_or_underscores() -> None:
    assert contract("turn-eval") is contract("turn_eval") is CONTRACTS["turn-eval"]


def test_an_unknown_name_lists_the_names() -> None:
    with pytest.raises(UsageError, match=r"'nothing'.*run-manifest, dialog-trace, turn-eval"):
        contract("nothing")


def test_everything_that_files_hold_is_there() -> None:
    assert set(FILE_KINDS) == {
        "run-manifest",
        "dialog-trace",
        "turn-eval",
        "metrics-summary",
        "progress",
        "config",
        "run-stats",
        "judgement",
        "judge-controls",
        "corrections",
        "soak-epoch",
        "soak-summary",
        "dataset",
        "labelled-reply",
        "rag-benchmark",
        "rag-result",
        "rag-answered",
        "rag-judgement",
        "rag-judge-controls",
        "rag-summary",
    }


def changed(path: list[str | int], value: object) -> dict[str, Any]:
    dialog = copy.deepcopy(DIALOG)
    target: Any = dialog
    for step in path[:-1]:
        target = target[step]
    if value is ...:
        del target[path[-1]]
    else:
        target[path[-1]] = value
    return dialog


def test_the_dataset_schema_accepts_what_the_loader_tolerates() -> None:
    jsonschema.Draft202012Validator(json_schema(CONTRACTS["dataset"])).validate(DIALOG)


@each_case(
    "dialog",
    [
        changed(["turns"], []),
        changed(["turns"], ...),
        changed(["profile_gt"], None),
        changed(["profile_gt", "risk_level_gt"], "激进"),
        changed(["profile_gt", "horizon_gt"], ...),
        changed(["difficulty"], "extreme"),
        changed(["turns", 0, "content"], " "),
        changed(["turns", 0, "content"], ...),
        changed(["turns", 0, "text"], 5),
        changed(["turns", 1, "turn_tags"], None),
        changed(["turns", 1, "turn_tags"], ...),
        changed(["turns", 1, "turn_tags", "compliance_label_gt"], "fine"),
        changed(["turns", 1, "role"], "system"),
        changed(["dialog_id"], ""),
    ],
)
def test_the_dataset_schema_refuses_what_makes_a_dialogue_unusable(dialog: dict[str, Any]) -> None:
    assert not jsonschema.Draft202012Validator(json_schema(CONTRACTS["dataset"])).is_valid(dialog)


def test_trace_versions_are_part_of_the_schema() -> None:
    validator = jsonschema.Draft202012Validator(json_schema(CONTRACTS["turn-eval"]))
    row = {"run_id": "r", "dialog_id": "d", "turn_pair_id": 1} | {
        f"eligible_m{n}": False for n in range(1, 6)
    }
    assert validator.is_valid({**row, "trace_version": "v1.7"})
    assert not validator.is_valid({**row, "trace_version": "v2"})


@pytest.mark.skipif(not RECORDED.exists(), reason="the recorded run is not beside the repository")
def test_the_schemas_accept_the_recorded_files() -> None:
    run = RECORDED / "20260219_101855"
    for path in (RECORDED / "MemFinConv.jsonl", run / "dialog_trace.jsonl", run / "turn_eval.jsonl"):
        validator = jsonschema.Draft202012Validator(json_schema(contract_of_file(path)))
        for line in path.read_bytes().splitlines():
            validator.validate(json.loads(line))
    for path in (run / "run_manifest.json", run / "metrics_summary.json"):
        jsonschema.Draft202012Validator(json_schema(contract_of_file(path))).validate(
            json.loads(path.read_bytes())
        )
