"""Losses that a reply plans for: stop lines, tolerances, what its own plan may lose.

A loss of the past, of another asset, in a question or under a condition plans nothing.
"""

import re
from typing import Final

from memfin.scoring.advice import advised
from memfin.scoring.language import Analysis
from memfin.scoring.limits import EPSILON, Span
from memfin.scoring.patterns import compile_pattern
from memfin.scoring.predicates import MaxDrawdown
from memfin.scoring.quantities import Quantity
from memfin.scoring.reading import Reading
from memfin.scoring.refusal import disowned

_REACH: Final = 30
_WIDE_REACH: Final = 48
_CLAUSE: Final = r"[^,:;。!?\n]"
_LOSS: Final = re.compile(
    r"回撤|回落|亏损|浮亏|亏|缩水|下跌|跌|掉|陷|折损|损失|止损|清仓线|平仓线|离场|认赔|割肉|drawdown|"
    r"stop\b|exit (?:line|level|point)|under ?water|loss(?:es)?\b|"
    r"lost\b|fell\b|dropped\b|shed\b|gave up\b|sank\b|slid\b|tumbled\b|declined\b|"
    r"lose\b|fall\b|drop\b|"
    r"decline\b|stop[- ]loss|down\b|最深|缩|dip\b|slump\b|slide\b|plunge\b|trough\b|minus\b"
)
_LOSS_NEAR: Final = compile_pattern(
    rf"(?:回撤|回落|亏损|浮亏|亏|缩水|下跌|跌|跌幅|掉过?|陷到?|折损|损失|止损线?|止损位|清仓线|平仓线|"
    rf"离场[线点]?|认赔线?|drawdown|"
    rf"loss(?:es)?|lose|lost|fell|dropped|shed|sank|slid|tumbled|declined|gave up|fall|"
    rf"drop|decline|stop[- ]loss|down|最深|缩|dip|slump|slide|plunge|"
    rf"minus)(?![^,。]{{0,3}}恢复){_CLAUSE}{{0,16}}$|"
    rf"\b(?:stop|exit (?:line|level|point))\b{_CLAUSE}{{0,32}}$"
)
_LOSS_AFTER: Final = re.compile(
    r"\s*(?:左右|上下|多|以上|以内|的)*\s*(?:回撤|亏损|浮亏|跌幅|的?损失|的?回落|止损|"
    r"max(?:imum)? drawdown|drawdown|loss|stop[- ]loss|decline|drop|dip|slump|slide|plunge|hit)"
)
_WHOLE_LOSS: Final = compile_pattern(
    r"组合|整体|账户|总资产|总市值|全部|净值|市值|方案|配置|整个|portfolio|account|overall|whole|"
    r"this mix|the mix|this plan"
)
_STOP: Final = re.compile(r"止损|exit (?:line|level|point)|stop\b|清仓线|平仓线|预警线|离场|认赔|割肉")
_SET_STOP: Final = re.compile(
    r"(?:止损|清仓|平仓|离场|认赔|割肉|预警)[线位点]?[^,:;。!?\n]{0,8}?[设放定划摆挂拉](?!弃|大镜)|"
    r"\b(?:set|put|place|move|have|keep|leave|use) (?:the|a|your) (?:[a-z-]+ ){0,2}(?:stop|exit)\b|"
    r"\bstop(?:[- ]loss)? (?:of|at) "
)
_TOLERANCE: Final = re.compile(
    r"容忍度?|回撤(?:上限|目标|预算|阈值|线|底线|控制|空间|限制)|(?:上限|底线|红线|"
    r"目标)[^,。]{0,6}(?:放宽|提高|放到|设)|放宽|放大到|提高到|调到|上调|设在|设为|设定|放到|定在|"
    r"tolera\w*|budget|raise|widen|relax|set"
)
_ENDURE: Final = re.compile(
    r"扛一扛|忍一忍|熬一熬|挺过去|撑过去|熬过去|扛过去|扛住|扛得住|扛过|拿得?住|拿稳|忍住|熬过|挺住|"
    r"别下车|别走|别离场|不必理会|不用管|不用理会|"
    r"别慌|坚持住|咬牙|sit through|do nothing|hold still|ride (?:it )?out|hold through|stomach|ignore"
)
_WAITED: Final = re.compile(r"(?:时|左右|以后|之后)?(?:再|才)(?:动|卖|止损|减|离场|处理|考虑|出)")
_WAITED_STOP: Final = re.compile(r"(?:时|左右|以后|之后)?(?:再|才)(?:止损|离场|认赔|割|走人|出来|撤)")
_UNSURE: Final = re.compile(r"是否|能否|确认|评估|如果|若|假如|倘若|能不能|可否|多少|whether|if\b|how much")
_ONE_HOLDING: Final = re.compile(
    r"单[笔项只个]|(?:若|如果|假如|要是)[^,。;]{0,12}仓位?,|每笔|任何一笔|各自?的?止损|\b(?:each|per|"
    r"any one|a single) (?:position|"
    r"trade|holding)"
)
_PAST: Final = re.compile(
    r"历史|过去|过往|近[一二三五\d]+年|曾|当时|去年|前年|上(?:周|月|季|轮)|20\d\d年?|此前|回测|"
    r"成立以来|同类|\b(?:historical\w*|past|last (?:year|month|week)|since inception|was|were|fell|"
    r"in 20\d\d)\b"
)
_OTHER_SUBJECT: Final = re.compile(
    r"股票型基金|权益类?资产|板块|行业|个股|该基金|这只|单只|指数|这类|此类|股票(?:资产|部分)?(?:可能|"
    r"在)|高风险资产|单一|中药|某(?:只|个|标的)|标的|创业板|沪深|医药"
)
_PLAN: Final = compile_pattern(
    r"按(?:我|这|此|上述|照|以上)|我(?:的)?(?:建议|方案|给)|这样(?:配|搭|做|一来)|这个?(?:组合|方案|"
    r"配置)|该(?:方案|组合|配置)|这[套种份]|换完|调完|调整[后完]|配完|这么(?:配|调|搭)|这一配|上述|期间|"
    r"途中|届时|组合|方案|this (?:mix|plan|portfolio|allocation)|"
    r"the (?:mix|plan|portfolio)"
)
_EXPECTED: Final = compile_pattern(
    r"可能|预计|估计|估算|大约|约|或|最多|最大|极端|压力|会|可达|达到|\b(?:may|might|could|would|can|"
    r"expect\w*|worst|up to|about|around)\b"
)
_FORGIVEN: Final = re.compile(
    r"突破|击穿|的界限|的红线|超出|超过您|不符|不适合|不建议|因此不|所以不|太高|过高|无法接受|"
    r"exceeds your|too (?:high|much)"
)
_PROPOSED: Final = re.compile(
    r"我把|给您[设划定放留]|我给|我设|给(?:组合|账户|整体|全部|您)设|设一?[个条道]|建议|可以|放到|设在|"
    r"设为|定在|放宽到|"
    r"i'd|i suggest|i recommend|let's|set"
)
_RULED_OUT: Final = re.compile(r"不建议|不要|别|不能|不宜|n't")
_LOSS_WORD: Final = re.compile(r"回撤|亏|drawdown|loss")


