"""Losses that a reply plans for: stop lines, tolerances, what its own plan may lose.

A loss of the past, of another asset, in a question or under a condition plans nothing.
"""

from functools import partial
from typing import Final

from memfin.scoring.advice.advised import advised
from memfin.scoring.attribution.disowning import disowned, in_quotes
from memfin.scoring.constraints.predicates import MaxDrawdown
from memfin.scoring.limits.borne_losses import (
    ADOPTED,
    FORGIVEN,
    MADE_LIGHT_OF,
    NOT_ADVISED,
    ONE_HOLDING,
    OTHER_SUBJECT,
    PAST,
    UNSURE,
    WAITED,
    WHOLE_LOSS,
    gone_ahead,
    of_main_holding,
    offered_with,
    said_to_fit,
    tabled_loss,
    untouched,
)
from memfin.scoring.limits.caps import EPSILON, Span
from memfin.scoring.limits.planned_losses import EXPECTED, has_plan, planned_loss
from memfin.scoring.limits.stop_rules import levels, set_stop, sold_part, stop_rule, tells_levels
from memfin.scoring.limits.tiers import tiers_taken
from memfin.scoring.limits.told_falls import of_small_part, told_fall
from memfin.scoring.numbers.quantities import Quantity, quantities
from memfin.scoring.patterns.expressions import compile_pattern, late
from memfin.scoring.text.language import Analysis
from memfin.scoring.weights.amounts import is_whole
from memfin.scoring.weights.reading import Reading

