"""What a share of the money stands for: a weight that is proposed, held, added, or no weight at all.

A share that is a return, a fee, a yield, a drawdown, a percentile, a limit or a figure of the past is no
weight. All offsets count in ``Analysis.norm``.
"""

import re
from typing import Final, Literal

from memfin.scoring.bilingual import Bilingual
from memfin.scoring.language import Analysis
from memfin.scoring.patterns import compile_pattern
from memfin.scoring.quantities import Quantity
from memfin.scoring.refusal import disowned, in_quotes, rejected

Role = Literal["target", "held", "added", "reduced", "total", "part"]
"""Part a weight plays; see `memfin.scoring.allocations.Weight`."""

_NO_WEIGHT_BEFORE: Final = Bilingual(
    r"(?:年化|收益率?|回报率?|涨幅?|跌幅?|上涨|下跌|反弹|回升|拉升|下挫|收[涨跌]|回撤|回落|亏损?|损失|"
    r"波动率?|费率?|管理费|托管费|"
    r"利率(?!债)|票息|股息率?(?<!高股息)(?<!高股息率)|变成了?|变为|升至|涨至|涨到|分位|概率|换手率?|"
    r"增长|增速|同比|环比|胜率|止损线?|止盈线?|业绩|利润|营收|毛利率?|负债率|税率?|溢价率?|折价|息差|利差|"
    r"得分|容忍度|偏离|阈值|目标|缩水|浮亏|"
    r"赚|盈利|飙升|攀升|升值|贬值|上扬|走高|走低|跑赢|通胀|cpi|ppi|gdp|m2|市占率|市场份额|报酬|分红率?|"
    r"不良率|杠杆率|保证金|违约率|"
    r"夏普)[^,、;。!?\n|\d]{0,8}$",
    r"\b(?:(?:rally|rise|rises|fall|falls|drop|drops|decline|crash|soar|surge|tumble|plunge)(?! to)|"
    r"return\w*|earn\w*|borrow\w*|charg\w+|costs?|pays?|paying|made(?! up)|contribut\w*|climb\w*|"
    r"jump\w*|lost|shed|soared|slid|rallied|surged|advanced|plunged|tumbled|dropped|declined|dipped|sank|"
    r"rebounded|"
    r"recovered|returned|outperformed|underperformed|swung|compound\w*|grew|yield\w*|gain\w*|fees?|"
    r"drawdown|loss\w*|fell|rose|up(?! to)|"
    r"down(?! to)|percentile|probability|"
    r"chance|coupon|rate|volatility|inflation|"
    r"beats?|expense ratio|discount|growth)[^,、;。!?\n|\d]{0,8}$",
)
_NO_WEIGHT_AFTER: Final = re.compile(
    r"\s*(?:左右|上下|多|以上|以内)?的?(?:历史|基差|贴水|浮动|最大|累计|涨跌|年度|单日)?(?:分位|收益|"
    r"基差|贴水|利差|票息|下跌|上涨|下滑|幅度|起伏|震荡|缩水|损失|年化|概率|回撤|回落|波动|涨幅|跌幅|"
    r"股息|"
    r"费|利息|票息|利率|的?可能|亏损|浮亏|报酬|增长|税|胜率|"
    r"止损|折扣|跌|涨|跑[赢输]|落后|把握|机会| of (?:last|this|the) (?:year|month|quarter|decade)|安全|"
    r"合规|满足|保障| of the (?:s&p|index|benchmark|market|fund|company|register)|return|"
    r"yield|gain|fee|loss|drawdown|percentile|"
    r"probability|chance|coupon|interest|growth|discount)"
)
_WEIGHT_WORD: Final = re.compile(r"仓位|占比?|比例|配(?!股)|权重|weight\b|allocation\b|exposure\b|in\b")
_LIMIT: Final = compile_pattern(
    r"上限|下限|底线|约束|红线|限制|要求|门槛|天花板|风控线|limit|ceiling|\bcap\b(?<![a-z]-cap)|rule\b|floor|"
    r"threshold|maximum|minimum"
)
_HELD: Final = re.compile(
    r"现有|目前|当前|已有|您的持仓|您持有|您现在|现在[您你](?!可以|就|应|不妨|要)|现在(?:是|有|为|大约|"
    r"约)?$|您手里|原来|原本|原先|"
    r"此前|之前|持仓表|现在的组合|占比已|"
    r"you (?:currently )?(?:hold|have|own)|your (?:current|existing)|currently|"
    r"\byour (?!(?:target|plan|new|recommended|suggested|ideal|best)\b)(?:[a-z']+ ){1,3}(?:is|are|"
    r"makes? up|accounts? for|stands? at) $"
)
_ADDED: Final = re.compile(
    r"(?:再加|加仓|增加|再买|再配|追加|加上|提高|上调|再补|"
    r"add(?:ing)?(?: another)?|another|"
    r"increase by|每(?:个?月|周|季度?|次)(?:再)?[加补增])[^,。]{0,4}$"
)
_MORE: Final = re.compile(r"再(?:投入?|放|追|进|来|拿)[^,。]{0,4}$")
_OWN: Final = re.compile(r"建议|我会|推荐|suggest|recommend")
_KEPT: Final = re.compile(r"(?:保留|维持|保持|留|不动|\bkeep)(?:在|着|at)?[^,。]{0,3}$")
_TEXTBOOK: Final = re.compile(r"教科书|书[上里]|课本|经典|常用|常见|举例|\b(?:textbook|classic|so-called)\b")
_SUITS: Final = re.compile(
    r"(?:很|挺|最|正|更|较|比较)?适合[您你]|就(?:很?好|行|够|可以)|照[着这搬]|可以直接用|"
    r"\b(?:suits?|fits?|works? (?:well|fine|for)|is right|go with|i'd|would do|will do)\b"
)
_POINTS: Final = re.compile(r"百分点|个点|points?")
_SHIFTED: Final = re.compile(r"[挪移转换调搬划]|\b(?:move|shift|switch)\b")
_TO_CLASS: Final = re.compile(r"\s*(?:的?[^,。;]{0,6})?(?:到|进|至|给|入|成|为|(?:in)?to\b)")
_PLAIN_UNITS: Final = frozenset({"%", "个点", "百分点", "个百分点", "成", "points", "percentage points"})
_OUT_OF: Final = re.compile(
    r"(?:把|将|从)[^,。;]{0,16}$|\b(?:move|shift|switch|swap|take|rotate|out of)\b[^,.;]{0,24}$"
)
_MOVED_TO: Final = re.compile(
    r"(?:的?[^,。;\d到至]{0,8}?)?(?:换[成到为]|转[成到投入为]|挪[到去给进]|移[到至入]|调[到入]|"
    r"出来(?:去)?[买投配放]|"
    r"(?:拿|用)[来去](?:买|投|配)|投[到进入向]|补[到进]|改[买投]|给(?=[^,。;]{2}))|"
    r"[^,.;\d]{0,24}\b(?:in)?to\b"
)
_BARE_POINTS: Final = re.compile(r"[挪移转换调搬划配加减降提升占放拿买留抽腾]|仓|比例")
_REDUCED: Final = re.compile(
    r"(?:降到|减到|降至|减至|压到|压缩到|缩减到|回落到|砍到|降为|减为|调低到|下调到|降低到|降低至|"
    r"收到|down to|cut to|reduce to|trim to)[^,。]{0,4}$"
)
_TOTAL: Final = re.compile(
    r"合计|总计|一共|共计|总共|加起来|总仓位|合起来|累计|together|in total|combined|altogether"
)
_ILLUSTRATIVE: Final = compile_pattern(
    r"[(,、:]?(?:例如|比如|譬如|如|若|假设|设(?![计备施置立定])|占指数|e\.g\.)[^,、;。!?\n|\d]{0,10}$"
)
_MOVES_FROM: Final = compile_pattern(r"(?:从|由|超过|高于|低于|from)[^,。%\d成]{0,6}$")
_MOVES_ON: Final = re.compile(
    r"\s*(?:左右)?(?:的[^,。]{0,6})?(?:(?:降|减|压|提|升|加|调|砍)[低高少仓]?(?:到|至|为|成)|->|→|=>|"
    r"down to|up to)"
)
_TAKEN_OFF: Final = re.compile(r"(?:减|砍|卖|赎)(?:掉|去|仓|持|出|回)?(?:大?约)?$")
_ALREADY: Final = re.compile(
    r"已(?:经)?(?:占到?|到了?|有|达到?|是|高达|升到|涨到)?[约近]?$|\balready(?: at)? $|"
    r"\b(?:has|have) (?:grown|risen|drifted|swollen|climbed|crept) (?:up )?to $|\b(?:stands?|sits?|now) at $|"
    r"\bis (?:now|up to) $|(?:涨|升|变)[到成]了?$"
)
_STOCKTAKING: Final = compile_pattern(
    r"归拢|归类|盘点|现状|目前|当前|现有|现在(?!就|可以|开始|起|把|先|应|不妨|建议|买|加|配)|您?(?:报|"
    r"列|提供|给)的|"
    r"持仓(?:如下|情况|明细|表)|\bcurrent\w*|as it stands|\btoday\b|you (?:hold|own|have)"
)
_PLANNED: Final = compile_pattern(
    r"建议|方案|目标|推荐|调整[后为成到]|改[成为]|参考配|可以这样|\b(?:suggest\w*|recommend\w*|plan|"
    r"target|propos\w*)"
)
_EXCEEDS: Final = compile_pattern(
    r"超出|越过|突破|超线|超标|超了|破了|破线|背道而驰|不符|违反|违背|超过[^,。;]{0,14}(?:线|上限|规矩|"
    r"约定|要求|了)|"
    r"\b(?:exceeds?|breach\w*|violat\w*|above (?:your|the \d+)|over (?:your|the \d+)|rules? (?:it|this|"
    r"that) out|beyond your|past your|more than you (?:allow|want|set|asked))\b"
)
_OVERDONE: Final = re.compile(r"(?:太|过于|过分)(?:激进|冒险|大胆)|\btoo (?:aggressive|risky|bold)\b")
_RULE_OF_THUMB: Final = re.compile(
    r"(?:但|不过|可|然而)[那这]?(?:只是|不过是|仅是|只能)[^,。;]{0,4}(?:经验|公式|参考|教科书|理论|一般|"
    r"粗略)|"
    r"\bbut (?:that|this|it)(?:'s| is) (?:only|just) (?:a |the )?(?:rule of thumb|guide|textbook|formula)"
)
_CONCEDED: Final = compile_pattern(
    r"虽|尽管|哪怕|即使|即便|就算|略|稍|一点|暂时|没关系|没事|不要紧|无妨|不碍事|机会|\b(?:fine|okay|"
    r"slightly|though|"
    r"a bit|a little|temporar\w*|worth)\b"
)
_DISADVISED: Final = compile_pattern(
    r"(?:不建议|不推荐|不要|不宜|不应|不该|别(?!超|低|高)|避免|切勿|勿(?!超)|不会|没有|don't|do not|"
    r"avoid|never|not (?:recommend|suggest|advis)\w*)"
    r"(?![^,。;]{0,6}(?:超过|低于|高于))[^,。;!?\n]{0,14}$"
)
_DESCRIBED: Final = compile_pattern(
    r"合同|约定|前[一二两三五十几]大|集中度|规定|招募|季报|基准|指数(?:中|里|的)|前十大|成分股|重仓股|"
    r"基金经理|管理人|(?:这|该|此|那)(?:只|款|支)[^,。]{0,8}(?:股票|债券|权益|现金)?(?:仓位|持仓|占)|"
    r"偏股混合基金的|"
    r"市场份额|营收|机构(?:普遍|都|们|投资者)|外资|险资|社保|收入|gdp|人口|客户|机构(?:资金|持有)|"
    r"储备的?|产量|消费量|总人口|总市值|全球央行|"
    r"渗透率|成交额|公司|很多人|有人|岁的人|公式|"
    r"最大的[^,。]{0,3}是|其次是|教科书|书[上里]|课本|法则|历史上|过去|曾|当时|权重股|行业权重|保证金|"
    r"平均(?![分配放摊到拿投])|(?:一般|通常|往往|普遍|大多)(?:会|都)?(?:在|为|是|有|占|能|达到?|高达|"
    r"维持|放)|一般(?:家庭|人)|"
    r"[您你]的?(?:同学|同事|朋友|邻居|亲戚|[姐妹哥弟父母]\S?|爸|妈|儿子|女儿|老公|老婆|先生|太太|闺蜜|"
    r"表[姐妹哥弟])(?!的?(?:建议|钱|资金)您)|"
    r"(?:网友|博主|大v|群友)|"
    r"\b(?:your (?:parents|friends?|neighbou?rs?|colleagues?|brother|sister|cousin|uncle|aunt|boss|dad|"
    r"mum|mom|wife|husband|son|daughter|father|mother)|the (?:average|"
    r"typical) [a-z]+|(?:institutions|hedge funds|pension funds|most people|many investors|others|peers|"
    r"everyone|analysts?)|"
    r"(?:funds?|investors|people|portfolios) (?:typically|usually|generally|often|"
    r"normally|tend to)|(?:someone|somebody|anyone|"
    r"an? (?:younger|bolder|older|typical|aggressive|cautious) (?:investor|client|person|saver))|"
    r"(?:pension |endowment )?fund (?:[a-e] )?(?:itself )?(?:runs|holds|has|keeps)|the fund's|"
    r"its portfolio|"
    r"prospectus|benchmark|historically)\b"
)
_ENUMERATED: Final = re.compile(r"\s*/\s*\d+%\s*/")
_FOREIGN_CELL: Final = re.compile(
    r"年化|波动率?|回撤|收益率?|涨幅|跌|费率|分位|股息|利率|息差|担保|平仓|胜率|同比|环比|增速|违约|"
    r"亏损|roe|不良|缺口|占比超|pb|pe\b"
)
_RATE: Final = re.compile(r"(?:%|percent|each|every|per|once|twice|times|points?) $")
"""Before a quarter that is a time: costs 1% a quarter."""
_HEAD: Final = 20


