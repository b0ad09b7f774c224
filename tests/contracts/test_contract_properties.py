"""Properties that hold for every struct of the contract, whatever its values."""

import base64
import json
import math
from collections.abc import Iterator
from typing import Any, get_args

import hypothesis.strategies as st
import jsonschema
import msgspec
import msgspec.inspect as mi
import pytest
from hypothesis import HealthCheck, given, settings

import memfin.contracts
import memfin.contracts.rag
import memfin.contracts.run
from memfin.contracts import Dialog, Record
from memfin.contracts.catalog import CONTRACTS, Contract, json_schema
from memfin.contracts.reading import decode
from tests.support import each_case, length

STRUCTS: list[type[Record]] = sorted(
    {
        value
        for name, value in (
            vars(memfin.contracts) | vars(memfin.contracts.rag) | vars(memfin.contracts.run)
        ).items()
        if isinstance(value, type)
        and issubclass(value, Record)
        and value.__struct_fields__
        and name != "ProgressEvent"  # the base of events, never a value itself
    },
    key=lambda struct: struct.__name__,
)
BOUND = 2**53
TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-BOUND, BOUND)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


def values(node: mi.Type) -> st.SearchStrategy[Any]:  # noqa: C901, PLR0911, PLR0912 - one case per type
    """Values of a field type, in the form of plain JSON data."""
    match node:
        case mi.Metadata(type=described):
            return values(described)
        case mi.StructType():
            return objects(node)
        case mi.UnionType(types=types):
            return st.one_of([values(item) for item in types if type(item).__name__ != "UnsetType"])
        case mi.LiteralType(values=members):
            return st.sampled_from(members)
        case mi.ListType(item_type=item, min_length=low, max_length=high):
            return st.lists(values(item), min_size=low or 0, max_size=min(3, 3 if high is None else high))
        case mi.TupleType(item_types=items):
            return st.tuples(*map(values, items)).map(list)
        case mi.DictType(value_type=item):
            return st.dictionaries(TEXT, values(item), max_size=3)
        case mi.IntType(ge=low, le=high):
            return st.integers(-BOUND if low is None else low, BOUND if high is None else high)
        case mi.FloatType(ge=low, gt=above, le=high):
            least = low if above is None else above
            return st.floats(least, high, allow_nan=False, exclude_min=above is not None)
        case mi.StrType():
            return TEXT
        case mi.BytesType():
            return st.binary(max_size=12).map(lambda data: base64.b64encode(data).decode())
        case mi.BoolType():
            return st.booleans()
        case mi.NoneType():
            return st.none()
        case mi.AnyType():
            return PLAIN
    raise TypeError(node)


def objects(node: mi.StructType) -> st.SearchStrategy[dict[str, Any]]:
    required = {field.encode_name: values(field.type) for field in node.fields if field.required}
    optional = {field.encode_name: values(field.type) for field in node.fields if not field.required}
    tag = {node.tag_field: st.just(node.tag)} if node.tag_field else {}
    return st.fixed_dictionaries({**tag, **required}, optional=optional)


def struct_type(struct: type[Record]) -> mi.StructType:
    node = mi.type_info(struct)
    assert isinstance(node, mi.StructType)
    return node


def float_paths(node: mi.Type) -> Iterator[mi.FloatType]:
    if isinstance(node, mi.Metadata):
        yield from float_paths(node.type)
    if isinstance(node, mi.FloatType):
        yield node
    for name in ("types", "item_types"):
        for item in getattr(node, name, ()):
            yield from float_paths(item)
    for name in ("item_type", "value_type"):
        if (item := getattr(node, name, None)) is not None:
            yield from float_paths(item)


def with_number(node: mi.Type, number: float) -> object:
    """A value of the type that holds the number where its float is."""
    match node:
        case mi.Metadata(type=described):
            return with_number(described, number)
        case mi.UnionType(types=types):
            return next(with_number(item, number) for item in types if any(float_paths(item)))
        case mi.ListType(item_type=item):
            return [with_number(item, number)]
        case mi.TupleType(item_types=items):
            return [with_number(item, number) for item in items]
        case mi.DictType(value_type=item):
            return {"x": with_number(item, number)}
    return number


def minimal(node: mi.StructType) -> dict[str, Any]:
    """The required fields alone, each with a plain value."""
    result: dict[str, Any] = {node.tag_field: node.tag} if node.tag_field else {}
    return result | {field.encode_name: plain(field.type) for field in node.fields if field.required}


