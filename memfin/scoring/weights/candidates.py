"""Which shares may be weights at all: no return, fee, yield, drawdown, percentile or figure of the past.

The words right beside a share tell; `memfin.scoring.weights.roles` reads the sentence.
Offsets count in ``Analysis.norm``.
"""

from typing import Final

from memfin.scoring.numbers.quantities import Quantity
from memfin.scoring.patterns.bilingual import Bilingual
from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis

_NO_WEIGHT_BEFORE: Final = Bilingual(
    r"(?:年化|(?<!高)(?<!固定)收益率?(?!债|凭证)|回报率?|涨幅?|跌幅?|上涨|下跌|反弹|回升|拉升|收[涨跌]|回撤|"
    r"回落|亏损?|损失|"
    r"(?<!低)波动率?|(?<!消)费率?|管理费|托管费|"
    r"利率(?!债)|票息|派息率?|分派率|股息率?(?<!高股息)(?<!高股息率)|变成了?|变为|升至|涨至|涨到|分位|概率|"
    r"换手率?|"
    r"增长|增速|同比|环比|胜率|止损线?|止盈线?|业绩|利润|营收|毛利率?|负债率|税率?|溢价率?|折价|息差|利差|"
    r"得分|容忍度|偏离|阈值|(?<!养老)目标(?!日期)|缩水|下滑|走低|浮亏|"
    r"赚|盈利|飙升|上升|升值|贬值|上扬|走高|走低|跑赢|通胀|cpi|ppi|gdp|m2|市占率|市场份额|报酬|分红率?|"
    r"不良率|杠杆率|开工率|开机率|利用率|入住率|出租率|空置率|渗透率|国产化率|保证金|违约率|爆雷率|"
    r"夏普)[^,、;。!?\n|\d]{0,8}$",
    r"\b(?:(?:rally|rise|rises|fall|slip|sink|falls|slips|sinks|declines|drop|drops|decline|crash|soar|"
    r"surge|tumble|plunge)(?! to)|"
    r"return\w*|earn\w*|borrow\w*|charg\w+|costs?|pays?|paying|made(?! up)|contribut\w*|climb\w*|"
    r"jump\w*|lost|shed|soared|slid|rallied|surged|advanced|plunged|tumbled|dropped|declined|dipped|sank|"
    r"rebounded|"
    r"recovered|returned|outperformed|underperformed|swung|compound\w*|grew|yield\w*|gain\w*|fees?|"
    r"drawdown|loss\w*|fell|rose|"
    r"(?<!would make )(?<!should make )(?<!could make )(?<!will make )(?<!can make )(?<!to make )up(?! to)|"
    r"down(?! to)|percentile|probability|"
    r"chance|coupon|rate|volatility|inflation|"
    r"beats?|expense ratio|discount|los(?:e|es|ing)|growth(?! (?:fund|etf|stock|share|sleeve|equit|"
    r"tracker)))[^,、;。!?\n|\d]{0,8}$",
)
_NO_WEIGHT_AFTER: Final = late(
    r" *(?:左右|上下|多|以上|以内)?的?(?:历史|基差|贴水|浮动|最大|累计|涨跌|年度|单日)?(?:分位|收益|"
    r"回报|利润|基差|贴水|利差|票息|下跌|上涨|下滑|幅度|起伏|缩水|损失|年化|概率|回撤|回落|波动|涨幅|"
    r"跌幅|股息|"
    r"费|利息|票息|利率(?!债)|的?可能|亏损|浮亏|报酬|增长|税|胜率|"
    r"止损|折扣|跌|涨|跑[赢输]|落后|把握|机会| (?:a|per|each|every) (?:year|month)\b|"
    r" of (?:last|this|the) (?:year|month|quarter|decade)|安全|"
    r"合规|满足|保障| of the (?:s&p|index|benchmark|market|fund|company|register)|return|"
    r"yield|gain|fee|loss|drawdown|percentile|的占比意味着| (?:moves?|swings?) in\b|来自|源自|"
    r" of [^,.;]{0,24}\b(?:revenues?|earnings|profits|"
    r"sales)\b|"
    r"probability|chance|coupon|interest|growth(?! (?:fund|etf|stock|share|tracker|equit))|discount)"
)
_WEIGHT_WORD: Final = late(
    r"(?:再|就|后|时|则)[补加买追投进配](?!速|息|权|班)|仓位|占比?|比例|配(?!股)|权重|weight\b|"
    r"allocation\b|exposure\b|in\b"
)
_PRODUCT_NAME: Final = late(
    r"^[^的了,]*(?:年金|险(?![率费])|存单|信托|保单|基金|etf|联接|凭证|股票?(?!息)|债券?|类|主题|指数|混合|因子|"
    r"[- ](?:funds?|stocks?|bonds?|notes?|shares|equit\w+|etfs?|names|companies|securities|tracker|"
    r"fund of funds|"
    r"gilts|tips))\s*(?:约|占|配|放|at|:)?\s*$"
)
"""A product named after what would else be a figure: growth stocks 30%, 收益凭证20%."""
TURNED: Final = late(r"[从由][^,。;]{1,8}变[成为]了?$")
_ENUMERATED: Final = late(r"\s*/\s*\d+%\s*/")
_RATE: Final = late(
    r"(?:%|percent|each|every|per|once|twice|times|points?|next|last|this|first|second|third|fourth|"
    r"previous|coming|past|current|"
    r"earlier|later) $"
)
"""Before a quarter that is a time: costs 1% a quarter."""
_WITHIN: Final = late(r"\b(?:fell|lost|dropped|rose|gained|sank|slid)\b[^,.;]{0,14} (?:in|over|within) $")
"""Before one quarter that is a time: fell by a third in one quarter."""
_HEAD: Final = 20
_MARGIN: Final = 48
_OUTDONE: Final = late(
    r"\b(?:beat\w*|outpac\w+|outperform\w*|outdid|led|lagg?\w*|trail\w*|underperform\w*|ahead of|behind)\b"
    r"[^,;.!?\n|\d]{1,30}\bby (?:about |around |almost |nearly |some |over )?$"
)
"""What one index is ahead of another by."""


