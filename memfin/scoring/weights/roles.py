"""What a share of the money stands for: a weight that is proposed, held, added, or no weight at all.

A share that is a return, a fee, a yield, a drawdown, a percentile, a limit or a figure of the past is no
weight. All offsets count in ``Analysis.norm``.
"""

from typing import Final, Literal

from memfin.scoring.advice.refusal import rejected, turned_down
from memfin.scoring.attribution.disowning import disowned, in_quotes
from memfin.scoring.attribution.told import described
from memfin.scoring.numbers.quantities import Quantity
from memfin.scoring.patterns.expressions import compile_pattern, late
from memfin.scoring.text.language import Analysis
from memfin.scoring.text.paragraphs import begin
from memfin.scoring.weights.candidates import TURNED
from memfin.scoring.weights.held_amounts import ADDED, HELD, cut_later

Role = Literal["target", "held", "added", "reduced", "total", "part"]
"""Part a weight plays; see `memfin.scoring.weights.allocations.Weight`."""

_LIMIT: Final = compile_pattern(
    r"上限|下限|底线|约束|红线|限制|要求|门槛|天花板|风控线|limit|ceiling|\bcap\b(?<![a-z]-cap)|rule\b|floor|"
    r"threshold|maximum|minimum"
)
_HELD: Final = late(
    r"现有|目前(?!的?(?:估值|市场|利率|行情|点位|价格|价位|经济|政策|宏观|环境|位置|市盈率|收益率|债市|股市|"
    r"大盘|通胀|办法|选择|重点)|最|比较|要|就|可行|建议)|"
    r"已有|你(?:自己)?的持仓|你持有|你现在(?!要|就|该|应|最好|可以)|现在你(?!可以|就|应|不妨|要)|现在(?:是|"
    r"有|为|约|"
    r"约)?$|你手里|原来|原本|原先|(?:起初|本来|最初|一开始)(?:想|打算|计划|考虑)|"
    r"此前|之前|持仓表|现在的组合|占比已|"
    r"\b(?:current|now|at present|today|before):|\byou (?:ran|kept|held|used to)\b|\blast year\b|"
    r"(?<!recommend )(?<!suggest )(?<!advise )(?<!propose )you (?:currently |now |already )?(?:hold|have|"
    r"own)|your (?:current|existing)|currently|"
    r"\byour? (?:[a-z']+ ){1,2}(?:shows?|lists?) |"
    r"\byour (?!(?:target|plan|new|recommended|suggested|ideal|best)\b)(?:[a-z']+ ){1,3}(?:is|are|"
    r"makes? up|accounts? for|stands? at|of|sits? at) $"
)
_ADDED: Final = late(
    r"(?:再加|加仓|加码|补仓|增持|增加|再买|再配|追加|加上|提高|上调|再补|再添|"
    r"add(?:ing)?(?: another)?|another|further|extra|additional|"
    r"increase by|每(?:个?月|周|季度?|次)(?:再)?[加补增])[^,。]{0,4}$"
)
_MORE: Final = late(r"(?:再(?:投入?|放|追|进|来|拿)|(?<![增提升叠])加(?!权|起|总)|补(?!充)|增配)[^,。]{0,4}$")
_BUYS: Final = late(r"(?:左右)?(?:的?(?:资金|钱))?(?:去|来)?(?:买入|投入|申购|认购|加仓)")
_OWN: Final = late(r"建议|我会|推荐|suggest|recommend")
_KEPT: Final = late(r"(?:保留|维持|保持|留|不动|\bkeep)(?:在|着|at)?[^,。]{0,3}$")
_TEXTBOOK: Final = late(r"教科书|书[上里]|课本|经典|常用|常见|举例|\b(?:textbook|classic|so-called)\b")
_SUITS: Final = late(
    r"我(?:会|仍|还是)?(?:建议|推荐)(?!不|别)|(?:很|挺|最|正|更|较|比较)?适合你|就(?:很?好|行|够|可以)|"
    r"照[着这搬]|可以直接用|"
    r"\b(?:suits?|fits?|works? (?:well|fine|for)|is right|go with|(?:i|we)(?:'d| would)|(?:i|"
    r"we) (?:recommend|suggest)|would do|will do)\b"
)
_POINTS: Final = late(r"百分点|个点|points?")
_SHIFTED: Final = late(r"[挪移转换调搬划]|[拿抽腾拨匀分]出|\b(?:move|shift|switch)\b")
_TO_CLASS: Final = late(r"\s*(?:的?[^,。;]{0,6})?(?:到|进|至|给|入|成|为|(?:in)?to\b)")
_PLAIN_UNITS: Final = frozenset({"%", "个点", "百分点", "个百分点", "成", "points", "percentage points"})
_OUT_OF: Final = late(
    r"(?:把|将|从)[^,。;]{0,16}(?<![到至为成])$|\b(?:move|shift|switch|swap|take|rotate|"
    r"out of)\b[^,.;]{0,24}(?<!to )(?<!at )$"
)
_MOVED_TO: Final = late(
    r"(?:的?[^,。;\d到至]{0,8}?)?(?:换[成到为]|转[成到投入为]|挪[到去给进]|移[到至入]|调[到入]|"
    r"出来(?:去)?[买投配放]|"
    r"(?:拿|用)[来去](?:买|投|配)|投[到进入向]|补[到进]|改[买投]|给(?=[^,。;]{2}))|"
    r"[^,.;\d]{0,24}\b(?:in)?to\b"
)
_BARE_POINTS: Final = late(r"[挪移转换调搬划配加减降提升占放拿买留抽腾备存]|仓|比例")
_MOVED_POINTS: Final = late(
    r"\b(?:another|add\w*|extra|additional|further|more|move|shift|switch|by|of|take) (?:about |some |"
    r"roughly )?$"
)
_REDUCED: Final = late(
    r"(?:降到|减到|降至|减至|压到|压缩到|缩减到|回落到|砍到|降为|减为|调低到|下调到|降低到|降低至|"
    r"收到|down to|(?:cut|reduce|trim|lower|shrink|bring|take|drop|pare|run)s? (?:it|that|cash|this|them|"
    r"the cash|your cash)? ?(?:back )?to)"
    r"[^,。]{0,4}$"
)
_TOTAL: Final = late(
    r"合计|总计|一共|共计|总共|加起来|总仓位|合起来|累计|together|comes? to\b|in total|combined|altogether"
)
_ILLUSTRATIVE: Final = compile_pattern(
    r"[(,、:]?(?:比如|(?<!不)(?<!何)(?<!假)如(?!今|果你没)|若|假设|设(?![计备施置立定])|占指数|"
    r"e\.g\.)[^,、;。!?\n|\d]{0,10}$"
)
_MOVES_FROM: Final = compile_pattern(
    r"(?:从(?![^,。]*[里中]面?再?[拿抽划取用分])|(?<!自)由|超过|高于|(?<!不)低于|from)[^,。%\d成]{0,6}$"
)
_MOVES_ON: Final = late(
    r"\s*(?:左右)?(?:的[^,。]{0,6})?(?:(?:降|减|压|提|升|加|调|砍)[低高少仓]?(?:到|至|为|成)|->|→|=>|"
    r"down to|up to)"
)
_TAKEN_OFF: Final = late(r"(?:减|砍|卖|赎)(?:掉|去|仓|持|出|回)?(?:大?约)?$")
_ALREADY: Final = late(
    r"已(?:经)?(?:占到?|到了?|有|达到?|是|高达|升到|涨到)?[约近]?$|\balready(?: at)? $|"
    r"\b(?:has|have) (?:grown|risen|drifted|swollen|climbed|crept) (?:up )?to $|"
    r"\b(?:(?<!can )(?<!could )(?<!may )(?<!might )(?<!should )(?<!would )(?<!will )(?:stands?|sits?)|"
    r"now) at $|"
    r"\bis (?:now|up to) $|(?:涨|升|变)[到成]了?$"
)
_STOCKTAKING: Final = compile_pattern(
    r"归拢|归类|盘点|现状|breakdown|评级分布|持仓分布|组合构成|期初|期末|季[初末]|年[初末]|"
    r"目前(?!的?(?:估值|市场|利率|行情|点位|价格|价位|经济|政策|宏观|环境|位置|市盈率|收益率|债市|股市|大盘|"
    r"通胀))|现有|"
    r"现在(?!就|可以|开始|起|把|先|应|不妨|建议|买|加|配)|你?(?:报|"
    r"列|提供|给)的|"
    r"持仓(?:如下|情况|明细|表)|\bcurrent\w*|as it stands|\btoday\b|\|? ?now ?(?:\||$)|you (?:hold|own|have)"
)
_PLANNED: Final = compile_pattern(
    r"建议|方案|目标|推荐|调整[后为成到]|改[成为]|参考配|可以这样|\b(?:suggest\w*|recommend\w*|plan|"
    r"target|propos\w*)"
)
_EXCEEDS: Final = compile_pattern(
    r"超出|越过|突破|超线|超标|超了|破了|破线|背道而驰|不符|违反|违背|越线|超过[^,。;]{0,14}(?:线|上限|规矩|"
    r"约定|要求|了)|"
    r"(?:没有|未|不)(?:选|采用|采纳|纳入|放进)|不放(?:它|进)|不看了|排除在外|剔除|\b(?:left (?:it|"
    r"them) out|leave (?:it|them) out|"
    r"(?:break|bust|blow through)s? (?:your|the|that)|busts?\b|cross(?:es)? (?:your|the)|exceeds?|breach\w*|"
    r"violat\w*|above (?:your|the \d+)|over (?:your|the (?:\d+|limit|cap|line|ceiling))|rules? (?:it|this|"
    r"that) out|beyond your|past your|more than you (?:allow|want|set|asked))\b"
)
_OVERDONE: Final = late(
    r"(?:太|过于|过分|有点|偏)(?:激进|冒险|大胆|保守|浪费)|(?:太|过)[高重多](?:了|$|,)|"
    r"\b(?:too (?:aggressive|risky|bold)|(?:is|are|would be) (?:far |much )?too (?:much|high|heavy))\b"
)
_RULE_OF_THUMB: Final = late(
    r"(?:但|不过|可|然而)[那这]?(?:只是|不过是|仅是|只能)[^,。;]{0,4}(?:经验|公式|参考|教科书|理论|一般|"
    r"粗略)|"
    r"\bbut (?:that|this|it)(?:'s| is) (?:only|just) (?:a |the )?(?:rule of thumb|guide|textbook|formula)"
)
_OVERRULED: Final = late(
    r"(?:但|不过|可是|只是)[^。;!?\n]{0,8}(?:上限|约束|底线|要求|定了|红线|不超过)[^。;!?\n]{0,14},(?:所以|"
    r"所以|故|取|我?按|只|最多|就)|"
    r"\bbut (?:your|you)[^.;!?\n]{0,20}\b(?:cap|limit|ceiling|rule|floor|said|set)\b[^.;!?\n]{0,24}\bso\b"
)
"""The client's own limit decides against what was told before it."""
_CONCEDED: Final = compile_pattern(
    r"虽|尽管|哪怕|即使|略|稍|一点|暂时|没关系|没事|不要紧|无妨|不碍事|机会|\b(?:fine|okay|"
    r"slightly|though|"
    r"a bit|a little|temporar\w*|worth)\b"
)
_DISADVISED: Final = compile_pattern(
    r"(?:不建议|不推荐|不要|不宜|不应|不该|别(?!超|低|高)|避免|勿(?!超)|不会|没有|don't|do not|"
    r"avoid|never|not (?:recommend|suggest|advis)\w*)"
    r"(?![^,。;]{0,6}(?:超过|低于|高于))[^,。;!?\n]{0,14}$"
)
_FOREIGN_CELL: Final = late(
    r"年化|波动率?|回撤|(?<!固定)收益率?(?!债|凭证)|近[一三五半]个?[年月]|涨幅|跌|费率|分位|股息(?<!高股息)|"
    r"利率(?!债)|"
    r"息差|担保|平仓|胜率|同比|环比|增速|"
    r"违约|"
    r"亏损|roe|不良|缺口|占比超|pb|pe\b"
)
_FOREIGN_HEAD: Final = late(
    r"inside|内含|底层|(?:股票|权益)(?:仓位|持仓|占比|比例|份额|权重)|含股|近[^|]{0,3}年|收益|回报|回撤|费|"
    r"估值|分位|规模|波动(?!资产|产品|基金|部分|仓)|涨|跌|历史|return|"
    r"yield|fee\b|drawdown|"
    r"volatil|\bter\b|price"
)
"""What heads a column of figures about the products, beside the column of their weights."""