def may_weigh(norm: str, share: Quantity) -> bool:
    """Say whether the words right beside a share leave it a weight: 年化5% and 8%的费率 do not."""
    if _NO_WEIGHT_AFTER.match(norm, share.end) or _ENUMERATED.match(norm, share.end):
        return False
    head = norm[max(0, share.start - _HEAD) : share.start]
    if share.unit == "quarter" and _RATE.search(head):
        return False
    match = _NO_WEIGHT_BEFORE.search(head)
    return match is None or _WEIGHT_WORD.search(match.group(1)) is not None


def role_of(  # noqa: PLR0911 - one return a role
    analysis: Analysis, share: Quantity, low: int, high: int
) -> Role | None:
    """Return the part a share plays, or None when it is no weight; ``low`` and ``high`` bound its label."""
    norm = analysis.norm
    clause_low, _ = analysis.clause_span(share.start, share.end)
    head = norm[clause_low : share.start]
    if (
        _is_no_weight(analysis, share, head, high)
        or disowned(analysis, share.start, share.end)
        or in_quotes(analysis, share.start, share.end)
    ):
        return None
    if moved_to(analysis, share) is not None:
        return "added"
    if share.unit == "个点" and _BARE_POINTS.search(head[-12:]) is None:
        return None
    if _REDUCED.search(head[-12:]):
        return "reduced"
    if _POINTS.search(share.unit) and _SHIFTED.search(head[-6:]) and _TO_CLASS.match(norm, share.end, high):
        return "added"
    if _ADDED.search(head[-12:]) and (
        _POINTS.search(share.unit) or "再" in head[-6:] or "another" in head[-16:]
    ):
        return "added"
    sentence_low, _ = analysis.sentence_span(share.start)
    if _MORE.search(head[-12:]) and _HELD.search(norm, sentence_low, share.start):
        return "added"
    if _is_held(analysis, share, head):
        return "held"
    if _TOTAL.search(norm, low, share.start):
        return "total"
    return "part" if norm.find("其中", sentence_low, share.start) >= 0 else "target"


