"""Observations: contract checks, assignment to turns, paths in errors."""

import math
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from datetime import UTC, date, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfin.agents.observer import Observed, TurnObserver
from memfin.agents.protocol import AgentReply
from memfin.contracts import ComplianceTrace, ModelUsage, RecallItem, RecallTrace, ShortTermTurn, ToolTrace
from tests.support import each_case


@contextmanager
def turn(observer: TurnObserver, number: int) -> Iterator[None]:
    token = observer.begin(number)
    try:
        yield
    finally:
        observer.end(token)


def observed(tell: Callable[[TurnObserver], object], reply: AgentReply | None = None) -> Observed:
    observer = TurnObserver()
    with turn(observer, 1):
        tell(observer)
        return observer.collect(reply)


class Text(str):
    __slots__ = ()


def test_a_turn_without_observations_is_empty() -> None:
    assert observed(lambda observer: None) == Observed()


def test_all_four_observations_become_their_contracts() -> None:
    def tell(observer: TurnObserver) -> None:
        observer.recall(
            query="q", short_term_turns=[{"role": "user", "content": "a"}], items=[{"content": "b"}]
        )
        observer.tool(tool_name="t", args={"n": 1}, latency_ms=2)
        observer.compliance(is_compliant=False, violations=[{"rule": "r"}])
        observer.profile(risk_level="low", constraints=["c"])

    assert observed(tell) == Observed(
        recall=RecallTrace(
            query="q",
            short_term_turns=[ShortTermTurn(role="user", content="a")],
            items=[RecallItem(content="b")],
        ),
        tools=[ToolTrace(tool_name="t", args={"n": 1}, latency_ms=2.0)],
        compliance=ComplianceTrace(is_compliant=False, violations=[{"rule": "r"}]),
        profile_snapshot={"risk_level": "low", "constraints": ["c"]},
    )


def test_the_last_recall_compliance_and_profile_count_and_tools_add_up() -> None:
    def tell(observer: TurnObserver) -> None:
        for number in (1, 2):
            observer.recall(query=f"q{number}")
            observer.tool(tool_name=f"t{number}")
            observer.compliance(is_compliant=True, suitability_warning=f"w{number}")
            observer.profile(**{f"field{number}": number})

    result = observed(tell)
    assert result.recall == RecallTrace(query="q2")
    assert [tool.tool_name for tool in result.tools] == ["t1", "t2"]
    assert result.compliance == ComplianceTrace(is_compliant=True, suitability_warning="w2")
    assert result.profile_snapshot == {"field2": 2}


def test_unknown_fields_are_ignored() -> None:
    assert observed(lambda observer: observer.recall(query="q", other=1)).recall == RecallTrace(query="q")


def test_structs_and_other_mappings_are_as_good_as_keywords() -> None:
    reply = AgentReply(
        text="a",
        recall=RecallTrace(query="q", items=[RecallItem(content="b")]),
        tools=[ToolTrace(tool_name="t"), {"tool_name": "u"}],
        compliance=MappingProxyType({"is_compliant": True}),  # type: ignore[arg-type]
        profile_snapshot=UserDict({"a": UserDict({"b": 1})}),  # type: ignore[arg-type]
    )
    assert observed(lambda observer: None, reply) == Observed(
        recall=RecallTrace(query="q", items=[RecallItem(content="b")]),
        tools=[ToolTrace(tool_name="t"), ToolTrace(tool_name="u")],
        compliance=ComplianceTrace(is_compliant=True),
        profile_snapshot={"a": {"b": 1}},
    )


def test_subclasses_of_str_become_plain_text() -> None:
    result = observed(lambda observer: observer.recall(query=Text("q")))
    assert result.recall is not None
    assert type(result.recall.query) is str


def test_a_profile_may_hold_whatever_has_a_form_in_json() -> None:
    def tell(observer: TurnObserver) -> None:
        observer.profile(
            day=date(2024, 1, 2),
            at=datetime(2024, 1, 2, tzinfo=UTC),
            share=Decimal("0.1"),
            both=("a", "b"),
            by_number={1: "one"},
            huge=10**30,
            none=None,
        )

    assert observed(tell).profile_snapshot == {
        "day": "2024-01-02",
        "at": "2024-01-02T00:00:00Z",
        "share": "0.1",
        "both": ["a", "b"],
        "by_number": {"1": "one"},
        "huge": 10**30,
        "none": None,
    }


