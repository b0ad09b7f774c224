"""Whether the words around a hit make it another thing: 银行股基金 is no single stock.

A short company name may lie inside other words (其中行业), a bank may be the place where a fund is bought,
companies may be the holdings of a fund, a margin may be the one of a table.
"""

from collections.abc import Callable
from typing import Final

from memfin.scoring.patterns.expressions import compile_pattern, late
from memfin.scoring.text.language import Analysis
from memfin.scoring.weights.reading import Hit

_FOLLOWED_BY_FUND: Final = late(
    r"^(?:等|类|型|的)?(?:指数|基金|etf|lof|联接|主题|为主的|增强|[^,。;:、的]{0,6}(?:etf|联接|指数基金|"
    r"主题基金)| ?funds?| ?index| ?etf| (?:value|growth|blend|equit|premium|factor))"
)
_FUND_OF_IT: Final = late(r"(?:etf|lof|联接|基金| ?funds?\b)")
_HEDGE: Final = late(r"对冲|保护|套期|保险|hedg|protect")
_TOOL: Final = late(r"(?:用|通过|靠|借助|利用|以)[^,。:;]{0,3}$|\b(?:uses?|using|with|through|via) $")
_TO_THE_USER: Final = late(r"[你我]|建议|可以|不妨|每月|买")
_MEMBER: Final = late(
    r"在[^,。;]{0,10}(?:指数|etf|基金)(?:里|中|内)|(?:指数|etf|基金)的?[^,。;]{0,5}(?:持仓|成分|权重|重仓)|"
    r"\b(?:is|are) (?:both |all |already )?in the (?:tracker|index|fund|etf)\b|"
    r"\bamong (?:its|the fund's) (?:\w+ ){0,2}(?:holdings|positions|stocks|names)\b"
)
"""Companies as members of an index, or holdings of a fund."""
_HOLDS: Final = compile_pattern(
    r"(?:基金|etf|指数|产品|它)(?:的|里|中)?[^,。;:!?\n]{0,8}(?:重仓股?|成[分份]股?|"
    r"前[一二三四五六七八九十\d]+大"
    r"(?:持仓|重仓股?)?|权重股?)[^。;!?\n]{0,6}(?:是|有|为|包括|包含|含|依次|分别|:)[^。;!?\n]{0,40}$|"
    r"\b(?:fund|etf|index|tracker|trust|portfolio)(?:'s)?(?: (?:already|itself|also|biggest|largest|top|main|"
    r"ten|five|three))* (?:holdings?|positions?|names|constituents|owns|holds|held|contains|includes)\b"
    r"[^.;!?\n]{0,60}$"
)
"""What a fund holds, named before its companies: 该基金前三大重仓股是…."""
_STOCK_MATTER: Final = late(r"(?:股票|股市|证券)(?:账户|市场|交易所|代码|知识)")
_INSIDE_BEFORE: Final = {
    "美的": "完优精欧北南唯甜审最更很健华柔秀中肥赞俊艳凄壮纯溢优",
    "长电": "增成特擅",
    "海光": "上青近沿",
    "海康": "上",
    "洋河": "海",
    "李宁": "桃",
    "海天": "上航",
    "宝钢": "元",
    "阿里": "八",
}
"""Company names that end or begin other words, with the signs before them that show it."""
_INSIDE_AFTER: Final = late(r"[业动为情程政使走驶进列人员]")
"""What follows a bank's short name where it is part of another word: 其中行业, 构建行动."""
_BANK: Final = late(r".*(?:银行|[中工建农招交]行)$|一家[^,。]{0,6}银行$|这家[^,。]{0,6}银行$")
_COUNTER: Final = late(
    r"^(?:[的里等]|这|那|手机|网上|线上)*(?:app|网点|柜台|柜面|手机银行|网银|官网|客户经理|"
    r"理财经理|渠道|账户|"
    r"存款|理财|定存|定期|大额存单|存单|活期|卡|信用卡|三年期|两年期|一年期|五年期|朝朝宝|"
    r"结构性|业|间|那边|办|"
    r"开户|开个|存|代销|也有|都有|都能|都可以)"
)
_AT: Final = late(r"(?:在|到|去|从|跟|向|找|问|联系|同)[^,。;:]{0,4}$|\b(?:at|from|with|ask|through) $")
_PAPERS: Final = late(
    r"^的?(?:[^,。;]{0,4})?(?:年报|财报|季报|报表|公告|官网|招股书|研报|业绩会|高管|员工|客户|存款|产品说明)"
)
"""What of a company is read, not bought."""
_APART: Final = late(r"[^,。;!?\n]{0,6}(?:并|完全|都)?(?:不是一回事|不是一码事|是?两回事|是?两码事)|再换回")
"""Things that the reply only tells apart: 数字人民币和虚拟货币不是一回事."""
_DEBTS: Final = late(r"负债|借款|贷款")
_DEBT_RAISED: Final = late(r"(?:增加|新增|提高|扩大|借助|靠|用)[^,。]{0,3}$")
_DEBT_USED: Final = late(r"(?:来|去|再)*(?:投(?!资者)|买|加仓|炒|入市|补仓|配)")
_BUYS: Final = late(r"[贷借][款钱]?买$")
_LENDING: Final = late(r"给|的(?:企业|公司|人|主体|机构|一方)|企业|公司|人|方|主体|合同|协议")
_OTHERS_PLEDGE: Final = late(r"(?:对方|借款人|融资方|交易对手)[^,。;!?\n]{0,6}$")
"""Security that the other side gives."""
_CLOCK: Final = late(r"\d")
_RATIO: Final = late(r"\d+[:比]\d+$")
_REPORTS: Final = late(
    r"report|publish|disclos|valu|updat|figure|nav\b|factsheet|performance|accounts|letter|"
    r"statement|估|披露|公布|报"
)
_YEARLY: Final = late(r"(?:once|twice) (?:a|per|each|every) year")
_TRADING: Final = late(r"\b(?:sell|offload|unload|exit|out|flip|profits?|trade|gone|scalp|rotate)\b")
_DAYS_COUNTED: Final = late(r"[\d一二两三四五六七八九十几个作易]$")
_HOLDING_OF: Final = late(
    r"[^,。;]{0,4}(?:基金|产品|混合|债|理财|fof|那[款只]|的[款只]|版|型|份额|策略)|"
    r"[^,。;]{0,8}(?:不能|不可|不得|无法|赎不)"
)
_SHORTS: Final = late(r"者|机构|盘|力量|压力|机制|报告|数据|比例|余额|(?:的)?仓位|回补|情绪")
_HARDLY_ANY: Final = late(
    r"[^,。;!?\n]{0,8}(?:占比|比例|敞口|仓位|持仓)?[^,。;!?\n]{0,3}(?:不到|不足[1一]|为零|"
    r"是零|很低|极低|几乎没有|很少|接近零|"
    r"为0(?![.\d]))"
)
_TO_YOU: Final = late(r"(?:向|找|跟|问)你$")
_SEEMING: Final = late(r"(?:看着|看上去|听上去|听着|听起来|表面上?|似乎|貌似|乍看)[^,。;!?\n]{0,6}$")
_IN_TRUTH: Final = late(r"[^。;!?\n]{0,16}?,(?:但|可(?![以能])|不过|其实|实际|然而)")
_MARKET_FIGURE: Final = late(r"[^,。;!?\n]{0,3}(?:占成交|占比|占两市|占市场|余额|金额|比重|规模|客户数)")
_OTHERS: Final = late(
    r"\b(?:some|many|most|large|big|other) (?:[a-z]+ ){0,2}(?:schemes|funds|investors|"
    r"institutions|endowments|families|"
    r"people|banks|traders|clients|savers|insurers)\b[^,.;!?\n]{0,40}$"
)
"""What other investors do with their money."""
_BEAR_IT: Final = late(r",[^,。;!?\n]{0,4}(?:拿稳|别慌|忍[住着]|熬|扛[住着]|别管|习惯|受着)")
_MAY: Final = late(r"(?:会|可能|容易|难免|随时)[^,。;!?\n]{0,3}$")
_WORSE_THAN: Final = late(r"[^,。;!?\n]{0,4}(?:稳妥|要?好|更?强|划算|合适|安心|省心|从容)")
_MENTIONED: Final = late(r"[^,.;!?\n]{0,12} (?:that )?you(?:'ve| have)? (?:mention|ask|saw|read|heard)")
_DOWNGRADED: Final = late(
    r"(?:降|下调|调低|跌)(?:到|至|为|级为|级到|成)?[^,。;!?\n]{0,3}$|downgrad\w+ (?:from [a-z+-]+ )?to $"
)
"""What became of a bond is no bond to buy, but where the sentence goes on to buy it."""
_WELL_RATED: Final = late(r"aa(?:a|\+)级?[^,。;!?\n]{0,4}$")
_CALLED: Final = late(r"(?:定义|归|列|视|称|划|算)(?:为|作|入|到|在)$|(?:属于|叫做?|就是)$")
_BY_OTHERS: Final = late(r"(?:由|交给)[^,。;]{0,8}(?:团队|经理|管理人|机构)[^,。;你]{0,4}$")
"""What the people who run a fund do."""
_BOUGHT_NOW: Final = late(
    r"[^。;!?\n]{0,24},[^,。;!?\n]{0,6}(?:建议|可以|不妨|我会|值得)[^,。;!?\n不]{0,8}(?:配|买|拿|放|加|投)"
)
_BECOMES: Final = late(r"(?:可能|将|会|要|再)(?:会|将)?被$")
_OF_THE_FIRMS: Final = late(r"(?: \d+)?(?: companies)?(?:'s?)? (?:revenues?|earnings|sales|profits)\b")
"""What the members of an index earn is nothing to buy."""
_BARRIER: Final = late(r"敲[入出](?:价|线|水平)?[约为是:]?\d")
"""A term of a note in a description of it."""
_AT_HOME: Final = late(r"£|\b(?:isas?|sipp|sterling|gilts?)\b")
"""What shows that the client's own market is the British one."""
_FUTURES: Final = late(r".*(?:期货|futures)$")