def role_of(  # noqa: C901, PLR0911, PLR0912 - one return a role
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
    if share.unit == HELD:
        return "held"
    if share.unit == ADDED or moved_to(analysis, share) is not None:
        return "added"
    if share.unit == "个点" and _BARE_POINTS.search(head[-12:]) is None:
        return None
    if share.unit == "points" and _MOVED_POINTS.search(head[-24:]) is None:
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
    more = _MORE.search(head[-12:]) or _BUYS.match(norm, share.end)
    if more and not is_raised(head) and _HELD.search(norm, sentence_low, clause_low):
        return "added"
    if _is_held(analysis, share, head):
        return "held"
    if analysis.line_kind(share.start) == "row" and _SUM_ROW.match(norm, sentence_low):
        return "total"
    colon = norm.rfind(":", low, share.start)
    # 总共80万:短债基金甲拿20万 tells a part, 合计:55% the sum.
    if _TOTAL.search(
        norm, low if norm[colon + 1 : share.start].isspace() or colon < 0 else colon, share.start
    ):
        return "total"
    within = norm.find("其中", sentence_low, share.start)
    if within >= 0 and follows_share(analysis, within):
        return "part"
    taken_apart = norm.find("拆", sentence_low, share.start) >= 0 and _TAKEN_APART.search(
        norm, sentence_low, share.start
    )
    return "part" if taken_apart else "target"


def follows_share(analysis: Analysis, position: int) -> bool:
    """Say whether the paragraph names a share before the position, which what follows can take apart."""
    low = max(begin(analysis, position), position - _PARTS_REACH)
    return _SHARE_BEFORE.search(analysis.norm, low, position) is not None


_PARTS_REACH: Final = 80
_SHARE_BEFORE: Final = late(r"[\d半一二两三四五六七八九](?:%|成|[万千]?元|万)|一半|\d percent|分之")
"""What is taken apart by what follows: 权益六成,其中宽基四成."""
_SUM_ROW: Final = late(r"\|\s*(?:合计|总计|小计|总和|total|sum)\s*\|")
_TAKEN_APART: Final = late(r"[%成半][^%。;]{0,8}拆[成分为到]")


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
            and (
                _FOREIGN_CELL.search(_cells(analysis, share)) is not None
                or _FOREIGN_HEAD.search(column_head(analysis, share.start)) is not None
            )
        )
        or _MOVES_ON.match(norm, share.end) is not None
        or _TAKEN_OFF.search(head[-6:]) is not None
        or _LIMIT.search(head[-6:]) is not None
        or _LIMIT.search(norm, share.end, min(high, share.end + 13)) is not None
        or _ILLUSTRATIVE.search(head) is not None
        or _DISADVISED.search(head) is not None
        or _MOVES_FROM.search(head[-10:]) is not None
        or described(analysis, share.start)
        or _OF_A_PART.search(head[-10:]) is not None
        or (
            _CHARACTERIZED.match(norm, share.end, share.end + _CHARACTERIZED_REACH)
            and not _SUITS.search(norm, share.end, high + 40)
        )
        or (_STOPS.match(norm, share.end) is not None and "再" in norm[sentence_low : share.start])
        or _LOOSER.search(norm, sentence_low, share.start) is not None
        or (_TOTAL.search(head[-6:]) is not None and "折算" in norm[share.end : high + 24])
        or _admitted(analysis, share.start, share.end)
        or (_BOUNDED.search(head[-12:]) is None and turned_down(analysis, share.start, share.end))
    )