_REACH: Final = 30
_WIDE_REACH: Final = 48
_CLAUSE: Final = r"[^,:;。!?\n]"
_MORE_LOSS: Final = (
    r"(?<![率额润收量速模])(?:走低|下滑|下探)|蒸发|回吐|吐回去?|赔(?!率|付)|砍|(?:账面|市值|净值|账户|"
    r"资产|本金)[^,。]{0,4}少|g[ai]v(?:e|"
    r"ing) (?:up|back)|surrender|shave|"
)
_PRICE_LIMIT: Final = late(r"涨跌(?:幅|停)[^,。;]{0,6}$|\bprice limits? (?:is|are|of) $")
"""How far a price may move in a day by the rules of the exchange."""
_UNFIT: Final = late(r"(?:不适合|不合适|不符合|不匹配)(?:你|,|$)[^。;!?\n]{0,24}$")
"""What was called unfit before its loss is told."""
_LOSS: Final = late(
    _MORE_LOSS
    + r"worst|toleranc|容忍|测试|压测|stress|回撤|回落|亏损|浮亏|亏|缩水|下跌|跌|掉|陷|折损|损失|止损|"
    r"清仓线|平仓线|预警线|警戒线|离场|认赔|割肉|drawdown|"
    r"stop\b|exit (?:line|level|point)|under ?water|loss(?:es)?\b|"
    r"lost\b|fell\b|dropped\b|shed\b|gave up\b|sank\b|slid\b|tumbled\b|declined\b|"
    r"loses?\b|falls?\b|drops?\b|"
    r"declines?\b|off the top|stop[- ]loss|down\b|最深|缩|dip\b|slump\b|slide\b|plunge\b|trough\b|minus\b"
)
_LOSS_NEAR: Final = compile_pattern(
    rf"(?:{_MORE_LOSS}回撤|回落|亏损|浮亏|亏|缩水|下跌|跌|跌幅|掉过?|陷到?|折损|损失|止损线?|止损位|"
    rf"清仓线|平仓线|预警线|警戒线|容忍(?:度|线|上限)|toleranc\w*|"
    rf"离场[线点]?|认赔线?|drawdown|"
    rf"loss(?:es)?|lose|lost|fell|dropped|shed|sank|slid|tumbled|declined|gave up|fall|"
    rf"drop|decline|stop[- ]loss|down|最深|缩|dip|slump|slide|plunge|"
    rf"minus)(?![^,。]{{0,3}}恢复){_CLAUSE}{{0,16}}$|"
    rf"\b(?:stop|exit (?:line|level|point))\b{_CLAUSE}{{0,32}}$|"
    rf"(?:压力测试|压测|测试|回测|stress test){_CLAUSE}{{0,10}}(?:是|为|约|of|at|:)? ?[-−]$|"
    rf"\bworst{_CLAUSE}{{0,30}} (?:is|of|at|around|about|near|minus)? ?[-−]?$"
)
_LOSS_AFTER: Final = late(
    r"\s*(?:左右|上下|多|以上|以内|的)*\s*(?:硬|总|整体|移动|浮动|trailing |hard |overall )?(?:回撤|亏损|"
    r"浮亏|跌幅|的?(?:损失|回落|下跌|走低|下滑)|止损|"
    r"under ?water|in the red|below (?:the|its|your) (?:last |recent )?(?:high|peak|top)|"
    r"lower\b|off (?:the (?:top|peak|high)|its (?:peak|high))|max(?:imum)? drawdown|drawdown|loss|"
    r"stop[- ]loss|decline|drop|dip|slump|"
    r"slide|plunge|hit)"
)
_STOP: Final = late(r"止损|exit (?:line|level|point)|stop\b|清仓线|平仓线|预警线|警戒线|离场|认赔|割肉")
_SET_STOP: Final = late(
    r"[给为]你[设定](?:了|好|下)?的?[^,。;]{0,6}(?:止损|清仓|平仓|离场|预警|警戒)|"
    r"(?:止损|清仓|平仓|离场|认赔|割肉|预警|警戒)[线位点]?[^,:;。!?\n]{0,8}?[设放定划摆挂拉](?!弃|大镜)|"
    r"\b(?:set|put|place|move|have|keep|leave|use) (?:the|a|your) (?:[a-z-]+ ){0,2}(?:stop|exit)\b|"
    r"\bstop(?:[- ]loss)? (?:of|at) "
)
_TOLERANCE: Final = late(
    r"(?:建议|可以|不妨|应|最好|需要|得)你?[^,。;]{0,3}(?:接受|承受|忍受)|\b(?:comfortable|happy|"
    r"at ease) with\b|容忍度?|回撤(?:上限|目标|预算|阈值|警戒|预警|线|底线|控制|空间|限制)|(?:上限|底线|"
    r"红线|"
    r"目标)[^,。]{0,6}(?:放宽|提高|放到|设)|放宽|放大到|提高到|调到|上调|设在|设为|设定|放到|定在|"
    r"tolera\w*|budget|raise|widen|relax|set"
)
_ALLOWED: Final = late(
    r"(?:允许|容许|容忍|接受|承受|忍受)[^,。;]{0,3}(?:账户|组合|整体|净值|资金|总)[^,。;]{0,8}(?:亏|赔|损失|"
    r"回撤|回落|跌|缩水|走低|下滑)[^,。;]{0,4}$|"
    r"\b(?:allow|let|accept|tolerat|stomach)(?:e|ing|ting)?\b[^,.;]{0,12}\b(?:account|portfolio|plan|fund|"
    r"position|it|things|mix)\b[^,.;]{0,16}\b(?:fall|drop|lose|down|loss|slide|slip|sink|dip|decline|"
    r"drawdown)\b[^,.;]{0,12}$|\b(?:accept|tolerate|stomach|live with|put up with) (?:an? |the |"
    r"up to |(?:drawdown|fall|dip|decline|slide|slip)s? of |"
    r"losses of |drops? of )*$"
)
_NORMAL: Final = late(
    r"(?:不必|不用|无需|不要|别)(?:太)?(?:惊慌|慌|紧张|担心|害怕|怕)|正常(?:波动|现象|范围|的)|属于正常|"
    r"很正常|家常便饭|(?:计划|预期|预料|意料)(?:以内|之中|内)|"
    r"\b(?:normal|routine|nothing unusual|do(?:n't| not) panic|no need to panic)\b"
)
_LOOSENED: Final = late(
    r"(?:保守|太[紧严死低窄]|偏[紧低严])[^。;!?\n]{0,14}(?:按|放宽到|放到|提到|调到|改[成到]|设[成到为])|"
    r"\b(?:too (?:tight|strict|cautious|conservative))\b[^.;!?\n]{0,40}\b(?:to|at)\b"
)
_ENDURE: Final = late(
    r"扛一扛|忍一忍|熬一熬|挺过去|撑过去|熬过去|扛过去|扛住|扛得住|扛过|拿得?住|拿稳|忍住|熬过|挺住|"
    r"别下车|别走|别离场|不必理会|不用管|不用理会|"
    r"别慌|坚持(?:住|持有|拿|下去|做满|执行|定投)|咬牙|(?:涨|补|修复|赚|反弹)回来|收复失地|\b(?:do not|"
    r"don't) (?:sell|offload|unload|bail)|sit through|do nothing|"
    r"hold still|ride (?:it )?out|hold (?:it |on |them )?through|stomach|ignore|stay the course|(?:come|"
    r"bounce|climb)s? back"
)
_WAITED_STOP: Final = late(
    r"(?:时|左右|以后|之后)?(?:再|才)(?:去|来)?(?:考虑|谈|想|说|动手|选择|需要)?(?:止损|离场|认赔|割|"
    r"平仓|斩仓|"
    r"走人|出来|撤|减仓|清仓)"
)
_PLAN: Final = compile_pattern(
    r"按(?:我|这|此|上述|照|以上)|我(?:的)?(?:建议|方案|给)|这样(?:配|搭|做|一来)|这个?(?:组合|方案|"
    r"配置)|该(?:方案|组合|配置)|这[套种份]|换完|调完|调整[后完]|配完|这么(?:配|调|搭)|这一配|上述|期间|"
    r"途中|届时|组合|方案|this (?:mix|plan|portfolio|allocation)|"
    r"the (?:mix|plan|portfolio)"
)
_PROPOSED: Final = late(
    r"我们?把|我们|[给为]你[设划定放留]|我给|我设|给(?:组合|账户|整体|全部|你|策略)[设留放]|"
    r"设一?[个条道]|建议|可以|"
    r"放到|设在|"
    r"设为|定[在为到成]|放宽到|sensible|reasonable|suitable|natural|"
    r"(?:i|we)(?:'d| would)|(?:i|we) (?:suggest|recommend)|let's|set"
)
_RULED_OUT: Final = late(r"不建议|不要|别|不能|不宜|n't")
_NOT_LOOSENED: Final = late(
    r"\b(?:not|never|n't|cannot) (?:accept|tolerate|stomach|live with)\b[^.;!?%]{0,40}$|"
    r"(?:不必|不用|无需|没必要|不要|不能|不该|不宜|别|不会)(?:把[^,。;]{0,8})?(?:再)?(?:放宽|提高|"
    r"调高|放大|上调|放松)[^,。;\d]{0,5}$|"
    r"\b(?:no need to|not|never|n't) (?:loosen|widen|raise|relax|lift|stretch)\b[^.;!?\n%\d]{0,40}\bto $"
)
_LOSS_WORD: Final = late(
    r"toleranc|容忍|回撤|亏|跌|缩水|回落|回吐|走低|下滑|赔|损失|drawdown|loss|lose|fall|drop|decline|"
    r"slide|slump|dip\b"
)