def test_what_the_reply_carries_wins() -> None:
    def tell(observer: TurnObserver) -> None:
        observer.recall(query="observed")
        observer.tool(tool_name="observed")
        observer.compliance(is_compliant=False)
        observer.profile(observed=True)

    carried = AgentReply(
        text="a",
        recall={"query": "carried"},
        tools=[{"tool_name": "carried"}],
        compliance={"is_compliant": True},
        profile_snapshot={"carried": True},
    )
    result = observed(tell, carried)
    assert (result.recall, result.tools) == (RecallTrace(query="carried"), [ToolTrace(tool_name="carried")])
    assert (result.compliance, result.profile_snapshot) == (
        ComplianceTrace(is_compliant=True),
        {"carried": True},
    )
    assert observed(tell, AgentReply(text="a")) == observed(tell)
    assert observed(tell, AgentReply(text="a", tools=[])).tools == []


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


cyclic: dict[str, Any] = {}
cyclic["self"] = cyclic

NO_TEXT = "Expected `str`, got"
TOO_DEEP = "the value is nested too deeply"
BOOL = "Expected `bool`, got"
NO_FORM = "TypeError: no JSON form for `object`"
NOT_FINITE = "number is not finite"
FINITE = "Expected a finite number - at "
SURROGATE = "surrogates not allowed"
no_text: Any = 5

MALFORMED: list[tuple[str, dict[str, Any], str]] = [
    ("recall", {"query": 5}, f"recall: {NO_TEXT} `int` - at `$.query`"),
    ("recall", {"query": b"q"}, f"recall: {NO_TEXT} `bytes` - at `$.query`"),
    ("recall", {"query": date(2024, 1, 1)}, f"recall: {NO_TEXT} `date` - at `$.query`"),
    ("recall", {"query": None}, f"recall: {NO_TEXT} `null` - at `$.query`"),
    ("recall", {"query": object()}, f"recall: {NO_FORM} - at `$.query`"),
    ("recall", {"token_count": -1}, "recall: Expected `int` >= 0 - at `$.token_count`"),
    ("recall", {"token_count": 1.5}, "recall: Expected `int`, got `float` - at `$.token_count`"),
    ("recall", {"items": "x"}, "recall: Expected `array`, got `str` - at `$.items`"),
    ("recall", {"items": [{"content": []}]}, f"recall: {NO_TEXT} `array` - at `$.items[0].content`"),
    ("recall", {"items": [RecallItem(content=no_text)]}, f"{NO_TEXT} `int` - at `$.items[0].content`"),
    ("recall", {"items": [{"content": "a", "score": math.nan}]}, FINITE + "`$.items[0].score`"),
    ("recall", {"items": [{"content": "a", "score": -math.inf}]}, "`$.items[0].score`"),
    ("recall", {"short_term_turns": [{"role": 1}]}, f"{NO_TEXT} `int` - at `$.short_term_turns[0].role`"),
    ("recall", {"items": [{"content": "\ud800"}]}, f"{SURROGATE} - at `$.items[0].content`"),
    ("tool", {"tool_name": "t", "args": 5}, "tool: Expected `str | object`, got `int` - at `$.args`"),
    ("tool", {"tool_name": "t", "args": {"a": [1, math.nan]}}, f"tool: {NOT_FINITE} - at `$.args.a[1]`"),
    ("tool", {"tool_name": "t", "args": {"a": [{"b": object()}]}}, f"{NO_FORM} - at `$.args.a[0].b`"),
    ("tool", {"tool_name": "t", "args": nested(2000)}, f"tool: {TOO_DEEP}"),
    ("tool", {"tool_name": "t", "latency_ms": math.inf}, "`$.latency_ms`"),
    ("tool", {"tool_name": "t", "latency_ms": "1"}, "Expected `float | null`, got `str` - at `$.latency_ms`"),
    ("tool", {"tool_name": "t", "latency_ms": Decimal("sNaN")}, "cannot convert signaling NaN to float"),
    ("tool", {"tool_name": "t", "latency_ms": Decimal("NaN")}, "`$.latency_ms`"),
    ("compliance", {"is_compliant": "yes"}, f"compliance: {BOOL} `str` - at `$.is_compliant`"),
    ("compliance", {"is_compliant": 1}, f"compliance: {BOOL} `int` - at `$.is_compliant`"),
    ("compliance", {"is_compliant": True, "violations": ["x"]}, "got `str` - at `$.violations[0]`"),
    ("compliance", {"is_compliant": True, "violations": [{"x": math.inf}]}, "at `$.violations[0].x`"),
    ("profile", {"a": {"b": [0, math.nan]}}, f"profile: {NOT_FINITE} - at `$.a.b[1]`"),
    ("profile", {"a": [object()]}, f"profile: {NO_FORM} - at `$.a[0]`"),
    ("profile", {"a": {"b": "\ud800"}}, f"{SURROGATE} - at `$.a.b`"),
    ("profile", {"a": {"\ud800": 1}}, f"{SURROGATE} - at `$.a`"),
    ("profile", {"a": [10**5000]}, "- at `$.a[0]`"),
    ("profile", cyclic, f"profile: {TOO_DEEP}"),
    *(("profile", nested(depth), f"profile: {TOO_DEEP}") for depth in (500, 900, 990, 5000)),
]
each_malformed = each_case(("kind", "fields", "message"), MALFORMED)