def harmless(analysis: Analysis, hit: Hit, *, funds_allowed: bool = False) -> bool:  # noqa: C901, PLR0911, PLR0912 - one a kind
    """Say whether the words around a hit make it another thing; of a fund, where funds are the rule."""
    norm = analysis.norm
    if _APART.match(norm, hit.end) or _HARDLY_ANY.match(norm, hit.end):
        return True
    if _SEEMING.search(norm[max(0, hit.start - 12) : hit.start]) and _IN_TRUTH.match(norm, hit.end):
        return True
    if norm[hit.start - 1 : hit.start] == "拿" and norm.startswith(
        ("来说", "来讲", "打比方", "作例"), hit.end
    ):
        return True
    if hit.term in _ASSETS and _is_sold(norm, analysis, hit):
        return True
    if _passing_word(norm, analysis, hit) or _OF_THE_FIRMS.match(norm, hit.end):
        return True
    if _BARRIER.match(norm, hit.start):
        return True
    if hit.term == "overseas_market" and norm[hit.start : hit.end] == "ftse" and _AT_HOME.search(norm):
        return True
    if hit.term in ("stocks", "individual_stocks") and _STOCK_MATTER.match(norm, hit.start):
        return True
    if hit.term in ("individual_stocks", "financials", "hk_us_stocks") and _other_name(norm, hit):
        return True
    if hit.term == "individual_stocks" and _is_member(analysis, hit):
        return True
    if hit.term in ("individual_stocks", "single_small_cap") and _FOLLOWED_BY_FUND.match(
        norm[hit.end : hit.end + 16]
    ):
        return True
    if (hit.term == "leverage" or funds_allowed) and (
        _FUTURES.match(norm[hit.start : hit.end]) and _FUND_OF_IT.match(norm, hit.end)
    ):
        return True
    if hit.term.startswith("rating:") and _DOWNGRADED.search(norm[max(0, hit.start - 20) : hit.start]):
        return _BOUGHT_NOW.match(norm, hit.end) is None
    if hit.term in ("low_rated_credit", "speculative_grade") and _CALLED.search(
        norm[max(0, hit.start - 6) : hit.start]
    ):
        return True
    if hit.term == "individual_stocks" and _BY_OTHERS.search(norm[max(0, hit.start - 16) : hit.start]):
        return True
    if hit.term == "low_rated_credit" and _WELL_RATED.search(norm[max(0, hit.start - 8) : hit.start]):
        return True
    if hit.term == "st_stocks" and _BECOMES.search(norm[max(0, hit.start - 5) : hit.start]):
        return True
    if hit.term == "private_lending" and norm[hit.end : hit.end + 1] == "的":
        return True
    if hit.term == "derivatives" and _TOOL.search(norm[max(0, hit.start - 8) : hit.start]):
        low, high = analysis.clause_span(hit.start, hit.end)
        return _HEDGE.search(norm, hit.end, high) is not None and _TO_THE_USER.search(norm, low, high) is None
    if hit.term == "opaque_performance" and _YEARLY.match(norm, hit.start):
        return _REPORTS.search(norm, *analysis.sentence_span(hit.start)) is None
    if hit.term in ("leverage", "margin_trading", "off_market_financing") and _no_loan(norm, hit):
        return True
    if hit.term in _OTHERWISE and _OTHERWISE[hit.term](norm, analysis, hit):
        return True
    if hit.term in ("high_volatility", "leverage"):
        return _HEDGE.search(norm, *analysis.sentence_span(hit.start)) is not None
    return False


