"""Advised weights: which share of the money a reply puts where.

Weights are read from running text (股票45%、债券35%; 40% in one dividend ETF; 把三分之二放到权益类), lists,
table rows, stock-bond ratios (股六债四), all-in orders (全仓) and remainders (其余全放现金). A share that is
a return, a fee, a yield, a drawdown, a percentile, a limit or a figure of the past is no weight.
All offsets count in ``Analysis.norm``.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from memfin.scoring.advice import disowned
from memfin.scoring.bilingual import Bilingual
from memfin.scoring.language import Analysis
from memfin.scoring.quantities import Quantity

Role = Literal["target", "held", "added", "reduced", "total", "part"]


class Label(NamedTuple):
    """A word of an asset class in the reply."""

    asset_class: str
    start: int
    end: int


class Weight(NamedTuple):
    """One share of the money.

    ``role`` tells a proposed weight from one that is held today, added to what is held, a step of a
    reduction, or the sum of others. ``group`` numbers the allocation it belongs to. ``each`` marks a
    weight that every one of ``holdings`` holdings has. ``low`` and ``high`` are fractions of the whole.
    """

    asset_class: str | None
    low: float
    high: float
    start: int
    end: int
    label: str
    role: Role
    group: int
    each: bool
    holdings: int = 1


_BREAK: Final = re.compile(
    r"[,、;。!?\n|+]|(?:和|与|及|以及|搭配|再配|外加|\band\b|"
    r"\bplus\b)(?=[约大概各\s]*[\d一二两三四五六七八九])|\band (?:put |invest |keep )?the (?:rest|"
    r"remainder|other)\b"
)
_NO_WEIGHT_BEFORE: Final = Bilingual(
    r"(?:年化|收益率?|回报率?|涨幅?|跌幅?|上涨|下跌|回撤|回落|亏损?|损失|波动率?|费率?|管理费|托管费|"
    r"利率|票息|股息率?|变成了?|变为|升至|涨至|涨到|分位|概率|换手率?|"
    r"增长|增速|同比|环比|胜率|止损线?|止盈线?|业绩|利润|营收|毛利率?|负债率|税率?|溢价率?|折价|息差|利差|"
    r"得分|容忍度|偏离|阈值|目标|缩水|浮亏|"
    r"跑赢|通胀|cpi|ppi|gdp|m2|市占率|市场份额|报酬|分红率?|不良率|杠杆率|保证金|违约率|"
    r"夏普)[^,、;。!?\n|\d]{0,8}$",
    r"\b(?:returns?|yield\w*|gain\w*|fees?|drawdown|loss\w*|fell|rose|up|down|percentile|probability|"
    r"chance|coupon|rate|volatility|inflation|"
    r"beats?|expense ratio|discount|growth)[^,、;。!?\n|\d]{0,8}$",
)
_NO_WEIGHT_AFTER: Final = re.compile(
    r"\s*(?:左右|上下|多|以上|以内)?的?(?:历史)?(?:分位|收益|年化|概率|回撤|回落|波动|涨幅|跌幅|股息|"
    r"费|利息|票息|利率|的?可能|亏损|浮亏|报酬|增长|税|胜率|"
    r"止损|折扣|跌|涨|把握|机会|安全|合规|满足|保障|return|yield|gain|fee|loss|drawdown|percentile|"
    r"probability|chance|coupon|interest|growth|discount)"
)
_WEIGHT_WORD: Final = re.compile(r"仓位|占比?|比例|配(?!股)|权重|weight\b|allocation\b|exposure\b|in\b")
_LIMIT: Final = re.compile(
    r"上限|下限|底线|约束|红线|限制|要求|门槛|天花板|风控线|limit|ceiling|cap\b|rule\b|floor|"
    r"threshold|maximum|minimum"
)
_HELD: Final = re.compile(
    r"现有|目前|当前|已有|您的持仓|您持有|您现在|您手里|原来|原本|原先|此前|之前|持仓表|现在的组合|占比已|"
    r"you (?:currently )?(?:hold|have|own)|your (?:current|existing)|currently"
)
_ADDED: Final = re.compile(
    r"(?:再加|加仓|增加|再买|再配|追加|加上|提高|上调|再补|add(?:ing)?(?: another)?|another|"
    r"increase by)[^,。]{0,4}$"
)
_POINTS: Final = re.compile(r"百分点|points?")
_REDUCED: Final = re.compile(
    r"(?:降到|减到|降至|减至|压到|压缩到|缩减到|回落到|砍到|降为|减为|调低到|下调到|降低到|降低至|"
    r"收到|down to|cut to|reduce to|trim to)[^,。]{0,4}$"
)
_TOTAL: Final = re.compile(
    r"合计|总计|一共|共计|总共|加起来|总仓位|合起来|累计|together|in total|combined|altogether"
)
_ILLUSTRATIVE: Final = re.compile(
    r"[(,、:]?(?:例如|比如|譬如|如|若|假设|设|占指数|e\.g\.)[^,、;。!?\n|\d]{0,10}$"
)
_MOVES_FROM: Final = re.compile(r"(?:从|由|超过|高于|低于|from)[^,。%\d成]{0,6}$")
_DISADVISED: Final = re.compile(
    r"(?:不建议|不推荐|不要|不宜|不应|不该|别(?!超|低|高)|避免|切勿|勿(?!超)|不会|没有|don't|do not|"
    r"avoid|never|not (?:recommend|suggest|advis)\w*)"
    r"(?![^,。;]{0,6}(?:超过|低于|高于))[^,。;!?\n]{0,14}$"
)
_DESCRIBED: Final = re.compile(
    r"合同|约定|前[一二三五十]大|集中度|规定|招募|季报|基准|指数(?:中|里|的)|前十大|成分股|重仓股|"
    r"基金经理|管理人|(?:这|该|此|那)(?:只|款|支)[^,。]{0,8}(?:股票|债券|权益|现金)?(?:仓位|持仓|占)|"
    r"偏股混合基金的|"
    r"市场份额|营收|收入|gdp|人口|客户|机构(?:资金|持有)|渗透率|成交额|公司|很多人|有人|岁的人|公式|"
    r"法则|历史上|过去|曾|当时|权重股|行业权重|保证金|平均|一般(?:家庭|人)|"
    r"\b(?:fund (?:itself )?(?:holds|has|keeps)|the fund's|its portfolio|prospectus|benchmark|historically)\b"
)
_EACH: Final = re.compile(r"各(?!类|种|自|位|家|大)|每只|每个|每支|分别|each\b|apiece\b")
_PART: Final = re.compile(
    r"(?:债券|债|权益|股票|固收|投资|基金|剩余|其余|余下|这|那|核心|卫星|进攻|防守|这一|这块|"
    r"该)(?:的)?(?:部分|仓|块|桶)(?:这样|里|中|内|的|再|按|分|拿|:|,)|其中|里面|"
    r"在权益(?:仓位)?[中里内]"
    r"|\bwithin the\b|\bof the (?:bond|equity|stock) (?:part|sleeve|portion)\b"
)
_ALTERNATIVE: Final = re.compile(
    r"(?:保守|稳健|平衡|均衡|进取|积极|激进|成长|防御|增强)(?:型|派|版|方案|模型|组合)|"
    r"方案[一二三四abc123]|[一二三四abc123]方案|情形[一二三abc]|模型\(|"
    r"(?:option|plan|scenario|model) [abc123]|\b(?:conservative|balanced|aggressive)\b"
)
_RATIO: Final = re.compile(
    r"股([\d一二三四五六七八九])债([\d一二三四五六七八九])|股债(?:比例?|"
    r"配比)?[:按为是约 ]*([1-9]\d?)\s?[:/比开-]\s?([1-9]\d?)|"
    r"债([\d一二三四五六七八九])股([\d一二三四五六七八九])|\b([1-9]0)/([1-9]0)\b(?=[ -](?:stock|equit|"
    r"portfolio|split|mix))"
)
STOCK_BOND: Final = re.compile(r"股[\d一二三四五六七八九]?债|债[\d一二三四五六七八九]股")
"""Where a stock-bond ratio may stand."""
_REST: Final = re.compile(
    r"(?:剩下|剩余|其余|余下)(?:的)?(?:资金|部分|钱)?(?:全部?|都|统统)?(?:的)?(?:放|配|买|投|留|做|换|"
    r"存)?|\bthe rest\b(?: goes)?(?: in| into)?|\bthe remainder\b(?: in| into)?"
)
_SCALED: Final = re.compile(
    r"(?:投资部分|投资的部分|剩余|其余|剩下|余下|可投资产|可投资金|投资资金)[^,。;\n]{0,6}$"
)
_BARE_VERB: Final = re.compile(
    r"\s*(?:建议|可以|可)?(?:占比|仓位|比例)?(?:可以|可|能|大概)?(?:大约|约)?(?:占|配|各|配到|配置|拿|"
    r"放|买|最多|先配|到|提到|加到|给到|放到)?\s*"
)
_ENUMERATED: Final = re.compile(r"\s*/\s*\d+%\s*/")
_FOREIGN_CELL: Final = re.compile(
    r"年化|波动率?|回撤|收益率?|涨幅|跌|费率|分位|股息|利率|息差|担保|平仓|胜率|同比|环比|增速|违约|"
    r"亏损|roe|不良|缺口|占比超|pb|pe\b"
)
_CHANGED: Final = re.compile(r"\s*(?:降|减|压|提高?|升|加|调)(?:到|至)\s*| (?:down |up )?to ")
_NUMBERS: Final = {
    **{word: value for value, word in enumerate("零一二三四五六七八九十")},
    "两": 2,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
}
_SEVERAL: Final = re.compile(r"([两二三四五六七八九十2-9])(?:只|个|支)|(two|three|four|five|six) ")
_HEAD: Final = 20
_GAP: Final = 160
_WHOLE: Final = 1.0
_COMPLETE: Final = 0.95


def weights(analysis: Analysis, shares: Sequence[Quantity], found: Sequence[Label]) -> list[Weight]:
    """Return the weights among the shares of a reply, in order; ``found`` are its class words, in order."""
    norm = analysis.norm
    starts = [label.start for label in found]
    result: list[Weight] = []
    group, last_end, rows = 0, 0, _plan_rows(analysis, shares)
    after_style: dict[int, bool] = {}
    for index, share in enumerate(shares):
        if not 0 < share.low <= share.high <= _WHOLE or not may_weigh(norm, share):
            continue
        low, high = _segment(norm, shares, index, analysis)
        role = _role(analysis, share, low, high)
        if role is None:
            continue
        label = _label(norm, share, (low, high), found, starts, after_style, analysis)
        new_row = analysis.sentence_at(share.start) in rows and "\n" in norm[last_end : share.start]
        if result and (new_row or _separate(norm, last_end, share.start)):
            group += 1
        last_end = share.end
        text = norm[_topic(norm, low, share.start, analysis) : high]
        each = _EACH.search(text) is not None
        count = _count(text) if each else 1
        result.append(
            Weight(label, share.low, share.high, share.start, share.end, text, role, group, each, count)
        )
    result.extend(_ratios(analysis, shares, group + 1))
    result.extend(_remainders(analysis, result, found, starts))
    return sorted(result, key=lambda weight: weight.start)


def _count(text: str) -> int:
    """Return how many holdings a label speaks of: 三只ETF各25%, each of three funds."""
    match = _SEVERAL.search(text)
    if match is None:
        return 1
    word = match.group(1) or match.group(2)
    return _NUMBERS[word] if word in _NUMBERS else int(word)


def may_weigh(norm: str, share: Quantity) -> bool:
    """Say whether the words right beside a share leave it a weight: 年化5% and 8%的费率 do not."""
    if _NO_WEIGHT_AFTER.match(norm, share.end) or _ENUMERATED.match(norm, share.end):
        return False
    head = norm[max(0, share.start - _HEAD) : share.start]
    match = _NO_WEIGHT_BEFORE.search(head)
    return match is None or _WEIGHT_WORD.search(match.group()) is not None


def _plan_rows(analysis: Analysis, shares: Sequence[Quantity]) -> frozenset[int]:
    """Return the sentences that are table rows with several shares: each row is a plan of its own."""
    counts: dict[int, int] = {}
    for share in shares:
        sentence = analysis.sentence_at(share.start)
        counts[sentence] = counts.get(sentence, 0) + 1
    return frozenset(
        sentence
        for sentence, count in counts.items()
        if count > 1 and analysis.line_kind(analysis.sentences[sentence][0]) == "row"
    )


def _segment(norm: str, shares: Sequence[Quantity], index: int, analysis: Analysis) -> tuple[int, int]:
    """Return the stretch around a share that can hold its label; a table row is one stretch."""
    share = shares[index]
    low, high = analysis.sentence_span(share.start)
    row = analysis.line_kind(share.start) == "row"
    if row:
        return low, max(share.end, min(high, share.end + 40))
    left, right = low, high
    if index and shares[index - 1].end > low:
        left = shares[index - 1].end
    if index + 1 < len(shares) and shares[index + 1].start < high:
        right = shares[index + 1].start
    for match in _BREAK.finditer(norm, left, share.start):
        left = match.end()
    after = _BREAK.search(norm, share.end, right)
    return left, after.start() if after else right


def _topic(norm: str, low: int, start: int, analysis: Analysis) -> int:
    """Return where the label begins; a bare verb (配四成) has it in the clause before."""
    sentence_low, _ = analysis.sentence_span(start)
    if low <= sentence_low or norm[low - 1] != "," or not _BARE_VERB.fullmatch(norm, low, start):
        return low
    previous = max(norm.rfind(mark, sentence_low, low - 1) for mark in ",、:")
    return max(previous + 1, sentence_low)


def _role(  # noqa: C901, PLR0911 - one return a reading
    analysis: Analysis, share: Quantity, low: int, high: int
) -> Role | None:
    norm = analysis.norm
    before, after = norm[low : share.start], norm[share.end : min(high, share.end + 14)]
    clause_low, _ = analysis.clause_span(share.start, share.end)
    head = norm[clause_low : share.start]
    if analysis.line_kind(share.start) == "row" and _FOREIGN_CELL.search(_cells(analysis, share)):
        return None
    if _LIMIT.search(norm[max(clause_low, share.start - 6) : share.start]) or _LIMIT.search(after[:10]):
        return None
    if _ILLUSTRATIVE.search(head) or _DISADVISED.search(head) or _MOVES_FROM.search(head[-10:]):
        return None
    sentence_low, _ = analysis.sentence_span(share.start)
    if _DESCRIBED.search(norm, max(sentence_low, share.start - 60), share.start):
        return None
    if disowned(analysis, share.start, share.end):
        return None
    if _REDUCED.search(head[-12:]):
        return "reduced"
    if _ADDED.search(head[-12:]) and (
        _POINTS.search(share.unit) or "再" in head[-6:] or "another" in head[-16:]
    ):
        return "added"
    own = re.search(r"建议|我会|推荐|suggest|recommend", norm[sentence_low : share.start])
    held = None
    for match in _HELD.finditer(norm, sentence_low, share.start):
        held = match
    if held is not None and (own is None or own.start() + sentence_low < held.start()):
        return "held"
    if _TOTAL.search(before):
        return "total"
    if "其中" in norm[sentence_low : share.start]:
        return "part"
    return "target"


def _cells(analysis: Analysis, share: Quantity) -> str:
    """Return the first cell of the share's row and its own cell."""
    low, high = analysis.sentence_span(share.start)
    norm = analysis.norm
    first_end = norm.find("|", norm.find("|", low) + 1)
    own_start = max(norm.rfind("|", low, share.start), low)
    own_end = norm.find("|", share.end, high)
    first = norm[low : first_end if low < first_end < high else high]
    return first + norm[own_start : own_end if own_end > 0 else high]


