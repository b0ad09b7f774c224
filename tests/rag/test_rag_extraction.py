"""What answers say: amounts, counts, dates, numbers in every form, ids, names, yes and no."""

import math
from functools import partial

from memfin.rag.extraction.answers import (
    ReadAnswer,
    choose_amount,
    choose_breakdown,
    choose_count,
    choose_date,
    choose_range,
    polarity,
)
from memfin.rag.extraction.facts import (
    PartialDate,
    find_dates,
    find_facts,
    find_names,
    find_ranges,
    find_times,
    is_name,
    ordering_masked,
    parse_date,
)
from memfin.rag.extraction.normalize import (
    contains,
    find_quote,
    fold,
    plain,
    quote_parts,
)
from memfin.text.numbers import number_value
from tests.support import calls, each_case


@each_case(
    ("written", "value"),
    [
        ("42000", 42000),
        ("42,000", 42000),
        ("1,234,567.5", 1234567.5),
        ("4.2万", 42000),
        ("1.1万", 11000),
        ("四万二千", 42000),
        ("四万二", 42000),
        ("三百八", 380),
        ("一亿二", 120_000_000),
        ("壹万贰仟", 12000),
        ("叁拾伍萬", 350_000),
        ("两千", 2000),
        ("两千零五", 2005),
        ("一万零五百", 10500),
        ("3万5千", 35000),
        ("3万5", 35000),
        ("5万2000", 52000),
        ("12万3456", 123456),
        ("十二点五万", 125000),
        ("1万亿", 10**12),
        ("十", 10),
        ("廿五", 25),
        ("二〇二〇", 2020),
        ("4.2w", 42000),
        ("42k", 42000),
        ("forty-two thousand", 42000),
        ("a hundred and five", 105),
        ("42 thousand", 42000),
        ("1.5 million", 1_500_000),
    ],
)
def test_numbers_are_read_in_every_form(written: str, value: float) -> None:
    assert number_value(written) == value


@each_case(
    ("text", "values"),
    [
        ("5毛", [0.5]),
        ("八毛钱", [0.8]),
        ("3元2角5分钱", [3.25]),
        ("三块两毛五", [3.25]),
        ("£4.15m, or 4.15 million pounds", [4150000, 4150000]),
        ("五角", [0.5]),
        ("50分钱", [0.5]),
        ("一元二角五分", [1.25]),
        ("三角形的三毛在五角星旁,考了50分", []),
    ],
)
def test_coins_are_amounts(text: str, values: list[float]) -> None:
    assert [fact.value for fact in find_facts(text) if fact.kind == "amount"] == values


@each_case(
    ("text", "first", "last"),
    [
        ("2020.6.5-2020.8.10", (2020, 6, 5), (2020, 8, 10)),
        ("2020-06-05-2020-08-10", (2020, 6, 5), (2020, 8, 10)),
        ("2020.6.5-8.10", (2020, 6, 5), (2020, 8, 10)),
        ("2020.06.05到06.10期间", (2020, 6, 5), (2020, 6, 10)),
        ("2020.6.5~10", (2020, 6, 5), (2020, 6, 10)),
        ("2020年8月廿九日至卅日", (2020, 8, 29), (2020, 8, 30)),
    ],
)
def test_periods_of_dotted_dates_and_old_numerals(
    text: str, first: tuple[int, int, int], last: tuple[int, int, int]
) -> None:
    assert find_ranges(text) == [(PartialDate(*first), PartialDate(*last))]


@each_case("written", ["", "亿" * 500, "9" * 400, "and", "thousand of them", "五五十", "4.2.2万"])
def test_what_is_no_number_has_no_value(written: str) -> None:
    assert number_value(written) is None


@each_case(
    ("left", "right"),
    [
        ("１２，０００元", "12,000 元"),
        ("具体 请了谁，吃饭！", "具体请了谁吃饭"),
        ("“都忘记了。”", "都忘记了"),
        ("**四万二**千", "四万二千"),
        ("It's  paid—twice", "its paid twice"),
        ("2020-08-30", "2020/08/30"),
        ("Ａ座 B栋", "a座b栋"),
        ("都忘\n记了", "都忘记了"),
    ],
)
def test_width_case_blanks_and_punctuation_do_not_count(left: str, right: str) -> None:
    assert fold(left) == fold(right)