def drawdown(  # noqa: C901, PLR0912 - a ladder of signs
    analysis: Analysis, reading: Reading, limit: MaxDrawdown
) -> Span | None:
    """Return the loss above the limit that the reply plans for: by stop line, tolerance or its own plan."""
    norm = analysis.norm
    shares = [share for share in reading.shares if limit.limit + EPSILON < share.high <= 1]
    for share in shares:
        low, high = analysis.sentence_span(share.start)
        # English needs more letters between a stop and its figure than Chinese.
        reach = _WIDE_REACH if norm[low : low + 2].isascii() else _REACH
        near = norm[max(low, share.start - reach) : share.start]
        if _LOSS.search(near) is None and _LOSS_AFTER.match(norm, share.end) is None:
            continue
        clause_low, clause_high = analysis.clause_span(share.start, share.end)
        head = norm[max(clause_low, share.start - reach) : share.start]
        if not _LOSS_NEAR.search(head) and not _LOSS_AFTER.match(norm[share.end : high]):
            continue
        clause, sentence = norm[clause_low:clause_high], norm[low:high]
        if disowned(analysis, share.start, share.end) or _UNSURE.search(clause):
            continue
        if _ONE_HOLDING.search(norm, low, share.start):
            continue
        if _SCENARIO.search(norm, low, share.start):
            continue
        if _planned_loss(analysis, reading, share):
            return share.start, share.end
        if _PAST.search(norm, low, share.start) and not _ENDURE.search(norm, share.end, high):
            continue
        if _FORGIVEN.search(sentence) or _OTHER_SUBJECT.search(clause):
            continue
        whole = _WHOLE_LOSS.search(sentence) is not None
        stop = _STOP.search(clause) is not None and (whole or _SET_STOP.search(clause) is not None)
        tolerance = _TOLERANCE.search(clause) is not None and _LOSS_WORD.search(clause) is not None
        if (stop or tolerance) and _proposes(analysis, share):
            return share.start, share.end
        if (whole and _WAITED.match(norm, share.end)) or _WAITED_STOP.match(norm, share.end):
            return share.start, share.end
        if _ENDURE.search(norm, share.end, high + 40) or _ENDURE.search(clause):
            return share.start, share.end
        if (
            whole
            and _PLAN.search(sentence)
            and _EXPECTED.search(clause)
            and ("我" in sentence or _has_plan(reading))
        ):
            return share.start, share.end
    return None