def _label(  # noqa: PLR0911 - one return a position
    norm: str,
    share: Quantity,
    segment: tuple[int, int],
    found: Sequence[Label],
    starts: Sequence[int],
    after_style: dict[int, bool],
    analysis: Analysis,
) -> str | None:
    low, high = segment
    sentence = analysis.sentence_at(share.start)
    inside = found[bisect_left(starts, low) : bisect_left(starts, high)]
    before = [label for label in inside if label.end <= share.start]
    after = [label for label in inside if label.start >= share.end]
    if analysis.line_kind(share.start) == "row":
        return (before or after)[0].asset_class if inside else None
    if before and not after_style.get(sentence):
        after_style.setdefault(sentence, False)
        return before[-1].asset_class
    if after:
        after_style.setdefault(sentence, True)
        return after[0].asset_class
    if before:
        return None
    if _CHANGED.fullmatch(norm, low, share.start):  # 现金可以从20%降到10%
        sentence_low, _ = analysis.sentence_span(share.start)
        earlier = found[bisect_left(starts, sentence_low) : bisect_left(starts, low)]
        return earlier[-1].asset_class if earlier else None
    # 红利基金那部分,占30%: the label stands in the clause before.
    clause_low, _ = analysis.clause_span(share.start, share.end)
    sentence_low, _ = analysis.sentence_span(share.start)
    if low >= clause_low > sentence_low and _BARE_VERB.fullmatch(norm, low, share.start):
        earlier = found[bisect_left(starts, sentence_low) : bisect_left(starts, low)]
        return earlier[-1].asset_class if earlier else None
    return None


