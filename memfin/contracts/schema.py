"""JSON Schema (2020-12) of the contracts, generated from the structs that enforce them."""

from typing import Any, Final

import msgspec

from memfin.contracts.catalog import DATASET, Contract

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

VERSION_PATTERN: Final = r"^v1(\.[0-9]+)?$"
"""The trace versions that readers accept."""

RISK_LEVELS: Final = ("保守", "稳健", "进取", "low", "medium", "high")
HORIZONS: Final = ("<=6月", "6-24月", "2年以上", "short", "medium", "long")
LIQUIDITY_NEEDS: Final = ("高", "中", "低", "high", "medium", "low")
DIFFICULTIES: Final = ("easy", "medium", "med", "hard")
COMPLIANCE_LABELS: Final = ("compliant", "minor_violation", "severe_violation", "minor", "severe")
"""The wordings of the dataset (spec section 3)."""


def json_schema(entry: Contract) -> dict[str, Any]:
    """Return the JSON Schema of one record of a contract.

    The dataset's schema describes the input as it may be written, which is wider than the
    normalized `Dialog`: other spellings, ``content`` for ``text``, null for what is optional.
    """
    generated = msgspec.json.schema(entry.type)
    definitions: dict[str, Any] = generated.pop("$defs", {})
    for definition in definitions.values():
        if "description" in definition:
            definition["description"] = " ".join(definition["description"].split())
        version = definition.get("properties", {}).get("trace_version")
        if version == {"type": "string"}:
            version["pattern"] = VERSION_PATTERN
    if entry.name == DATASET.name:
        _widen_to_input(definitions)
    root = definitions.get(entry.type.__name__, {}) if isinstance(entry.type, type) else {}
    return {
        "$schema": DIALECT,
        "$id": f"urn:memfin:contract:v1:{entry.name}",
        "title": entry.title,
        "description": root.get("description", entry.title),
        **generated,
        "$defs": definitions,
    }


def _widen_to_input(definitions: dict[str, Any]) -> None:
    """Turn the schema of a normalized dialogue into that of a line of a dataset, in place."""
    dialog = definitions["Dialog"]
    dialog["description"] = (
        "A line of a dataset; roles alternate, beginning with user and ending with assistant."
    )
    properties = dialog["properties"]
    properties["dialog_id"] |= {"pattern": r"\S"}
    properties["difficulty"] = {"enum": [*DIFFICULTIES, None], "default": None}
    properties["turns"] |= {"minItems": 2}
    for name in ("events", "blueprint"):
        properties[name] = _or_null(properties[name])

    definitions["Blueprint"]["properties"]["forbidden_list"] = _or_null(
        definitions["Blueprint"]["properties"]["forbidden_list"]
    )
    profile = definitions["ProfileTruth"]
    levels = {"risk_level_gt": RISK_LEVELS, "horizon_gt": HORIZONS, "liquidity_need_gt": LIQUIDITY_NEEDS}
    profile["required"] = list(levels)
    for name, schema in profile["properties"].items():
        profile["properties"][name] = {"enum": list(levels[name])} if name in levels else _or_null(schema)

    tags = definitions["TurnTags"]["properties"]
    for name, schema in tags.items():
        label = name == "compliance_label_gt"
        tags[name] = {"enum": [*COMPLIANCE_LABELS, None], "default": None} if label else _or_null(schema)

    definitions["Turn"] = _turn_schema(definitions["Turn"])


def _turn_schema(turn: dict[str, Any]) -> dict[str, Any]:
    """Allow ``content`` for ``text``; ask a user turn for words and an assistant turn for tags."""
    role, tags = turn["properties"]["role"], turn["properties"]["turn_tags"]
    return {
        "title": turn["title"],
        "description": turn["description"],
        "type": "object",
        "properties": {"role": role, "text": {}, "content": {}, "turn_tags": {}},
        "required": ["role"],
        "if": {"properties": {"role": {"const": "assistant"}}},
        "then": {
            "properties": {"turn_tags": tags["anyOf"][0]},
            "required": ["turn_tags"],
            **_spoken({"type": "string"}),
        },
        "else": _spoken({"type": "string", "pattern": r"\S"}),
    }


def _spoken(words: dict[str, Any]) -> dict[str, Any]:
    return {
        "if": {"required": ["text"]},
        "then": {"properties": {"text": words}},
        "else": {"properties": {"content": words}, "required": ["content"]},
    }


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    default = {"default": schema["default"]} if "default" in schema else {}
    return {"anyOf": [{k: v for k, v in schema.items() if k != "default"}, {"type": "null"}], **default}