_LEAST: Final = 0.005
"""Half a hundredth of a sum is a fee, and nobody's plan."""


_MOST_OF_A_RATE: Final = 0.08
_BEARS_INTEREST: Final = late(
    r"定存|存单|存款|国债|中票|短融|理财|逆回购|活期|(?<![a-z])a{2,3}(?![a-z])|年期|\b(?:deposits?|"
    r"treasur\w+|bills?|gilts?)\b"
)
_IS_PUT: Final = late(
    r"配|占|放|仓|留|买|拿|投|存入|比例|权重|合计|调[到至]|\b(?:put|place|invest|move|shift|weight|"
    r"allocat\w*|hold|keep|buy|"
    r"purchase|position)\b"
)


def without_rates(analysis: Analysis, shares: list[Quantity]) -> list[Quantity]:
    """Leave out the yields of a sentence that compares interest alone: AAA中票约2.1%,一年定存约1.1%."""
    if not any(share.high < _MOST_OF_A_RATE for share in shares):
        return shares
    norm = analysis.norm
    by_sentence: dict[int, list[Quantity]] = {}
    for share in shares:
        by_sentence.setdefault(analysis.sentence_at(share.start), []).append(share)
    rates = {
        share
        for sentence, found in by_sentence.items()
        if all(share.high < _MOST_OF_A_RATE for share in found)
        and any("." in norm[share.start : share.end] and norm[share.end - 1] == "%" for share in found)
        and _BEARS_INTEREST.search(norm, *analysis.bounds[sentence : sentence + 2])
        and _IS_PUT.search(norm, *analysis.bounds[sentence : sentence + 2]) is None
        for share in found
    }
    return [share for share in shares if share not in rates]


_SURE: Final = late(r"百分之?百(?:的?(?:会|能|收|涨|跌|没|是|确|肯|安|放心|有|到|兑|赔|赚|成功|命中|翻|保))")
"""Not all of the money, but without a doubt: 百分之百收红."""


def may_weigh(norm: str, share: Quantity) -> bool:
    """Say whether the words right beside a share leave it a weight: 年化5% and 8%的费率 do not."""
    if share.high <= _LEAST or _NO_WEIGHT_AFTER.match(norm, share.end) or _ENUMERATED.match(norm, share.end):
        return False
    if _SURE.match(norm, share.start):
        return False
    head = norm[max(0, share.start - _HEAD) : share.start]
    if _OUTDONE.search(norm, max(0, share.start - _MARGIN), share.start):
        return False
    if share.unit == "quarter" and _RATE.search(head):
        return False
    if share.unit == "quarter" and _WITHIN.search(head):
        return False
    match = _NO_WEIGHT_BEFORE.search(head)
    return (
        match is None
        # A figure in a note before the share is the note's own: 宽基(估值18%分位):35%.
        or match[1].count(")") > match[1].count("(")
        or _WEIGHT_WORD.search(match.group(1)) is not None
        or _PRODUCT_NAME.search(match.group(1)) is not None
        or TURNED.search(head) is not None
    )