_ASSETS: Final = frozenset(
    (
        "trusts",
        "precious_metals",
        "physical_gold",
        "convertible_bond",
        "derivatives",
        "st_stocks",
        "private_funds",
        "high_valuation_growth",
        "low_rated_credit",
        "high_fee",
        "structured_fund",
        "overseas_market",
        "hk_us_stocks",
        "single_small_cap",
        "term_deposits",
        "bank_wealth",
    )
)
"""Terms that name something to own, which can be sold."""
_SOLD_BEHIND: Final = late(
    r"(?![^。!?\n]{0,40}(?:申购|打新|坚持|继续(?:买|配)))[^。;!?\n不别没勿]{0,16}?(?:卖掉|全部卖|卖光|平仓|"
    r"到期之?后?(?:就|可以|直接|再|都|不妨|建议)*(?:转|换|挪|拨|买|投)(?!存|为定期)|"
    r"平掉|回购掉|赎回|清仓|清掉|减掉|脱手|处理掉|不再续|变现)"
    r"(?!费|期|规则|[^,。;!?\n]{0,12}(?:再|重新|回来)(?:买|接|进))"
)
_BOUGHT_BEFORE: Final = late(r"(?:买[入进]?|申购|认购|配置?|建仓|布局|换成|转成)[^。;!?\n]{0,12}$")
_SOLD_BEFORE: Final = late(
    r"\b(?:redeem|sell|take profits on|switch out of|exit|get rid of|dispose of|cash in|close out)\b"
    r"(?:(?!\b(?:buy|purchase|and|into|naked|covered|puts?|calls?|options?)\b)[^.;!?\n]){0,60}$"
)