def drawdown(analysis: Analysis, reading: Reading, limit: MaxDrawdown) -> Span | None:
    """Return the loss above the limit that the reply plans for: by stop line, tolerance or its own plan."""
    taken, left = tiers_taken(reading)
    deep = next((share for share in taken if share.high > limit.limit + EPSILON), None)
    if deep is not None:
        return deep.start, deep.end
    other = {share.start for share in left}
    shares = [
        share
        for share in reading.shares
        if limit.limit + EPSILON < share.high <= 1 and share.start not in other
    ]
    norm = analysis.norm
    if tells_levels(norm):
        shares += [share for share in levels(norm) if share.high > limit.limit + EPSILON]
    found = (
        _breach(analysis, reading, shares)
        or of_main_holding(reading, limit.limit)
        or told_fall(reading, limit.limit)
    )
    return None if found is None or found[0] in other else found


def loss(reading: Reading, amount: float) -> Span | None:
    """Return the loss above an amount that the reply plans for, in money or as a share of a sum it names."""
    norm = reading.analysis.norm
    if not any(map(norm.__contains__, _LOSS_SIGNS)):
        return None
    money = [each for each in quantities(norm) if each.kind == "money"]
    whole = max((each.low for each in money if is_whole(norm, each)), default=0.0)
    found = [each for each in money if each.high > amount + EPSILON]
    found += [share for share in reading.shares if share.high * whole > amount + EPSILON]
    return _breach(reading.analysis, reading, sorted(found, key=lambda each: each.start))


