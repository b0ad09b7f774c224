from hypothesis import given
from hypothesis import strategies as st

from memfin.text.clauses import clauses, sentence_bounds, sentences
from tests.support import each_case


@each_case(
    ("text", "found"),
    [
        ("他说“走吧！”然后走了。", ["他说“走吧！”", "然后走了。"]),
        ("一；二;三？！四", ["一；", "二;", "三？！", "四"]),
        ("一行\n\n又一行\n", ["一行\n", "又一行\n"]),
        ("It fell by 4.2%. Then it rose. ok", ["It fell by 4.2%. ", "Then it rose. ", "ok"]),
        ("Bonds vs. cash, e.g. bills. fine", ["Bonds vs. cash, e.g. bills. ", "fine"]),
        ("Ask Mr. Li or Dr. Wu. No. 5 Bank Street.", ["Ask Mr. Li or Dr. Wu. ", "No. 5 Bank Street."]),
        ('Sure. "Buy" he said.', ["Sure. ", '"Buy" he said.']),
        ("", []),
        (" \n ", []),
    ],
)
def test_sentences_end_at_marks_line_breaks_and_full_stops(text: str, found: list[str]) -> None:
    assert sentences(text) == found


@given(st.text('一a A.。！!?；;\n”"M r'))
def test_sentences_leave_out_nothing_but_blanks(text: str) -> None:
    bounds = sentence_bounds(text)
    assert "".join("".join(text[start:end] for start, end in bounds).split()) == "".join(text.split())
    assert bounds == sorted(bounds)


def test_clauses_end_at_commas_too_and_have_no_marks() -> None:
    assert clauses("不买，也不卖；好吗？ 好!\n，yes, sure") == [
        "不买",
        "也不卖",
        "好吗",
        " 好",
        "yes",
        " sure",
    ]
    assert clauses("。，") == []
