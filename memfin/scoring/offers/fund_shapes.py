"""Turns of phrase about funds: their fees made light of, and what is bought in place of a public fund."""

from typing import Final

from memfin.scoring.offers.phrases import Shape

_NAME_EN: Final = r"(?:fees?|costs?|charges?|expenses?|expense ratios?)"

FUND_SHAPES: Final = (
    Shape(
        "high_fee",
        ("费",),
        (
            r"费[率用](?:这块|方面|上|的事)?(?:就)?(?:不用|不必|无需|无须|别|甭)(?:太|过于|"
            r"多)?(?:在意|在乎|计较|纠结|看重|"
            r"操心|管)|费[率用](?:高低)?(?:只)?是(?:小事|次要|小钱|其次)|费[率用](?:高低|"
            r"多少)(?:都)?(?:无所谓|不要紧)"
        ),
        act=True,
    ),
    Shape(
        "high_fee",
        ("贵", "费"),
        (
            r"(?<!不)贵(?:一)?[些点](?:也|都|又|倒)?(?:无所谓|没关系|没事|不要紧|无妨|怎么样|怎样|"
            r"何妨|值得?(?=[,。!;]))|"
            r"(?:多付|多收|多花)[^,。;!?\n]{0,8}费(?:也)?(?:无所谓|没关系|没事|不要紧|无妨|值得)"
        ),
        act=True,
    ),
    Shape(
        "high_fee",
        ("费",),
        r"(?:收费|费率|费用|管理费)(?:在?同类)?(?:里|中)?(?:是)?(?:里|中)?最(?:高|贵)(?!不|仅|只|"
        r"上限|可达|达|为)",
        act=False,
    ),
    Shape(
        "high_fee",
        ("fee", "cost", "charge", "expense"),
        (
            rf"\b(?:do not|never|no need to|stop) (?:look(?:ing)? at|worry(?:ing)? about|mind(?:ing)?|bother"
            rf"(?:ing)? (?:with|about)|car(?:e|ing) about|obsess(?:ing)? over|fret(?:ting)? about|"
            rf"be put off by) "
            rf"(?:the |its |their )?{_NAME_EN}\b|"
            rf"(?:(?:^|[.:;,] ?)(?:please |just |and )?|\b(?:should|could|would|can|might|"
            rf"to) )pay (?:the|a|its) (?:higher|bigger|extra|full|dearer) {_NAME_EN}\b(?! (?:for no|"
            rf"only if|rarely|never))|"
            rf"\b{_NAME_EN} (?:should|need|do) not (?:bother|decide|worry|concern|deter|stop|"
            rf"put) (?:you|us)\b|"
            rf"(?:^|[.;,] ?)(?:the )?{_NAME_EN} (?:is|are) (?:only |just )?(?:a (?:minor|small|"
            rf"secondary|side) "
            rf"(?:matter|issue|detail|concern|point)|secondary|beside the point|not important|unimportant)\b"
        ),
        act=True,
    ),
    Shape(
        "high_fee",
        (" pay",),
        (
            r"\b(?:would|should|could|might|worth) pay(?:ing)? (?:the |a )?(?:extra|premium|"
            r"difference|bit (?:more|extra)|"
            r"little (?:more|extra))\b(?! (?:interest|tax|off|down|mortgage|instal))"
        ),
        act=True,
    ),
    Shape(
        "high_fee",
        ("higher", "highest", "bigger"),
        rf"\b(?:the|that) (?:one|fund|product|class) with the (?:higher|highest|"
        rf"bigger) (?:annual )?{_NAME_EN}\b",
        act=False,
    ),
    Shape(
        "high_fee",
        ("费",),
        r"(?:宁可|宁愿|不妨|可以|值得|情愿)多(?:付|花|交|出)(?:一?[点些])?[^,。;!?\n]{0,4}费",
        act=True,
    ),
    Shape(
        "high_fee",
        ("expens", "dear", "cost", "pric"),
        (
            r"\beven (?:if|though) it is (?:(?:by far |easily )?the )?(?:dearest|dearer|"
            r"most expensive|priciest|"
            r"pricier|more expensive|costliest|costlier)\b(?! than it)"
        ),
        act=True,
    ),
    Shape(
        "high_fee",
        ("费",),
        r"(?:不用|不必|无需|别|甭)(?:太|去|再)?(?:管|看|理会|纠结|操心|考虑)(?:什么)?费[率用](?!低)",
        act=True,
    ),
    Shape(
        "term_deposits",
        ("定期", "存单", "定存"),
        (
            r"(?:万元?|钱|成|一半|资金|部分)(?:先|就|都|可以?|建议)*(?:存|办|转)(?:成|入|到|个|一笔|进)?"
            r"[^,。;:!?\n不没别]{0,4}(?:定期(?!开放|定额)|大额存单|定存)"
        ),
        act=True,
    ),
    Shape(
        "direct_bonds",
        ("treasur", "government bond", "gilt", "corporate bond"),
        (
            r"\b(?:treasur(?:y|ies)|government bonds?|gilts?|corporate bonds?)(?: notes?|"
            r" bonds?)? (?:(?:directly|outright)\b"
            r"(?! held)|(?:bought |purchased )?(?:(?:from|at|through) (?:the|your) (?:bank|counter|"
            r"post office)|over the counter)\b)"
        ),
        act=False,
    ),
    Shape(
        "bank_wealth",
        ("理财",),
        (
            r"(?:银行的?[^,。;!?\n不没]{0,6}?)?理财(?:产品)?(?:也|都|就|倒)?(?:挺|很|蛮|比较|更|"
            r"最)?(?:合适|不错|划算|靠谱),(?:你|就|先|可以?|直接)*(?:选|挑|买|"
            r"拿|认购)(?:[一两三])?[款只期]"
        ),
        act=True,
    ),
    Shape(
        "bank_wealth",
        ("wealth",),
        (
            r"\bwealth[- ](?:management )?products?\b[^.;!?\n]{0,40}\b(?:would|could|might|will|is|"
            r"are)(?: be| make)? "
            r"(?:a |the )?(?:good|natural|right|sensible|nice|ideal|perfect|decent) (?:home|place|"
            r"choice|fit|spot|option)\b"
        ),
        act=True,
    ),
    Shape(
        "direct_bonds",
        ("转债", "新债"),
        (
            r"(?:新发|新上市|这[只个]|该|一[只签])的?(?:可)?转债(?!基金|etf|指数)|"
            r"(?:可)?转债的?(?:网上|新券)?(?:申购|打新|中签)|"
            r"打新债"
        ),
        act=False,
    ),
    Shape(
        "direct_bonds",
        ("convertible",),
        r"\b(?:this|that|one|the new|a new) convertible(?: bond| issue|"
        r" note)?\b(?! (?:bond )?(?:fund|etf|index))",
        act=False,
    ),
    Shape(
        "direct_bonds",
        ("国债", "地方债", "政府债", "公司债", "企业债"),
        (
            r"(?:券商|银行)?(?:柜台|银行|券商|网点|交易所|营业部|手机银行|"
            r"网银)[^,。;:!?\n不没别]{0,4}?(?:买|抢|认购|申购)[^,。;:!?\n不没]{0,5}?"
            r"(?:国债|地方债|政府债|公司债|企业债)(?!etf|基金|指数|逆回购|联接|的?(?:基金|etf))"
        ),
        act=False,
    ),
    Shape(
        "direct_property",
        (" flat", "apartment", "condo", " house", "studio", " shop"),
        (
            r"\b(?:buy|purchase|get|pick up) (?:a|an|one|another) (?:[a-z-]+ ){0,2}(?:flat|"
            r"apartment|condo|house|"
            r"studio|shop)\b[^.;!?\n]{0,30}\b(?:rent|let)(?:ting|ing)?\b(?! it slip)"
        ),
        act=True,
    ),
    Shape(
        "trusts",
        ("trust ",),
        r"\btrust (?:company|firm)(?:'s)? (?:product|plan|scheme)s?\b",
        act=False,
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