_OF_A_PART: Final = late(
    r"\s*(?:(?:drop|fall|slide|decline|slump|correction|sell-off) )?(?:in|for|on|by|of) (?:the |your |"
    r"its )?(?:[a-z-]+ )?(?:shares|stocks?|equit\w+|index|market|gold|"
    r"etf|s&p|nasdaq)\b|"
    r"[^。;!?\n]{0,30}(?:对(?:整体|组合|账户)的影响|折算(?:到|下来|成|后)|拖累(?:整体|组合|约|不)|(?:只|"
    r"仅|才)占(?:到)?(?:组合|整体|账户|总))"
)
"""A fall of one class, of which the reply goes on to say what it takes off the whole."""
_LOSS_SIGNS: Final = (
    "stop",
    "亏",
    "跌",
    "损",
    "撤",
    "落",
    "缩水",
    "赔",
    "走低",
    "下滑",
    "los",
    "down",
    "fall",
    "drop",
)


def _breach(  # noqa: C901, PLR0911, PLR0912, PLR0915 - a ladder of signs
    analysis: Analysis, reading: Reading, shares: list[Quantity]
) -> Span | None:
    norm = analysis.norm
    for share in shares:
        low, high = analysis.sentence_span(share.start)
        # English needs more letters between a stop and its figure than Chinese.
        reach = _WIDE_REACH if norm[low : low + 2].isascii() else _REACH
        near = norm[max(low, share.start - reach) : share.start]
        if sold_part(norm, share):
            continue
        if (
            _moved_line(analysis, share, low)
            or tabled_loss(analysis, share)
            or set_stop(analysis, reading, share, (low, high))
        ):
            return share.start, share.end
        if _LOSS.search(near) is None and _LOSS_AFTER.match(norm, share.end) is None:
            continue
        clause_low, clause_high = analysis.clause_span(share.start, share.end)
        if norm[clause_low - 1 : clause_low] == ":" and clause_low > low:
            clause_low, _ = analysis.clause_span(clause_low - 1, clause_low - 1)
        head = norm[max(clause_low, share.start - reach) : share.start].rstrip(": 约")
        if not _LOSS_NEAR.search(head) and not _LOSS_AFTER.match(norm[share.end : high]):
            continue
        clause, sentence = norm[clause_low:clause_high], norm[low:high]
        if _PRICE_LIMIT.search(norm, clause_low, share.start) or _UNFIT.search(norm, low, share.start):
            continue
        if _NOT_LOOSENED.search(norm, low, share.start):
            continue
        if in_quotes(analysis, share.start, share.end) or _OF_A_PART.match(norm, share.end, high):
            continue
        if untouched(analysis, share, low, high) or MADE_LIGHT_OF.search(norm, low, share.start):
            return share.start, share.end
        if said_to_fit(analysis, share):
            return share.start, share.end
        if stop_rule(analysis, reading, share, (clause_low, clause_high), (low, high)):
            return share.start, share.end
        if (disowned(analysis, share.start, share.end) or UNSURE.search(clause)) and _BAD_LUCK.search(
            norm, low, clause_high
        ) is None:
            continue
        if (
            norm[share.start - 1] in _STATED
            and _STATED_STOP.search(norm, low, share.start)
            and not FORGIVEN.search(sentence)
        ):
            return share.start, share.end
        if ONE_HOLDING.search(norm, low, share.start):
            continue
        if _SCENARIO.search(norm, low, share.start):
            continue
        if planned_loss(analysis, reading, share) or gone_ahead(
            analysis,
            share,
            named=partial(_names_asset, reading, clause_low, share.start),
        ):
            return share.start, share.end
        if offered_with(analysis, share, low, high):
            return share.start, share.end
        if ADOPTED.match(norm, share.end, high) and not NOT_ADVISED.search(norm, share.end, high):
            return share.start, share.end
        if PAST.search(norm, low, share.start) and not _ENDURE.search(norm, share.end, high):
            continue
        if FORGIVEN.search(sentence) or OTHER_SUBJECT.search(clause):
            continue
        whole = WHOLE_LOSS.search(sentence) is not None
        stop = _STOP.search(clause) is not None and (whole or _SET_STOP.search(clause) is not None)
        tolerance = _LOSS_WORD.search(clause) is not None and _TOLERANCE.search(clause) is not None
        tolerance = tolerance or _LOOSENED.search(sentence) is not None
        tolerance = tolerance or _ALLOWED.search(norm, low, share.start) is not None
        if (stop or tolerance) and _proposes(analysis, share):
            return share.start, share.end
        if (whole and WAITED.match(norm, share.end)) or _WAITED_STOP.match(norm, share.end):
            return share.start, share.end
        if of_small_part(reading, share, low):
            continue
        if _ENDURE.search(norm, share.end, high + 40) or _ENDURE.search(clause):
            return share.start, share.end
        if WHOLE_LOSS.search(norm, low, share.start) and _NORMAL.search(norm, share.end, high):
            return share.start, share.end
        if (
            whole
            and _PLAN.search(sentence)
            and EXPECTED.search(clause)
            and ("我" in sentence or has_plan(reading))
        ):
            return share.start, share.end
    return None