@each_case(
    ("left", "right"),
    [
        ("1、2000元", "12000元"),
        ("100，200元", "100200元"),
        ("4.2万", "42万"),
        ("三、四个", "三四个"),
        ("piano loan", "pianoloan"),
        ("12 000", "12000"),
        ("12,34", "1234"),
        ("1234,567", "1234567"),
    ],
)
def test_two_numbers_or_words_never_grow_into_one(left: str, right: str) -> None:
    assert fold(left) != fold(right)


@each_case(
    ("needle", "text", "found"),
    [
        ("2000元", "给了2000元", True),
        ("2000元", "给了12000元", False),
        ("2000元", "给了0.2000元", False),
        ("2000元", "给了2,000元", True),
        ("2000元", "1、2000元", True),
        ("42000", "共42000元", True),
        ("42000", "共420000元", False),
        ("42", "共42.5元", False),
        ("2000", "2000万元", False),
        ("三万元", "十三万元", False),
        ("三万元", "给了三万元", True),
        ("四万", "四万二千元", False),
        ("2000元", "一共12000元，其中2000元", True),
        ("。", "句号。", False),
    ],
)
def test_a_number_matches_at_its_boundary_only(needle: str, text: str, found: bool) -> None:
    assert contains(fold(needle), fold(text)) is found


def test_an_ellipsis_in_a_quote_stands_for_words_left_out() -> None:
    text = fold("具体请了谁吃饭，给谁送过东西，我都忘记了。")
    assert list(find_quote(quote_parts("具体请了谁吃饭...都忘记了"), text)) == [(0, len(text))]
    assert list(find_quote(quote_parts("具体请了谁吃饭……都忘记了"), text))
    assert not list(find_quote(quote_parts("都忘记了...具体请了谁吃饭"), text))
    assert not list(find_quote(quote_parts("..."), text))
    far = fold("具体请了谁吃饭" + "一" * 500 + "都忘记了")
    assert not list(find_quote(quote_parts("具体请了谁吃饭...都忘记了"), far))


@each_case(
    ("text", "dates"),
    [
        ("2020年8月30日左右", ["2020-08-30"]),
        ("二〇二〇年八月三十日", ["2020-08-30"]),
        ("２０２０年８月３０日", ["2020-08-30"]),
        ("2020 年 8 月 30 日", ["2020-08-30"]),
        ("20年8月30号", ["2020-08-30"]),
        ("2020-08-30", ["2020-08-30"]),
        ("2020/8/30", ["2020-08-30"]),
        ("2020.8.30", ["2020-08-30"]),
        ("20200830", ["2020-08-30"]),
        ("2020-08", ["2020-08"]),
        ("2020年8月", ["2020-08"]),
        ("8月30日", ["--08-30"]),
        ("八月底", ["--08"]),
        ("2020年", ["2020"]),
        ("30号", ["---30"]),
        ("August 30, 2020", ["2020-08-30"]),
        ("the 30th of August 2020", ["2020-08-30"]),
        ("Aug. 2020", ["2020-08"]),
        ("since 2020 and in August", ["2020", "--08"]),
        ("08/30/2020 or 30/08/2020", ["2020-08-30", "2020-08-30"]),
        ("正月初三", ["--01-03"]),
    ],
)
def test_dates_are_read_whole_or_partial(text: str, dates: list[str]) -> None:
    assert [found.value.iso() for found in find_dates(plain(text))] == dates


@each_case(
    "text",
    [
        "2月30日",
        "2021年2月29日",
        "3个月",
        "42000元",
        "30日内归还",
        "第30日",
        "2020.8",
        "it may be",
        "3号楼",
        "13月",
    ],
)
def test_what_is_no_date_is_read_as_none(text: str) -> None:
    assert find_dates(plain(text)) == [] or "2021" in text


def test_the_29th_of_february_is_there_in_leap_years() -> None:
    assert [found.value.iso() for found in find_dates("2020年2月29日")] == ["2020-02-29"]
    assert parse_date("2021-02-29") is None


@each_case(
    ("text", "first", "last"),
    [
        ("2020年7月1日至8月30日", "2020-07-01", "2020-08-30"),
        ("2020年7月1日—15日", "2020-07-01", "2020-07-15"),
        ("2020年7月到8月之间", "2020-07", "2020-08"),
        ("7月1日到2020年8月3日", "2020-07-01", "2020-08-03"),
        ("2020-07-01 to 2020-08-30", "2020-07-01", "2020-08-30"),
        ("from July 1 until August 3, 2020", "2020-07-01", "2020-08-03"),
    ],
)
def test_what_one_end_of_a_period_leaves_out_the_other_one_gives(text: str, first: str, last: str) -> None:
    (found,) = find_ranges(plain(text))
    assert (found[0].iso(), found[1].iso()) == (first, last)