_BOUNDED: Final = late(
    r"(?:不|别|勿|没有?)(?:要|能|得|应|该|宜|会)?(?:低于|少于|小于|到|足|止|下|超)|"
    r"\b(?:not|n't|never|no) (?:[a-z]+ ){0,2}(?:less|below|under|fewer|lower|more|exceed|over|above)\b"
)
"""A negation that belongs to a bound, and turns nothing down."""
_OF_A_PART: Final = late(
    r"占(?:到)?(?:权益|股票|债券|固收|卫星|核心|进攻|防守|基金|投资|这)(?:部分|仓位|持仓|端|类|资产|"
    r"仓)?的?(?:约)?$|(?:规模|份额|股本|收入|利润|营收|客户|收益|回报|成交额?|销量|产能|持有人)的(?:约|近)?$"
)
_CHARACTERIZED_REACH: Final = 40
_CHARACTERIZED: Final = late(
    r"[^,。;!?\n]{0,14}(?:是|属于|算是?)(?:比较|一种|很|偏|较|市面上|业内)?(?:常见|典型|激进|进取|教科书|"
    r"传统|机构|别人|有些人|很多人)|"
    r"[^,。;!?\n]{0,14}(?:过去|历史上|近[一二三五十\d]+年)[^,。;!?\n]{0,8}(?:最[好高多佳]|跑赢|涨)|"
    r"[^。.!?\n]*\?\s*(?:因为|because\b)"
)
"""What a share is called that is only told of, or asked about and answered at once."""
_STOPS: Final = late(r"(?:左右)?(?:为止|封顶|打住|即止|就停)")
_LOOSER: Final = late(
    r"(?:若|如果|除非|哪天)[^。;!?\n]{0,14}(?:上限|约束|限制|红线|底线|"
    r"规矩)[^。;!?\n]{0,8}(?:放宽|放松|取消|提高|"
    r"调高|改|松)[^。;!?\n]*$|\b(?:if|unless|were) you[^.;!?\n]{0,20}\b(?:rais|lift|relax|loosen|chang|"
    r"widen)\w*[^.;!?\n]{0,20}"
    r"\b(?:cap|limit|ceiling|floor|rule)\b[^.;!?\n]*$"
)
"""What would be possible if the client's limit were another."""
_RAISED: Final = late(
    r"(?<!已)(?<!刚)(?:加|提|升|抬|增|凑|拉)[加高]?[到至][^,。;\d]{0,3}$|\b(?:raise|increase|lift|"
    r"bring|go up|step up|build)\b[^,.;\d]{0,20}"
    r"\bto (?:about |around )?$"
)