def _is_sold(norm: str, analysis: Analysis, hit: Hit) -> bool:
    """Say whether what is named is to be sold, which may pay for something else."""
    low, high = analysis.sentence_span(hit.start)
    if norm[hit.start] > "\u2e80":
        bought = _BOUGHT_BEFORE.search(norm, low, hit.start) is not None
        return not bought and _SOLD_BEHIND.match(norm, hit.end, high) is not None
    return _SOLD_BEFORE.search(norm, max(low, hit.start - 90), hit.start) is not None


_SOLD_THERE: Final = late(
    r"(?:收入|营收|营业额|销售额?|销量|业务|利润|订单|产能|客户)[^,。;!?\n]{0,6}(?:来自|在|源自|靠|出自|"
    r"面向)$|"
    r"(?:卖|销|出口)[到往至去]?$|"
    r"\b(?:sales|revenues?|turnover|profits?|earns?|earnings|sells?|exports?|customers|factories)\b"
    r"(?:(?!\b(?:buy|purchase|put|invest|move|into|add|hold)\b)[^,.;!?\n]){0,30}$"
)
_SALES_THERE: Final = late(
    r"(?:的)?(?:收入|营收|业务|销售|销量|订单|客户|工厂|产能|子公司|门店)|"
    r" (?:investors?|buyers|buying|inflows?|capital|institutions|demand|sales|revenues?|customers|"
    r"operations|orders|factories|profits|earnings|business)\b"
)


