"""What counts as invented: any fact of an answer that the document does not contain, in whatever form."""

from typing import Any

from memfin.contracts.rag import RagAnswer
from tests.rag.rag_scoring_cases import GAP, INDEX, answered, scored
from tests.support import each_case


def invented(answer: RagAnswer, **changes: Any) -> list[tuple[str, str]]:
    found = scored(GAP, answer, **changes).details["hallucination"]["invented"]
    return [(one["kind"], one["where"]) for one in found]


@each_case(
    "text",
    [
        "他给了42000元。",
        "他给了４．２万元。",
        "他给了四万二千元。",
        "他给了肆万贰仟圆。",
        "He paid forty-two thousand yuan.",
        "先给20,000元，再给两万二千元",
        "2020年7月1日，也就是二〇二〇年七月一日",
        "2020-07-15",
        "July 15, 2020",
        "2020年8月30日",
        "2020年7月",
        "谈话从下午2点30分开始",
        "在场三个人，即三名，也就是3位",
        "three people",
        "电话139-0000-1234",
        "利息5%，即百分之五",
        "“方明”和“程飞”",
        "第二笔给了22000元",
        "1. 见第4页；2. 见第2页第99行 [7]",
        "一个人、一些钱",
        "没有说明",
        "答“都忘记了”",
        "有一张12000元的借条",
    ],
)
def test_facts_of_the_document_are_not_invented_in_any_form(text: str) -> None:
    assert invented(answered(text)) == []


@each_case(
    ("text", "kind"),
    [
        ("请客花了8000元", "amount"),
        ("请客花了八千元", "amount"),
        ("请客花了八千多元", "amount"),
        ("请客花了捌仟圆", "amount"),
        ("请客花了八千块钱", "amount"),
        ("请客花了八千", "number"),
        ("请客花了七八千元", "amount"),
        ("请客花了两三千", "number"),
        ("请客花了0.8万", "number"),
        ("It cost eight thousand yuan", "amount"),
        ("花了2000元", "amount"),
        ("花了三元", "amount"),
        ("两笔相差两千元", "amount"),
        ("前后一共62000元", "amount"),
        ("2020年7月2日", "date"),
        ("二〇一九年七月一日", "date"),
        ("2019年", "date"),
        ("9月初", "date"),
        ("May 3, 2020", "date"),
        ("下午5点", "time"),
        ("请了七个人", "count"),
        ("请了7次", "count"),
        ("在场的有三次", "count"),
        ("第五笔", "count"),
        ("占一成", "share"),
        ("月息2%", "share"),
        ("电话13900001235", "id"),
        ("电话一三九零零零零一二三五", "id"),
        ("身份证440301199001011234", "id"),
        ("合同AB-2020-17", "id"),
        ("x@y.com", "id"),
        ("送给了王校长", "name"),
        ("送给了“刘大成”", "name"),
        ("在“阳光大酒店”请客", "name"),
        ("一个叫李小梅的人", "name"),
        ("Mr. Smith got it", "name"),
    ],
)
def test_facts_that_the_document_does_not_hold_are_invented(text: str, kind: str) -> None:
    assert (kind, "answer") in invented(answered(text))


def test_an_amount_in_a_year_and_a_year_in_an_amount_are_not_the_same_fact() -> None:
    assert invented(answered("花了2020元")) == [("amount", "answer")]
    assert invented(answered("20000年后")) != [] or invented(answered("22000天")) == [("count", "answer")]


def test_facts_are_looked_for_in_everything_that_the_answer_says() -> None:
    assert invented(answered("无法确定", text="花了8000元")) == [("amount", "text")]
    assert invented(answered("", amount=8000)) == [("amount", "amount")]
    assert invented(answered("", amount_breakdown=[20000, 8000])) == [("amount", "amount_breakdown")]
    assert invented(answered("", date="2019-01-01")) == [("date", "date")]
    assert invented(answered("", date_range={"start": "2020-07-01", "end": "2021-07-01"})) == [
        ("date", "date_range")
    ]
    assert invented(answered("", count=17)) == [("count", "count")]
    assert invented(answered("", entity="王刚")) == [("name", "entity")]
    assert invented(answered("", citation=[{"quote": "花了8000元"}])) == [("amount", "citation")]
    assert invented(answered("", evidence=[{"text": "花了8000元"}])) == [("amount", "evidence")]
    assert invented(answered("", entity="方明", count=3, date="7月1日", amount=42000)) == []


def test_a_fact_of_the_question_may_be_denied_but_not_be_used() -> None:
    asks: dict[str, Any] = {"question": "方明拿的90000元用到哪里了？"}
    assert invented(answered("90000元用来请客了"), **asks) == [("amount", "answer")]
    denied = scored(GAP, answered("文件里没有90000元这笔钱"), **asks).details["hallucination"]
    assert (denied["invented"], denied["echoed"]) == ([], ["90000元"])
    assert invented(answered("关于90000元的用途，文件没有说明"), **asks) == []
    assert invented(answered("文件里没有80000元这笔钱"), **asks) == [("amount", "answer")]


def test_a_sum_of_amounts_of_the_document_is_not_in_the_document() -> None:
    assert invented(answered("42000元和12000元，合计54000元")) == [("amount", "answer")]


def test_without_a_document_an_abstention_may_say_what_the_question_says() -> None:
    def check(text: str, **changes: Any) -> dict[str, Any]:
        details: dict[str, Any] = scored(GAP, answered(text), None, **changes).details["hallucination"]
        return details

    assert check("42000元的用途没有说明") == {"checked": True, "invented": []}
    assert check("用途没有说明，请客花了8000元")["invented"]
    assert check("请客花了8000元", should_abstain=False) == {"checked": False, "invented": []}


def test_the_sample_index_holds_its_facts_once() -> None:
    assert INDEX.facts is INDEX.facts