@each_case(
    ("text", "times"),
    [
        ("14:30", [(14, 30)]),
        ("下午两点", []),
        ("下午3点", [(15, None)]),
        ("上午九点半", [(9, 30)]),
        ("14时05分", [(14, 5)]),
        ("以下3点", []),
        ("晚上8点一刻", [(20, 15)]),
    ],
)
def test_times_of_day(text: str, times: list[tuple[int, int | None]]) -> None:
    assert [found.value for found in find_times(plain(text))] == times


def test_a_typed_date_is_one_date() -> None:
    assert parse_date("2020") == (2020, None, None)
    assert parse_date("8月30日") == (None, 8, 30)
    assert parse_date("2020-08-30 or 2020-08-31") is None
    assert parse_date("soon") is None


def facts(text: str) -> list[tuple[str, object]]:
    return [
        (fact.kind, fact.value.iso() if isinstance(fact.value, PartialDate) else fact.value)
        for fact in find_facts(text)
    ]


@each_case(
    ("text", "expected"),
    [
        ("给了四万二千元", [("amount", 42000.0)]),
        ("壹万贰仟圆整", [("amount", 12000.0)]),
        ("人民币42,000", [("amount", 42000.0)]),
        ("¥4.2万", [("amount", 42000.0)]),
        ("RMB 42,000 and $5", [("amount", 42000.0), ("amount", 5.0)]),
        ("12元5角", [("amount", 12.5)]),
        ("三块五", [("amount", 3.5)]),
        ("二十多万元", [("amount", 200_000.0)]),
        ("forty-two thousand yuan", [("amount", 42000.0)]),
        ("花了四万二千", [("number", 42000.0)]),
        ("请了三个人，分3次", [("count", 3.0), ("count", 3.0)]),
        ("三四个人", [("count", 3.0), ("count", 4.0)]),
        ("三四万元", [("amount", 30000.0), ("amount", 40000.0)]),
        ("前后两三千", [("number", 2000.0), ("number", 3000.0)]),
        ("叁肆佰圆", [("amount", 300.0), ("amount", 400.0)]),
        ("十二三个人", [("count", 12.0), ("count", 13.0)]),
        ("三五百块五毛", [("amount", 300.5), ("amount", 500.5)]),
        ("五三万元", []),
        ("two people", [("count", 2.0)]),
        ("占30%，三成，百分之三十", [("share", 0.3)] * 3),
        ("利率10-20%", [("share", 0.1), ("share", 0.2)]),
        ("电话13800138000", [("id", "13800138000")]),
        ("电话138-0013-8000", [("id", "138-0013-8000")]),
        ("一三八零零一三八零零零", [("id", "13800138000")]),
        ("身份证44030119900101123X", [("id", "44030119900101123X")]),
        ("合同HLC-2021-0388", [("id", "HLC-2021-0388")]),
        ("a.b@c.com", [("id", "a.b@c.com")]),
        ("卡号6222 0210 0100 1234 567", [("id", "6222 0210 0100 1234 567")]),
        ("下午3点", [("time", (15, None))]),
        ("第二次给了两千", [("count", 2.0), ("number", 2000.0)]),
        ("2020年8月30日给了5万", [("date", "2020-08-30"), ("number", 50000.0)]),
        ("给了王老师", [("name", "王老师")]),
        ("她叫李小梅。", [("name", "李小梅")]),
        ("向“王大力”借的", [("name", "王大力")]),
        ("Mr. Smith paid", [("name", "Smith")]),
    ],
)
def test_facts_of_every_kind(text: str, expected: list[tuple[str, object]]) -> None:
    assert sorted(facts(text), key=str) == sorted(expected, key=str)


@each_case(
    "text",
    [
        "1. 第4页：都忘记了。\n2、第105-107行",
        "见第十二页、第3段",
        "(1) 未提及；(2) 不清楚",
        "① 未提及 ② 不清楚",
        "一、未提及\n二、不清楚",
        "see page 4, lines 105-107 [2]",
        "（p. 4）",
        "第一，没有提到；第二，也没有记载",
        "一个人、一些事、第一次",
        "十分抱歉，一共没有提到，千万不要",
        "几万元、数十万、上百人",
        "one of them",
        "星期三，乱七八糟",
        "",
    ],
)
def test_figures_that_only_order_or_fill_a_text_are_no_facts(text: str) -> None:
    assert facts(text) == []