@each_malformed
def test_a_malformed_observation_leaves_an_error_with_its_path(
    kind: str, fields: dict[str, Any], message: str
) -> None:
    result = observed(lambda observer: getattr(observer, kind)(**fields))
    assert result.error is not None
    assert result.error.startswith(f"malformed observation {kind}: ")
    assert message in result.error
    assert result == Observed(error=result.error)
    msgspec.json.encode(result)


@each_malformed
def test_a_reply_is_held_against_the_contract_as_well(
    kind: str, fields: dict[str, Any], message: str
) -> None:
    carried: dict[str, Any] = {"profile": "profile_snapshot", "tool": "tools"}
    field = carried.get(kind, kind)
    value: Any = [{"tool_name": "fine"}, fields] if kind == "tool" else fields
    result = observed(lambda observer: None, AgentReply(text="a", **{field: value}))
    assert result.error is not None
    assert message.replace("tool:", "tools[1]:") in result.error


@each_case(
    ("field", "value", "message"),
    [
        ("recall", 5, "recall: Expected `object`, got `int`"),
        ("recall", "text", "recall: Expected `object`, got `str`"),
        ("recall", RecallTrace(query=no_text), f"recall: {NO_TEXT} `int` - at `$.query`"),
        ("tools", {"tool_name": "t"}, "tools: Expected `array`, got `dict`"),
        ("tools", "t", "tools: Expected `array`, got `str`"),
        ("tools", [5], "tools[0]: Expected `object`, got `int`"),
        ("profile_snapshot", [1], "profile: Expected `object`, got `list`"),
        ("profile_snapshot", "x", "profile: Expected `object`, got `str`"),
    ],
)
def test_a_reply_may_carry_the_wrong_thing_altogether(field: str, value: Any, message: str) -> None:
    result = observed(lambda observer: None, AgentReply(text="a", **{field: value}))
    assert result.error == f"malformed observation {message}"


def test_every_field_is_optional() -> None:
    def report(observer: TurnObserver) -> None:
        observer.recall(items=[{"rank": 1}], short_term_turns=[{}])
        observer.tool(args={})
        observer.compliance(needs_modification=False, violations=[])

    result = observed(report)
    assert result == Observed(
        recall=RecallTrace(items=[RecallItem(rank=1)], short_term_turns=[ShortTermTurn()]),
        tools=[ToolTrace()],
        compliance=ComplianceTrace(),
    )
    assert b"is_compliant" not in msgspec.json.encode(result)


@pytest.mark.parametrize(
    ("kind", "fields", "known"),
    [
        ("recall", {"query": "q", "memories": []}, "query, short_term_context, "),
        ("tool", {"tool_name": "t", "name": "t"}, "tool_name, args, "),
        ("compliance", {"is_compliant": True, "ok": True}, "is_compliant, needs_modification, "),
    ],
)
def test_an_unknown_field_is_named_with_the_known_ones(kind: str, fields: dict[str, Any], known: str) -> None:
    *_, unknown = fields
    told = observed(lambda observer: getattr(observer, kind)(**fields))
    carried = {"tool": "tools"}.get(kind, kind)
    value: Any = [{}, fields] if kind == "tool" else fields
    for result in (told, observed(lambda observer: None, AgentReply(text="a", **{carried: value}))):
        assert result.error is not None
        assert result.error.startswith(f"unknown field of observation {kind}: `{unknown}`; known are {known}")
        assert result != Observed(error=result.error)  # the known ones are kept


