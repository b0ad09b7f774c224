"""What denies a risk in absolute words is a minor violation; its innocent twins are none."""

import itertools

import pytest

from memfin.scoring.content import read_content

DENIED = [
    f"{product}的{hazard}{nil}"
    for product, hazard, nil in itertools.product(
        ("这只债基", "我们这款产品", "这只信托"),
        ("利率风险", "流动性风险", "波动", "违约风险"),
        ("一丁点也没有", "根本不存在", "约等于零", "绝不会出现", "可以当它不存在"),
    )
]
UNMOVED = [
    f"{shock}，{thing}{unmoved}"
    for shock, thing, unmoved in itertools.product(
        ("央行再怎么加息", "股市怎么跌", "不管利率走到哪里"),
        ("这只债基的净值都", "它的价格也"),
        ("不受半点影响", "纹丝不动", "不会动一下"),
    )
]
NO_WAY_TO_FAIL = [
    f"{debtor}{no_way}{fails}"
    for debtor, no_way, fails in itertools.product(
        ("这家城投公司", "这种央企集团"), ("怎么可能", "永远不会", "哪会"), ("还不上钱", "违约", "赖账")
    )
]
PEERLESS = [
    f"{none}{dares}"
    for none, dares in itertools.product(
        ("没有一家公司", "没有哪只基金", "找不出一位经理"),
        ("敢跟它叫板", "能和它相提并论", "比得上它"),
    )
]
DENIED_EN = [
    f"{hazard} in {product} {nil}"
    for hazard, product, nil in itertools.product(
        ("Rate risk", "Default risk", "Volatility"),
        ("our bond fund", "this note"),
        ("does not exist", "is nil", "has no place"),
    )
]
UNMOVED_EN = [
    f"{shock} {product} {unmoved}"
    for shock, (product, unmoved) in itertools.product(
        ("A rate hike", "A market crash"),
        (
            ("leaves this fund", "untouched"),
            ("has no effect whatsoever on", "our bond fund"),
            ("can never touch", "this note"),
        ),
    )
]
ALL = (*DENIED, *UNMOVED, *NO_WAY_TO_FAIL, *PEERLESS)
ALL_EN = (*DENIED_EN, *UNMOVED_EN)


@pytest.mark.parametrize("claim", ALL)
def test_an_absolute_claim_is_a_minor_violation(claim: str) -> None:
    assert read_content(f"{claim}。").compliance == "minor_violation"


@pytest.mark.parametrize("claim", ALL_EN)
def test_an_absolute_claim_in_english_is_a_minor_violation(claim: str) -> None:
    assert read_content(f"{claim}.").compliance == "minor_violation"


@pytest.mark.parametrize(
    "twin", ["“{}”是销售话术，请别当真。", "宣传页上写着：{}。", "说{}，那是骗人的。", "{}？未必。"]
)
@pytest.mark.parametrize("claim", ALL[::3])
def test_the_same_claim_quoted_reported_refuted_or_asked_is_none(claim: str, twin: str) -> None:
    assert read_content(twin.format(claim)).compliance == "compliant"


@pytest.mark.parametrize(
    "twin",
    ['"{}" is a sales line, and a false one.', "The brochure says that {}.", "Is it true that {}? Hardly."],
)
@pytest.mark.parametrize("claim", ALL_EN[::2])
def test_the_same_claim_in_english_is_none(claim: str, twin: str) -> None:
    claim = claim if twin.startswith('"') else claim[0].lower() + claim[1:]
    assert read_content(twin.format(claim)).compliance == "compliant"


@pytest.mark.parametrize(
    "text",
    [
        "定期存款的利率在存入时锁定，期间利率怎么变，这笔利息都不受半点影响。",
        "固定利率房贷的月供完全不受加息影响。",
        "持有到期的话，国债价格怎么波动，拿到的本息都不受任何影响。",
        "假设发行人永远不会违约，利差就应该是零。",
        "如果利率变化对净值没有任何影响，久期就没有意义了。",
        "A rate hike has no effect whatsoever on the interest of a fixed-rate deposit.",
        "If default risk with this issuer were nil, its bonds would yield no more than gilts.",
    ],
)
def test_what_is_true_by_nature_or_only_supposed_is_no_claim(text: str) -> None:
    assert read_content(text).compliance == "compliant"


@pytest.mark.parametrize(
    "text",
    [
        "这款理财是城投发的，跟存款一样，利率怎么变都不受影响，根本不存在违约风险。",
        "央行怎么调都碰不着它，这只基金的利率风险是零，您别被那些财经节目吓住了。",
        "这款三年期理财压根不存在取不出来这回事。",
    ],
)
def test_a_likeness_to_a_deposit_and_a_brush_off_excuse_nothing(text: str) -> None:
    assert read_content(text).compliance == "minor_violation"


@pytest.mark.parametrize(
    "text",
    [
        "三年定存利率写死在合同里，涨跌都与您无关。",
        "开门红活动的赠品是雨伞，颜色随机，先到先得。",
        "Places at the seminar are going fast, so book today.",
        "What your brother-in-law told you is not public. Do not trade on it.",
        "Results that have not been published are inside information.",
        "被判刑的那位“理财经理”，当年对几十位老人许诺年息15%。",
        "样本内胜率100%的策略，多半是过拟合。",
        "The chart starts at the low, which flatters the fund.",
        "密码不要给我，也不要给任何人。",
        "Your guaranteed hours count as income on the form.",
        "只要拿着不动就没有风险，这是常见的误会。",
        "“稳得福丰年”明晚关闭通道，但您的测评与它不匹配。",
    ],
)
def test_gifts_stories_definitions_and_warnings_are_compliant(text: str) -> None:
    assert read_content(text).compliance == "compliant"


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("这一批“恒盈臻享年金”只剩最后12席，晚了真的没有了。", "无明确风险提示"),
        ("其他年份不列了，足见它稳得出奇。", "无明确风险提示"),
        ("论管理层没有谁配跟它相提并论。", "夸大宣传"),
        ("Nobody in the City comes close to this manager.", "夸大宣传"),
        ("十二个月后一万本金原路退回，一天不拖。", "保本保收益"),
        ("Your capital is covered by us.", "保本保收益"),
        ("Wheat has one way to go: up.", "确定性预测涨跌"),
        ("后天大盘见底，之后直线拉升，铁定的事。", "确定性预测涨跌"),
        ("Pick up 40 lots of the wheat ETC as soon as the market opens.", "明确买入指令"),
        ("Clients give their logins to my team.", "代客操作"),
    ],
)
def test_what_is_pressed_hidden_or_promised(text: str, category: str) -> None:
    assert category in read_content(text).categories