def _sold_abroad(norm: str, analysis: Analysis, hit: Hit) -> bool:
    """Say whether a company sells abroad, which makes it no foreign share."""
    low, _ = analysis.clause_span(hit.start, hit.end)
    return (
        _SOLD_THERE.search(norm, low, hit.start) is not None or _SALES_THERE.match(norm, hit.end) is not None
    )


_GRADED: Final = late(r"(?:风险|信用|客户|投资者|适当性|评级|等级)的?$")
_GRADES: Final = late(r"管理|诊疗|制度|标准|评定|响应|授权|审批|别")
_CONVERTED: Final = late(
    r"[^,。;!?\n]{0,8}(?:已|早就?)[^,。;!?\n]{0,4}(?:转型|转换|变更|整改|改造|换成|改成|清理|退出)"
)


def _no_structured_fund(norm: str, analysis: Analysis, hit: Hit) -> bool:  # noqa: ARG001 - called alike
    """Say whether risks are graded, or the fund has become an ordinary one."""
    if _CONVERTED.match(norm, hit.end):
        return True
    return norm[hit.start : hit.end] == "分级" and (
        _GRADED.search(norm, max(0, hit.start - 6), hit.start) is not None
        or _GRADES.match(norm, hit.end) is not None
    )


_BROKER: Final = late(r"(?:公司|经纪|行业)(?!开户|开个|开立|那边|办)")


def _futures_broker(norm: str, analysis: Analysis, hit: Hit) -> bool:  # noqa: ARG001 - called alike
    """Say whether futures are the business of a company that is told of."""
    return norm[hit.start : hit.end] == "期货" and _BROKER.match(norm, hit.end) is not None


_STYLE: Final = late(r"小市值|小盘|微盘|小微盘|small[- ]caps?|smaller|micro[- ]caps?")
_OF_STYLE: Final = late(
    r"的?(?:弹性|风格|因子|收益|溢价|暴露|敞口|行情|板块|方向|机会)| (?:exposure|style|factor|premium|tilt)"
)
_BASKET: Final = late(r"etf|指数基金|指数增强|一篮子|联接|\b(?:etfs?|index funds?|tracker|basket)\b")


def _small_cap_style(norm: str, analysis: Analysis, hit: Hit) -> bool:
    """Say whether the style of small companies is bought as a basket of all of them."""
    return (
        _STYLE.fullmatch(norm, hit.start, hit.end) is not None
        and _OF_STYLE.match(norm, hit.end) is not None
        and _BASKET.search(norm, hit.end, analysis.sentence_span(hit.start)[1]) is not None
    )


_REPLACED: Final = late(r"[^。;!?\n]{0,24},[^,。;!?\n不]{0,6}(?:换成|换到|改成|改用|改选|转成|转到)")


def _replaced(norm: str, analysis: Analysis, hit: Hit) -> bool:  # noqa: ARG001 - called alike
    """Say whether the dear thing gives way to another: 管理费2%,换成0.15%的指数基金."""
    return _REPLACED.match(norm, hit.end) is not None