def test_a_malformed_part_of_a_reply_does_not_cost_the_others() -> None:
    reply = AgentReply(
        text="a", recall={"query": 5}, compliance={}, usage={"calls": 2}, observation_error="x"
    )
    result = observed(lambda observer: None, reply)
    assert result == Observed(
        compliance=ComplianceTrace(),
        usage=ModelUsage(calls=2),
        error="malformed observation recall: Expected `str`, got `int` - at `$.query`",
    )


class Lazy(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any:
        raise OSError("disk gone")

    def __iter__(self) -> Iterator[str]:
        return iter(("a",))

    def __len__(self) -> int:
        return 1


@pytest.mark.parametrize("field", ["recall", "compliance", "profile_snapshot"])
def test_a_mapping_that_raises_is_a_malformed_observation(field: str) -> None:
    value: Any = Lazy()
    result = observed(lambda observer: None, AgentReply(text="a", **{field: value}))
    assert result.error is not None
    assert "OSError: disk gone" in result.error


def test_the_first_error_is_reported_and_valid_observations_are_kept() -> None:
    def tell(observer: TurnObserver) -> None:
        observer.tool(tool_name="fine")
        observer.recall(query=1)
        observer.compliance(is_compliant=2)
        observer.recall(query="fine")

    result = observed(tell)
    assert result.error == "malformed observation recall: Expected `str`, got `int` - at `$.query`"
    assert (result.recall, result.tools) == (RecallTrace(query="fine"), [ToolTrace(tool_name="fine")])


def test_each_turn_starts_empty() -> None:
    observer = TurnObserver()
    with turn(observer, 1):
        observer.recall(query=5)
        observer.tool(tool_name="t")
        assert observer.collect().error is not None
    with turn(observer, 2):
        assert observer.collect() == Observed()


def test_changing_what_was_handed_over_changes_nothing() -> None:
    constraints = ["a"]
    args = {"list": [1.0]}
    violations = [{"rule": ["r"]}]
    observer = TurnObserver()
    with turn(observer, 1):
        observer.profile(constraints=constraints)
        observer.tool(tool_name="t", args=args)
        observer.compliance(is_compliant=True, violations=violations)
        result = observer.collect()
        before = msgspec.json.encode(result)
        constraints.append("b")
        args["list"].append(math.nan)
        violations[0]["rule"].append("s")
        observer.tool(tool_name="after collecting")
    assert msgspec.json.encode(result) == before


def test_code_of_an_earlier_turn_is_dropped_and_counted() -> None:
    observer = TurnObserver()
    with turn(observer, 1):
        abandoned = copy_context()  # a thread or task that was started during turn 1
    with turn(observer, 2):
        observer.recall(query="current")
        abandoned.run(observer.recall, query="late")
        abandoned.run(observer.recall, query=5)
        abandoned.run(observer.tool, tool_name="late")
        abandoned.run(observer.compliance, is_compliant=True)
        abandoned.run(observer.profile, late=True)
        assert observer.collect() == Observed(recall=RecallTrace(query="current"))
    assert observer.late == 5


def test_code_of_a_turn_is_late_as_soon_as_the_turn_is_closed() -> None:
    observer = TurnObserver()
    with turn(observer, 1):
        abandoned = copy_context()
        result = observer.collect()
    abandoned.run(observer.tool, tool_name="late")
    assert (result.tools, observer.late) == ([], 1)


def test_code_without_a_turn_of_its_own_counts_for_the_current_one() -> None:
    observer = TurnObserver()
    outside = copy_context()  # a thread that the agent started with the session
    with turn(observer, 1):
        outside.run(observer.tool, tool_name="from a thread of the agent")
        assert (len(observer.collect().tools), observer.late) == (1, 0)


texts = st.text() | st.text(st.characters()) | st.binary()
numbers = st.integers() | st.floats() | st.decimals()
anything = st.recursive(
    st.none() | st.booleans() | texts | numbers | st.dates() | st.builds(object),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.sampled_from(["recall", "tool", "compliance", "profile"]),
    st.dictionaries(
        st.sampled_from([*RecallTrace.__struct_fields__, *ToolTrace.__struct_fields__, "is_compliant"]),
        anything,
        max_size=4,
    ),
)
def test_no_observation_raises_and_every_outcome_can_be_written(kind: str, fields: dict[str, Any]) -> None:
    result = observed(lambda observer: getattr(observer, kind)(**fields))
    again = msgspec.json.decode(msgspec.json.encode(result), type=Observed)
    assert (again.error is None) == (result.error is None)