def is_raised(head: str) -> bool:
    """Say whether the words before a share raise something to it."""
    return _RAISED.search(head) is not None


def _is_held(analysis: Analysis, share: Quantity, head: str) -> bool:
    """Say whether the client has this share today: a word of the present stands after the last advice."""
    norm = analysis.norm
    if _KEPT.search(head[-8:]) or is_raised(head) or TURNED.search(head):
        return False
    if _ALREADY.search(head[-24:]) or listed_as_held(analysis, share) or cut_later(norm, share, head):
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
        (_TEXTBOOK.search(norm, low, high) and not _SUITS.search(norm, low, high + 40))
        or disowned(analysis, start, end)
        or rejected(analysis, start, end)
        or _admitted(analysis, start, end)
        or (_HELD.search(norm, max(0, start - 24), start) and not _OWN.search(norm, max(0, start - 8), start))
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
    if _OVERRULED.search(norm, end, high) is not None:
        return True
    return _EXCEEDS.search(norm, end, high) is not None and _CONCEDED.search(norm, end, high) is None


def listed_as_held(analysis: Analysis, share: Quantity) -> bool:
    """Say whether the share stands in a list or a table of what the client has today."""
    kind = analysis.line_kind(share.start)
    if kind not in ("item", "row"):
        return False
    if kind == "row":
        head = column_head(analysis, share.start)
        if _STOCKTAKING.search(head) and not _PLANNED.search(head):
            return True
    before = analysis.line_before(share.start)
    return _STOCKTAKING.search(before) is not None and _PLANNED.search(before) is None