def _separate(norm: str, end: int, start: int) -> bool:
    gap = norm[end:start]
    return len(gap) > _GAP or "\n#" in gap or _ALTERNATIVE.search(gap) is not None


def alternatives(analysis: Analysis, found: Sequence[Weight]) -> bool:
    """Say whether the groups of weights are plans to choose from instead of one plan."""
    first: dict[int, int] = {}
    for weight in found:
        first.setdefault(weight.group, weight.start)
    complete = sum(
        sum(weight.low for weight in found if weight.group == group and weight.role == "target") >= _COMPLETE
        for group in first
    )
    if complete > 1:
        return True
    marked, last = 0, 0
    for start in sorted(first.values()):
        marked += _ALTERNATIVE.search(analysis.norm, max(last, start - 200), start) is not None
        last = start
    return len(first) > 1 and marked > 1


def is_part(analysis: Analysis, group: Sequence[Weight]) -> bool:
    """Say whether the weights divide a part of the money (债券部分这样配) and not the whole."""
    low, _ = analysis.sentence_span(group[0].start)
    return _PART.search(analysis.norm, low, group[0].start) is not None


def _ratios(analysis: Analysis, shares: Sequence[Quantity], group: int) -> list[Weight]:
    norm = analysis.norm
    if STOCK_BOND.search(norm) is None and "0/" not in norm:
        return []
    result: list[Weight] = []
    for match in _RATIO.finditer(norm):
        if disowned(analysis, match.start(), match.end()) or _HELD.search(
            norm, max(0, match.start() - 24), match.start()
        ):
            continue
        if _DISADVISED.search(norm[max(0, match.start() - 20) : match.start()]):
            continue
        parts = [part for part in match.groups() if part is not None]
        first, second = (_tenths(part) for part in parts)
        if match.group(5) is not None:
            first, second = second, first
        scale = _WHOLE
        for share in shares:
            near = 0 < match.start() - share.end < 30  # noqa: PLR2004 - characters within reach
            if near and _SCALED.search(norm[max(0, share.start - 16) : share.start]):
                scale = share.low
        total = first + second
        start, end = match.span()
        for name, part in (("equity", first), ("bond", second)):
            value = scale * part / total
            result.append(Weight(name, value, value, start, end, match.group(), "target", group, each=False))
        group += 1
    return result