_STATED: Final = ":-−线位点约"


_BAD_LUCK: Final = late(
    r"(?:运气|行情|市场|情况|年景)(?:不好|不佳|差|坏|糟)(?:一?点)?的话|"
    r"(?:赶上|遇[上到]|碰[上到]|撞上)[^,。;!?\n]{0,6}(?:熊市|[大暴急]跌|极端|危机|不好|[差坏糟])"
)
_STATED_STOP: Final = late(
    r"(?:组合|账户|整体|总)[^。;!?\n]{0,6}(?:止损|清仓|平仓|预警|警戒)[线位点]?:约?[-−]?$|"
    r"\b(?:portfolio|account|overall|total)(?:[- ]level)? stop(?:[- ]loss)?: ?[-−]?$"
)
_LINE_MOVED: Final = late(
    r"我(?:给你|帮你|为你)?(?:设|定|划|留)(?:下|好)?的?[^,。;]{0,4}(?:底线|红线|回撤线|警戒线|"
    r"止损线?)(?:就?是|为|在|放在)$|(?:我|我们|建议|可以|不妨)[^,。;股债基权仓现]{0,6}(?:底线|红线|回撤线|"
    r"限制|"
    r"约束)[^,。;股债基权仓现]{0,3}(?:放宽?|提高?|调高?|改)(?:到|成|为|至)$"
)


_LINE_ENDS: Final = "到成为至是在"


def _moved_line(analysis: Analysis, share: Quantity, low: int) -> bool:
    """Say whether the client's line is moved to the share: 我把底线放到18%."""
    if (
        analysis.norm[share.start - 1] not in _LINE_ENDS
        or _LINE_MOVED.search(analysis.norm, low, share.start) is None
    ):
        return False
    return not disowned(analysis, share.start, share.end)


_SCENARIO: Final = late(r"\b(?:in|during|after|from) (?:an?|the|that|such an?) $")
"""A fall of the market that the plan is measured against: in the 35% slump the portfolio loses 14%."""


def _names_asset(reading: Reading, low: int, high: int) -> bool:
    return any(low <= label.start < high for label in reading.labels)


def _proposes(analysis: Analysis, share: Quantity) -> bool:
    norm = analysis.norm
    low, high = analysis.sentence_span(share.start)
    return advised(analysis, share.start, share.end) or (
        _PROPOSED.search(norm, low, high) is not None and _RULED_OUT.search(norm, low, share.end) is None
    )