def in_foreign_column(analysis: Analysis, share: Quantity) -> bool:
    """Say whether the share stands in a column of figures about the products: returns, fees, drawdowns."""
    return (
        analysis.line_kind(share.start) == "row"
        and _FOREIGN_HEAD.search(column_head(analysis, share.start)) is not None
    )


def heads_weights(analysis: Analysis, share: Quantity) -> bool:
    """Say whether the head of the share's column calls what stands under it weights."""
    return _WEIGHT_HEAD.search(column_head(analysis, share.start)) is not None


_WEIGHT_HEAD: Final = late(r"占比|比例|权重|仓位|\b(?:weight|share|allocation|target)|%")


def column_head(analysis: Analysis, position: int) -> str:
    """Return the cell that heads the column of a position in a table, or "" where there is none."""
    low, _ = analysis.sentence_span(position)
    column = analysis.norm.count("|", low, position)
    cells = analysis.lead_in(position).split("|")
    return cells[column] if column < len(cells) else ""


def _cells(analysis: Analysis, share: Quantity) -> str:
    """Return the first cell of the share's row and the clause of its own cell."""
    low, high = analysis.sentence_span(share.start)
    norm = analysis.norm
    first_end = norm.find("|", norm.find("|", low) + 1)
    first = norm[low : first_end if low < first_end < high else high]
    return first + norm[slice(*analysis.clause_span(share.start, share.end))]