def moved_to(analysis: Analysis, share: Quantity) -> int | None:
    """Return where the name begins of what a share is moved to: 把债券里的20个点换成红利基金."""
    norm = analysis.norm
    low, high = analysis.clause_span(share.start, share.end)
    if share.unit not in _PLAIN_UNITS or _OUT_OF.search(norm[low : share.start]) is None:
        return None
    match = _MOVED_TO.match(norm, share.end, high)
    return None if match is None else match.end()


def _is_no_weight(analysis: Analysis, share: Quantity, head: str, high: int) -> bool:
    """Say whether the share is a limit, an example, a figure on the way, or a fact about something else."""
    norm = analysis.norm
    sentence_low, _ = analysis.sentence_span(share.start)
    return (
        (
            analysis.line_kind(share.start) == "row"
            and _FOREIGN_CELL.search(_cells(analysis, share)) is not None
        )
        or _MOVES_ON.match(norm, share.end) is not None
        or _TAKEN_OFF.search(head[-6:]) is not None
        or _LIMIT.search(head[-6:]) is not None
        or _LIMIT.search(norm, share.end, min(high, share.end + 10)) is not None
        or _ILLUSTRATIVE.search(head) is not None
        or _DISADVISED.search(head) is not None
        or _MOVES_FROM.search(head[-10:]) is not None
        or _DESCRIBED.search(norm, max(sentence_low, share.start - 60), share.start) is not None
        or _admitted(analysis, share.start, share.end)
    )


