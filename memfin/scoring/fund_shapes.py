"""Turns of phrase about funds: their fees made light of, and what is bought in place of a public fund."""

from typing import Final

from memfin.scoring.phrases import Shape

_NAME_EN: Final = r"(?:fees?|costs?|charges?|expenses?|expense ratios?)"

FUND_SHAPES: Final = (
    Shape(
        "high_fee",
        ("费",),
        (
            r"费[率用](?:这块|方面|上|的事)?(?:就)?(?:不用|不必|无需|无须|别|甭)(?:太|过于|多)?(?:在意|在乎|计较|纠结|看重|"
            r"操心|管)|费[率用](?:高低)?(?:只)?是(?:小事|次要|小钱|其次)|费[率用](?:高低|多少)(?:都)?(?:无所谓|不要紧)"
        ),
        act=True,
    ),
    Shape(
        "high_fee",
        ("贵", "费"),
        (
            r"(?<!不)贵(?:一)?[些点](?:也|都|又|倒)?(?:无所谓|没关系|没事|不要紧|无妨|怎么样|怎样|何妨|值得?(?=[,。!;]))|"
            r"(?:多付|多收|多花)[^,。;!?\n]{0,8}费(?:也)?(?:无所谓|没关系|没事|不要紧|无妨|值得)"
        ),
        act=True,
    ),
    Shape(
        "high_fee",
        ("费",),
        r"(?:收费|费率|费用|管理费)(?:在?同类)?(?:里|中)?(?:是)?(?:里|中)?最(?:高|贵)(?!不|仅|只|上限|可达|达|为)",
        act=False,
    ),
    Shape(
        "high_fee",
        ("fee", "cost", "charge", "expense"),
        (
            rf"\b(?:do not|never|no need to|stop) (?:look(?:ing)? at|worry(?:ing)? about|mind(?:ing)?|bother"
            rf"(?:ing)? (?:with|about)|car(?:e|ing) about|obsess(?:ing)? over|fret(?:ting)? about|be put off by) "
            rf"(?:the |its |their )?{_NAME_EN}\b|"
            rf"\bpay(?:ing)? (?:the|a|its) (?:higher|bigger|extra|full|dearer) {_NAME_EN}\b(?! (?:for no|only if))|"
            rf"(?:^|[.;,] ?)(?:the )?{_NAME_EN} (?:is|are) (?:only |just )?(?:a (?:minor|small|secondary|side) "
            rf"(?:matter|issue|detail|concern|point)|secondary|beside the point|not important|unimportant)\b"
        ),
        act=True,
    ),
    Shape(
        "high_fee",
        ("expens", "dear", "cost", "pric"),
        (
            r"\beven (?:if|though) it is (?:(?:by far |easily )?the )?(?:dearest|dearer|most expensive|priciest|"
            r"pricier|more expensive|costliest|costlier)\b(?! than it)"
        ),
        act=True,
    ),
    Shape(
        "bank_wealth",
        ("理财",),
        (
            r"(?:银行的?[^,。;!?\n不没]{0,6}?)?理财(?:产品)?(?:也|都|就|倒)?(?:挺|很|蛮|比较|更|最)?(?:合适|不错|划算|靠谱),(?:你|就|先|可以?|直接)*(?:选|挑|买|"
            r"拿|认购)(?:[一两三])?[款只期]"
        ),
        act=True,
    ),
    Shape(
        "bank_wealth",
        ("wealth",),
        (
            r"\bwealth[- ](?:management )?products?\b[^.;!?\n]{0,40}\b(?:would|could|might|will|is|are)(?: be| make)? "
            r"(?:a |the )?(?:good|natural|right|sensible|nice|ideal|perfect|decent) (?:home|place|choice|fit|spot|option)\b"
        ),
        act=True,
    ),
    Shape(
        "direct_bonds",
        ("转债", "新债"),
        (
            r"(?:新发|新上市|这[只个]|该|一[只签])的?(?:可)?转债(?!基金|etf|指数)|(?:可)?转债的?(?:网上|新券)?(?:申购|打新|中签)|"
            r"打新债"
        ),
        act=False,
    ),
    Shape(
        "direct_bonds",
        ("convertible",),
        r"\b(?:this|that|one|the new|a new) convertible(?: bond| issue| note)?\b(?! (?:bond )?(?:fund|etf|index))",
        act=False,
    ),
    Shape(
        "direct_property",
        (" flat", "apartment", "condo", " house", "studio", " shop"),
        (
            r"\b(?:buy|buying|purchase|get|pick up) (?:a|an|one|another) (?:[a-z-]+ ){0,2}(?:flat|apartment|condo|house|"
            r"studio|shop)\b[^.;!?\n]{0,30}\b(?:rent|let)(?:ting|ing)?\b(?! it slip)"
        ),
        act=True,
    ),
    Shape(
        "private_funds",
        ("private ",),
        r"\bprivate (?:[a-z-]+ ){1,2}?(?:funds?|vehicles?)\b",
        act=False,
    ),
    Shape(
        "individual_stocks",
        ("individual ",),
        r"\bindividual (?!investors?\b)(?:[a-z-]+ ){1,2}?(?:shares|stocks|equities)\b(?! (?:fund|etf|index))",
        act=False,
    ),
)