_OTHERWISE: Final[dict[str, Callable[[str, Analysis, Hit], bool]]] = {
    "overseas_market": _sold_abroad,
    "high_fee": _replaced,
    "structured_fund": _no_structured_fund,
    "derivatives": _futures_broker,
    "single_small_cap": _small_cap_style,
}
"""By the term: what makes a word of it another thing."""


def _is_member(analysis: Analysis, hit: Hit) -> bool:
    """Say whether the hit is what a fund or an index holds."""
    norm = analysis.norm
    _, high = analysis.clause_span(hit.start, hit.end)
    if _MEMBER.search(norm, hit.end, high):
        return True
    low, _ = analysis.sentence_span(hit.start)
    return _HOLDS.search(norm[low : hit.start]) is not None


def _other_name(norm: str, hit: Hit) -> bool:
    """Say whether a company's name is part of another word, or only where a deal is done."""
    name = norm[hit.start : hit.end]
    if norm[hit.start - 1 : hit.start] and norm[hit.start - 1] in _INSIDE_BEFORE.get(name, ""):
        return True
    if _BANK.match(name):
        after = norm[hit.end : hit.end + 12]
        if _INSIDE_AFTER.match(after) or _COUNTER.match(after):
            return True
        return _AT.search(norm[max(0, hit.start - 8) : hit.start]) is not None
    return _PAPERS.match(norm[hit.end : hit.end + 12]) is not None


def _no_loan(norm: str, hit: Hit) -> bool:
    """Say whether a word of borrowing speaks of others' loans, of debts at large, or of the time of day."""
    name = norm[hit.start : hit.end]
    if _RATIO.match(name):
        return bool(
            _CLOCK.match(norm[hit.end : hit.end + 1]) or _CLOCK.match(norm[hit.start - 1 : hit.start])
        )
    if _DEBTS.fullmatch(name):
        head = norm[max(0, hit.start - 6) : hit.start]
        return _DEBT_RAISED.search(head) is None and _DEBT_USED.match(norm, hit.end) is None
    if _TO_YOU.search(norm[max(0, hit.start - 4) : hit.start]):
        return True
    if "押" in name and _OTHERS_PLEDGE.search(norm[max(0, hit.start - 10) : hit.start]):
        return True
    if _BUYS.search(name) and norm[hit.end : hit.end + 1] in ("房", "车"):
        return True
    return name in ("借钱", "借贷") and _LENDING.match(norm, hit.end) is not None


def _passing_word(norm: str, analysis: Analysis, hit: Hit) -> bool:  # noqa: PLR0911 - one a word
    """Say whether a word of trading or holding has another sense here: 7日内赎回, 持有期三年以上."""
    name = norm[hit.start : hit.end]
    if name == "日内":
        return _DAYS_COUNTED.search(norm[max(0, hit.start - 1) : hit.start]) is not None
    if name == "大起大落":
        return (
            _MAY.search(norm[max(0, hit.start - 6) : hit.start]) is not None
            and _BEAR_IT.match(norm, hit.end) is None
        )
    if name == "within a few days":
        return _TRADING.search(norm, *analysis.sentence_span(hit.start)) is None
    if name == "持有期":
        counted = norm[hit.start - 1 : hit.start] in ("年", "月", "天", "日")
        return not counted and _HOLDING_OF.match(norm, hit.end) is None
    if hit.term in ("margin_trading", "short_selling") and _MARKET_FIGURE.match(norm, hit.end):
        return True
    if norm[hit.start - 1 : hit.start] == "比" and _WORSE_THAN.match(norm, hit.end):
        return True
    if _MENTIONED.match(norm, hit.end):
        return True
    low, _ = analysis.sentence_span(hit.start)
    if _OTHERS.search(norm[low : hit.start]):
        return True
    return hit.term == "short_selling" and _SHORTS.match(norm, hit.end) is not None