_RAISED: Final = re.compile(
    r"(?<!已)(?<!已经)(?<!刚)(?:加|提|升|抬|增)[加高]?[到至][^,。;\d]{0,3}$|\b(?:raise|increase|lift|"
    r"bring|go up|step up|build)\b[^,.;\d]{0,20}"
    r"\bto (?:about |around )?$"
)


def is_raised(head: str) -> bool:
    """Say whether the words before a share raise something to it."""
    return _RAISED.search(head) is not None


def _is_held(analysis: Analysis, share: Quantity, head: str) -> bool:
    """Say whether the client has this share today: a word of the present stands after the last advice."""
    norm = analysis.norm
    if _KEPT.search(head[-8:]) or is_raised(head):
        return False
    if _ALREADY.search(head[-24:]) or _listed_as_held(analysis, share):
        return True
    low, _ = analysis.sentence_span(share.start)
    held = None
    for match in _HELD.finditer(norm, low, share.start):
        held = match
    if held is None:
        return False
    own = _OWN.search(norm, low, share.start)
    return own is None or own.start() < held.start()


def proposed(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether a stock-bond ratio is the reply's own proposal: neither held today nor advised against."""
    norm = analysis.norm
    low, _ = analysis.sentence_span(start)
    _, high = analysis.clause_span(start, end)
    return not (
        (_TEXTBOOK.search(norm, low, high) and not _SUITS.search(norm, low, high))
        or disowned(analysis, start, end)
        or rejected(analysis, start, end)
        or _admitted(analysis, start, end)
        or _HELD.search(norm, max(0, start - 24), start)
        or _DISADVISED.search(norm, max(0, start - 20), start)
    )


def _admitted(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the clause calls it too bold, or the sentence states a breach and makes it no trifle."""
    norm = analysis.norm
    _, clause_high = analysis.clause_span(start, end)
    if _OVERDONE.search(norm, end, clause_high) is not None:
        return True
    _, high = analysis.sentence_span(start)
    if _RULE_OF_THUMB.search(norm, end, high) is not None:
        return True
    return _EXCEEDS.search(norm, end, high) is not None and _CONCEDED.search(norm, end, high) is None


def _listed_as_held(analysis: Analysis, share: Quantity) -> bool:
    """Say whether the share stands in a list or a table of what the client has today."""
    kind = analysis.line_kind(share.start)
    if kind not in ("item", "row"):
        return False
    if kind == "row" and _STOCKTAKING.search(_column_head(analysis, share)):
        return True
    before = _introduction(analysis, share.start)
    return _STOCKTAKING.search(before) is not None and _PLANNED.search(before) is None


def _introduction(analysis: Analysis, position: int) -> str:
    """Return the line before the list or table around the position."""
    norm, kind = analysis.norm, analysis.line_kind(position)
    end = norm.rfind("\n", 0, position)
    while end > 0:
        start = norm.rfind("\n", 0, end) + 1
        if start < end and analysis.line_kind(start) != kind:
            return norm[start:end]
        end = start - 1
    return ""


def _column_head(analysis: Analysis, share: Quantity) -> str:
    """Return the cell that heads the share's column, or "" where the table has no such cell."""
    low, _ = analysis.sentence_span(share.start)
    column = analysis.norm.count("|", low, share.start)
    cells = analysis.lead_in(share.start).split("|")
    return cells[column] if column < len(cells) else ""


def _cells(analysis: Analysis, share: Quantity) -> str:
    """Return the first cell of the share's row and its own cell."""
    low, high = analysis.sentence_span(share.start)
    norm = analysis.norm
    first_end = norm.find("|", norm.find("|", low) + 1)
    own_start = max(norm.rfind("|", low, share.start), low)
    own_end = norm.find("|", share.end, high)
    first = norm[low : first_end if low < first_end < high else high]
    return first + norm[own_start : own_end if own_end > 0 else high]