def _tenths(text: str) -> float:
    return float(text) if text.isdigit() else float("零一二三四五六七八九".index(text))


def _remainders(
    analysis: Analysis, found: Sequence[Weight], words: Sequence[Label], starts: Sequence[int]
) -> list[Weight]:
    norm = analysis.norm
    result: list[Weight] = []
    if not found or not ("剩" in norm or "其余" in norm or "余下" in norm or "the re" in norm):
        return result
    for match in _REST.finditer(norm):
        _, high = analysis.clause_span(match.start(), match.end())
        if any(match.start() <= weight.start < high for weight in found):
            continue
        inside = words[bisect_left(starts, match.end()) : bisect_left(starts, high)]
        earlier = [weight for weight in found if weight.end <= match.start() and weight.role == "target"]
        if not inside or not earlier or match.start() - earlier[-1].end > _GAP:
            continue
        group = [weight for weight in earlier if weight.group == earlier[-1].group]
        rest = _WHOLE - sum(weight.low * weight.holdings for weight in group)
        if (
            0 < rest < _WHOLE
            and not is_part(analysis, group)
            and len({label.asset_class for label in inside}) == 1
        ):
            text = norm[match.start() : high]
            result.append(
                Weight(
                    inside[0].asset_class,
                    rest,
                    rest,
                    match.start(),
                    high,
                    text,
                    "target",
                    group[0].group,
                    each=False,
                )
            )
    return result