def test_offsets_of_facts_count_in_the_masked_text() -> None:
    text = "1. 第4页：给了 二十多万 元"
    (fact,) = find_facts(text)
    assert ordering_masked(text)[fact.start : fact.end] == "二十万元"


@each_case(
    ("words", "expected"),
    [
        ("王大力", True),
        ("大力公司", True),
        ("禾岚川有限公司", True),
        ("都忘记了", False),
        ("无法确定", False),
        ("请谁吃饭", False),
        ("Acme Holdings", True),
        ("paid in cash", False),
    ],
)
def test_quoted_words_are_a_name_or_a_saying(words: str, expected: bool) -> None:
    assert is_name(words) is expected


def test_titles_that_are_words_are_no_names() -> None:
    assert [name.value for name in find_names("总计、经理、张总、任何老师")] == ["张总"]


@each_case(
    ("text", "said"),
    [
        ("是的，他收了。", True),
        ("有。", True),
        ("没错", True),
        ("已经退还了", True),
        ("不是没有退还", True),
        ("他并不否认收过钱", True),
        ("Yes, he did", True),
        ("No doubt he did", True),
        ("根据笔录，他退了款", True),
        ("没有", False),
        ("不是的，他没收", False),
        ("陈明飞没有退还", False),
        ("根据第4页，尚未退款", False),
        ("No.", False),
        ("He never paid", False),
        ("可能退了", None),
        ("未必", None),
        ("", None),
    ],
)
def test_yes_and_no(text: str, said: bool | None) -> None:
    assert polarity(text) is said


@each_case(
    ("question", "text", "said"),
    [
        ("是否认罪认罚？", "不认罪，也不认罚", False),
        ("是否认罪认罚？", "不认罪也不认罚", False),
        ("是否认罪认罚？", "他表示不认罪不认罚", False),
        ("商家同意赔偿吗？", "不同意，他说最多换货", False),
        ("两份合同有没有不同的地方？", "有，金额不同", True),
        ("是否认罪认罚？", "是否认罪认罚：否", False),
        ("是否认罪认罚？", "是否认罪认罚：是", True),
        ("是否认罪认罚？", "拒绝认罪认罚", False),
        ("他有没有收钱？", "有没有收钱？没收。", False),
        ("他有没有收钱？", "有收钱", True),
        ("他是不是收了钱？", "是不是收了钱？不是。", False),
        ("他会不会退款？", "会退款", True),
        ("他愿不愿意退？", "愿不愿意退：愿意", True),
        ("他没有收钱吗？", "是的，他没有收钱", True),
        ("他没有收钱吗？", "没有", True),
        ("他没有收钱吗？", "没有收", True),
        ("他没有收钱吗？", "不，他收了", False),
        ("他没有收钱吗？", "收了", False),
        ("他否认收钱了吗？", "否认了", True),
        ("他否认收钱了吗？", "没有否认", False),
        ("材料里没有账目，他退款了吗？", "退了", True),
        ("Did he not pay?", "No, he did not pay.", False),
        ("Did he not pay?", "Correct, he did not.", False),
        ("Didn't he pay?", "Yes, he paid.", True),
        ("Didn't he pay?", "Yes", True),
        ("Did he refuse to pay?", "He refused.", True),
        ("Does he plead guilty?", "He pleads not guilty", False),
    ],
)
def test_yes_and_no_to_questions_with_a_negation_or_an_alternative(
    question: str, text: str, said: bool
) -> None:
    assert polarity(text, question) is said


TOTAL = "成龙飞总共给了多少钱？"


@each_case(
    ("text", "amount"),
    [
        ("42000元", 42000),
        ("42000", 42000),
        ("４２，０００元", 42000),
        ("四万二千元", 42000),
        ("分两次给了20000元和22000元，共42000元。", 42000),
        ("先给20000元，后给22000元，加起来42000元", 42000),
        ("收了4.2万元，其中30000元用于请客", 42000),
        ("不是50000元，而是42000元", 42000),
        ("42000元（4.2万元）", 42000),
        ("1. 42000元（第2页）", 42000),
        ("He paid 42,000 yuan (page 2)", 42000),
        ("40000元、42000元或45000元", None),
        ("总共42000或43000元", None),
        ("共20000元，总共30000元，合计42000元", None),
        ("先付30000元，再付12000元，合计4.2万。", 42000),
        ("先付30000元，再付12000元", None),
        ("付了50分", 0.5),
        ("五毛", 0.5),
        ("文件没有提到42000元", None),
        ("不清楚", None),
    ],
)
def test_the_amount_that_an_answer_gives(text: str, amount: float | None) -> None:
    assert choose_amount(ReadAnswer(text, TOTAL)).value == amount