def plain(node: mi.Type) -> Any:  # noqa: C901, PLR0911 - a case a type
    match node:
        case mi.StructType():
            return minimal(node)
        case mi.LiteralType(values=members):
            return members[0]
        case mi.ListType():
            return []
        case mi.TupleType(item_types=items):
            return [plain(item) for item in items]
        case mi.DictType():
            return {}
        case mi.IntType(ge=low):
            return low or 0
        case mi.FloatType(ge=low):
            return max(low or 0.0, 1.0)
        case mi.BytesType():
            return ""
        case mi.BoolType():
            return True
        case mi.UnionType(types=types):
            return plain(types[0])
    return "v1"


each_struct = each_case("struct", STRUCTS)
each_contract = each_case("entry", CONTRACTS.values())
checks = settings(
    max_examples=length(2, 100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def test_every_struct_of_the_catalogue_is_under_test() -> None:
    kinds = {kind for entry in CONTRACTS.values() for kind in get_args(entry.type) or (entry.type,)}
    assert kinds <= set(STRUCTS)


@each_struct
@checks
@given(data=st.data())
def test_what_is_encoded_decodes_to_the_same(struct: type[Record], data: st.DataObject) -> None:
    record = msgspec.convert(data.draw(objects(struct_type(struct))), struct)
    encoded = msgspec.json.encode(record)
    again = msgspec.json.decode(encoded, type=struct)
    assert again == record
    assert msgspec.json.encode(again) == encoded


@each_struct
def test_unknown_fields_are_ignored(struct: type[Record]) -> None:
    least = minimal(struct_type(struct))
    extended = {**least, "from_v1_99": {"nested": [None]}}
    assert decode(json.dumps(extended).encode(), struct) == msgspec.convert(least, struct)


@each_case(
    ("struct", "field"),
    [
        (struct, field.encode_name)
        for struct in STRUCTS
        for field in struct_type(struct).fields
        if field.required
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_required_fields_are_required(struct: type[Record], field: str) -> None:
    least = minimal(struct_type(struct))
    msgspec.convert(least, struct)
    del least[field]
    with pytest.raises(msgspec.ValidationError, match=f"missing required field `{field}`"):
        msgspec.convert(least, struct)


def closed_fields() -> Iterator[tuple[type[Record], str]]:
    for struct in STRUCTS:
        for field in struct_type(struct).fields:
            kind = field.type.type if isinstance(field.type, mi.Metadata) else field.type
            members = kind.types if isinstance(kind, mi.UnionType) else (kind,)
            if any(isinstance(member, mi.LiteralType) for member in members):
                yield struct, field.encode_name


@each_case(
    ("struct", "field"),
    list(closed_fields()),
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_sets_of_values_are_closed(struct: type[Record], field: str) -> None:
    for foreign in ("in no set", 2):
        with pytest.raises(msgspec.ValidationError, match=rf"\$\.{field}"):
            msgspec.convert({**minimal(struct_type(struct)), field: foreign}, struct)


FLOAT_FIELDS = [
    (struct, field)
    for struct in STRUCTS
    for field in struct_type(struct).fields
    if any(float_paths(field.type))
]


@each_case("number", [math.nan, math.inf, -math.inf])
@each_case(
    ("struct", "field"),
    FLOAT_FIELDS,
    ids=lambda value: getattr(value, "encode_name", getattr(value, "__name__", "")),
)
def test_numbers_are_finite(struct: type[Record], field: mi.Field, number: float) -> None:
    least = minimal(struct_type(struct))
    msgspec.convert({**least, field.encode_name: with_number(field.type, 1.0)}, struct)
    with pytest.raises(msgspec.ValidationError, match=rf"\$\.{field.encode_name}"):
        msgspec.convert({**least, field.encode_name: with_number(field.type, number)}, struct)


@each_contract
def test_schemas_are_valid_json_schema_2020_12(entry: Contract) -> None:
    schema = json_schema(entry)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"urn:memfin:contract:v1:{entry.name}"
    assert schema["title"]
    assert schema["description"]


@each_case("entry", [entry for entry in CONTRACTS.values() if entry.type is not Dialog])
@checks
@given(data=st.data())
def test_schemas_accept_every_record(entry: Contract, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(get_args(entry.type) or (entry.type,)))
    drawn = data.draw(objects(struct_type(kind)))
    if "trace_version" in drawn and entry.name != "run-config":
        drawn["trace_version"] = data.draw(st.sampled_from(["v1", "v1.1", "v1.99"]))
    written = msgspec.json.decode(msgspec.json.encode(msgspec.convert(drawn, kind)))
    jsonschema.Draft202012Validator(json_schema(entry)).validate(written)


@each_contract
def test_schemas_refuse_an_object_without_the_required_fields(entry: Contract) -> None:
    kinds = get_args(entry.type) or (entry.type,)
    if any(field.required for kind in kinds for field in struct_type(kind).fields):
        assert not jsonschema.Draft202012Validator(json_schema(entry)).is_valid({})