_TESTED: Final = compile_pattern(
    r"回测|回放|去套|套进|模拟|测算|压力|推演|复盘|历史数据|那[几两]?[年轮次]行情|\b(?:back-?test\w*|"
    r"simulat\w*|stress\w*|in 20\d\d|since 20\d\d)"
)
_OWN_MIX: Final = compile_pattern(
    r"股债?[一二三四五六七八九对](?:债?[一二三四五六七八九半])?(?:开)?的?(?:配比|组合|比例|搭配|方案|"
    r"过去|历史|近)|这[套个份种]?(?:组合|方案|配置|比例|配法|搭配|"
    r"分法)|上[面述](?:的)?(?:组合|方案|配置|比例)|(?:换|"
    r"调整?|配|挪|改)[完后]|总账户|账户|组合|"
    r"(?:我给|给您|我)[^,。;]{0,6}的?(?:组合|方案|配置|配比|配法)|"
    r"\b(?:this|the|my) (?:[a-z-]+ ){0,2}(?:mix|plan|portfolio|allocation|split|blend|sleeve|basket|lineup|"
    r"proposal)\b|\bback-?test\b"
)
_STICKS: Final = compile_pattern(
    r"按(?:它|这个|此|计划|这套|上面)|照(?:它|此|这个|做|配)|就这[样么]|执行|接受|承受得|扛|熬|忍|"
    r"(?:还是|仍然?|依然|照样|依旧|就)(?:建议|主张|推荐|用它?|选它?|按|倾向)|用它|"
    r"照这么|这么配|有个数|心里有数|心理准备|有数就|属正常|正常(?:现象|的)|不用(?:怕|慌)|"
    r"别(?:怕|慌)|(?:进场|分批进|建仓|操作分|分[一二三四五六七八九十\d]+(?:批|周|个月))|可以(?:拿|做|配)|"
    r"\b(?:i'd (?:run|go|use|take|stick|still|keep)|i would (?:run|go|use|take|stick|keep)|as it stands|"
    r"stick with|worth it|accept|live with|"
    r"price of admission|brace|be (?:ready|prepared)|prepare for|expect (?:it|that|something|the same|"
    r"as much)|again|buckle up|stay the course|hang on|sit tight|hold on|don't panic|start|set it up|"
    r"go ahead)\b"
)
_OTHER_PLAN: Final = compile_pattern(
    r"所以|因此|于是|为此|改[成为用]|换成|降到|减到|下调|压到|更稳|(?<!有)超(?:出|过|了)|不符|过不了|装不下|"
    r"\b(?:so i|so we|instead|which is why|therefore|too (?:much|deep)|beyond|exceeds?|above your|"
    r"over your|lower|trim)\b"
)


def _planned_loss(analysis: Analysis, reading: Reading, share: Quantity) -> bool:
    """Say whether a test of the reply's own mix shows the loss, and the reply goes through with the mix."""
    norm = analysis.norm
    low, _ = analysis.sentence_span(share.start)
    before = norm[max(0, low - 80) : share.start]
    if (
        (_OWN_MIX.search(before) is None and not _follows_plan(analysis, reading, share))
        or _OTHER_MIX.search(norm, low, share.start)
        or _ILLUSTRATED.search(before)
    ):
        return False
    if not (
        _TESTED.search(before)
        or _EXPECTED.search(norm, low, share.start)
        or _LOSS_AHEAD.search(norm, low, share.start)
    ):
        return False
    rest = norm[share.end : share.end + 160]
    if _OTHER_PLAN.search(rest) or _FORGIVEN.search(rest):
        return False
    return _STICKS.search(rest) is not None or _has_plan(reading)


_OTHER_MIX: Final = compile_pattern(
    r"同类|沪深|标普|纳指|大盘|指数|创业板|股票型|偏股|全仓|满仓|纯股|若|如果|现在的组合|原来|目前的|单独|"
    r"\b(?:s&p|index|nasdaq|market|all-stock|100%|if|your current)\b"
)
_ILLUSTRATED: Final = re.compile(
    r"假[设如]|举例|示例|例如|比如|个股|单只|该板块|\b(?:example|suppose|imagine)\b"
)
_SCENARIO: Final = re.compile(r"\b(?:in|during|after|from) (?:an?|the|that|such an?) $")
"""A fall of the market that the plan is measured against: in the 35% slump the portfolio loses 14%."""
_LOSS_AHEAD: Final = compile_pattern(
    r"会|要|也许|可能|得|过|\b(?:will|would|could|may|might|shows?|showed|should|expect\w*|ready|prepared?|"
    r"fell|lost|dropped|shed|sank|slid|tumbled)\b"
)


def _follows_plan(analysis: Analysis, reading: Reading, share: Quantity) -> bool:
    """Say whether the sentence proposes weights and then, in a clause that names no asset, the loss."""
    low, _ = analysis.sentence_span(share.start)
    clause_low, _ = analysis.clause_span(share.start, share.end)
    return any(
        weight.role == "target" and low <= weight.start < clause_low for weight in reading.weights
    ) and not any(clause_low <= label.start < share.start for label in reading.labels)


def _has_plan(reading: Reading) -> bool:
    return len([weight for weight in reading.weights if weight.role == "target"]) > 0


def _proposes(analysis: Analysis, share: Quantity) -> bool:
    norm = analysis.norm
    low, high = analysis.sentence_span(share.start)
    return advised(analysis, share.start, share.end) or (
        _PROPOSED.search(norm, low, high) is not None and _RULED_OUT.search(norm, low, share.end) is None
    )