def test_an_amount_of_the_question_is_not_the_answer_when_there_is_another() -> None:
    assert choose_amount(ReadAnswer("42000元里退了10000元", "42000元里退了多少？")).value == 10000
    assert choose_amount(ReadAnswer("退了42000元", "42000元都退了吗？")).value == 42000


@each_case(
    ("text", "parts"),
    [
        ("20000元和22000元，共42000元", (20000, 22000)),
        ("总共42000元，其中20000元现金，22000元转账", (20000, 22000)),
        ("42000元，包括20000元和22000元", (20000, 22000)),
        ("3000元、4600元、4600元，合计12200元", (3000, 4600, 4600)),
        ("42000元", (42000,)),
        ("没有说明", None),
    ],
)
def test_the_parts_of_a_breakdown(text: str, parts: tuple[float, ...] | None) -> None:
    assert choose_breakdown(ReadAnswer(text)).value == parts


@each_case(
    ("text", "question", "count"),
    [
        ("三次", "给了几次？", 3),
        ("3", "给了几次？", 3),
        ("3次，涉及4个人", "给了几次？", 3),
        ("3次，涉及4个人", "涉及多少人？", 4),
        ("一个证人", "有几个证人？", 1),
        ("三次，分别在8月1日和8月2日", "几次？", 3),
        ("twice? no: three times", "how many times?", 3),
        ("3次或4次", "几次？", None),
        ("不止一人", "几个人？", None),
        ("是两次？不，三次", "几次？", 3),
        ("一打鸡蛋", "多少个鸡蛋？", 12),
        ("two dozen eggs", "how many eggs?", 24),
        ("a dozen", "how many eggs?", 12),
        ("half a dozen", "how many eggs?", 6),
        ("半打", "买了多少个？", 6),
        ("一打听就知道，考了50分，来了两次", "几次？", 2),
        ("没说", "几次？", None),
    ],
)
def test_the_count_that_an_answer_gives(text: str, question: str, count: float | None) -> None:
    assert choose_count(ReadAnswer(text, question)).value == count


@each_case(
    ("text", "date"),
    [
        ("2020年8月30日", "2020-08-30"),
        ("2020年8月30日，也就是8月30日", "2020-08-30"),
        ("不是2020年8月1日，是2020年8月30日", "2020-08-30"),
        ("2020年8月1日或2日", None),
        ("2020年8月1日、2020年8月2日", None),
        ("不记得", None),
    ],
)
def test_the_date_that_an_answer_gives(text: str, date: str | None) -> None:
    chosen = choose_date(ReadAnswer(text)).value
    assert (chosen and chosen.iso()) == date


def test_the_period_that_an_answer_gives() -> None:
    for text in (
        "2020年7月1日至8月30日",
        "从2020年7月1日开始，当时还好，8月30日结束",
        "7月1日开始，2020年8月30日结束",
    ):
        period = choose_range(ReadAnswer(text)).value
        assert period is not None
        assert (period[0].iso(), period[1].iso()) == ("2020-07-01", "2020-08-30")
    assert choose_range(ReadAnswer("2020年7月1日")).value is None
    assert choose_range(ReadAnswer("无")).reason == "none_found"


@each_case(
    "piece",
    [
        "2 ",
        "1月",
        "没有关于",
        "  ",
        "1,111,",
        "a-b@",
        "(1",
        "亿",
        "的",
        "第一",
        "\n",
        "“",
        "1*",
        "点",
        "not ",
        "twenty ",
    ],
)
def test_texts_of_one_piece_again_and_again_are_read(piece: str) -> None:
    text = piece * 1000
    told = ReadAnswer(text, text)
    chosen = choose_amount(told).value
    assert chosen is None or math.isfinite(chosen)
    assert len({found.value for found in find_dates(plain(text))}) <= 1
    assert polarity(text) in (True, False, None)
    assert len(quote_parts(text)) <= 1


@each_case("phrase", ["一半", "a@b.c ", "ab-12 ", "1,000 ", "2024年3月1日", "13812345678 "])
def test_eight_times_the_text_is_about_eight_times_the_work(phrase: str) -> None:
    find_facts(phrase)  # loads what is loaded once
    short, long = (calls(partial(find_facts, phrase * count)) for count in (200, 1_600))
    assert long < 12 * short
