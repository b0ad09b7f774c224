"""Whether a reply advises something, or merely mentions, explains, quotes, refuses or warns of it.

The question is always asked about a span of ``Analysis.norm``: a forbidden asset, a practice, a weight.
Advice shows by a marker (建议, 不妨, I'd), by a plain offer with a verb of dealing (可以小仓位买), or by an
order. Everything that turns it around is looked for first: negation, question, condition, quotation,
other people's words, a verdict against it, leaving the position.
"""

import re
from typing import Final

from memfin.scoring.bilingual import Bilingual
from memfin.scoring.dealing import BACKS_OUT, DEALS, OFFER, ORDER, SIZED_DEAL, STRONG, THEN_ORDER, WEIGHTED
from memfin.scoring.language import Analysis, attributed, conditional, negated, quoted
from memfin.scoring.patterns import compile_pattern

_CLAUSE: Final = r"[^,:;。!?\n]"
_SENTENCE: Final = r"[^。!?\n]"

_SIZED: Final = re.compile(r"仓位|占比|比例|给到|进去|可以占|占")
_ENOUGH: Final = re.compile(r"(?:就行|即可|就好|就够|就可以了)")
_SLEEVE: Final = re.compile(r"(?:债券|债|权益|股票|基金)(?:部分|仓位|资产|仓)的?")
_OPPOSITE: Final = re.compile(r"长期|耐心|定投|改为|改成|自有资金|long[- ]term|patien")
_REACH: Final = 40
_ZERO: Final = frozenset("0零")
_BOUNDED: Final = re.compile(r"不(?:超过|低于|少于|高于|多于|管|论)")
_VERDICT: Final = Bilingual(
    r"不符|不相符|不适合|不合适|不匹配|不建议|不推荐|不纳入|不考虑|切勿|请勿|禁止|禁令|规避|杜绝|划掉|划去|筛掉|淘汰|🚫|"
    r"❌|不在您|不在你|不介绍|不会(?:推荐|介绍|建议|配|加(?!息)|用|买)|别碰|不碰|不宜|远离|"
    r"超出您|超出了?您?的?范围|违反|违背|冲突|相悖|排除|剔除|拒绝|违规|违法|非法|骗局|得不偿失|不可取|"
    r"没有必要|没必要|(?:不|没|未)会?(?:进[入您你]?|放进|放入|放在|列入|加入|"
    r"写进)的?(?=[^,。]{0,3}(?:组合|方案|清单|名单|计划|范围|账户|仓位|[,。]))|别(?:答应|理|信|听|上当|"
    r"接茬)|与[^,。]{1,14}(?:不合|不搭|相反|背道而驰)|"
    r"不是(?:让|叫|要)您|已按您|因此(?:没有|未|不)|所以(?:没有|未|不)|不予|不作|不做推荐",
    r"\b(?:not (?:suitable|suit|fit|recommend\w*|advis\w*|appropriate|for you)|doesn't (?:fit|suit|"
    r"match)|does not (?:fit|suit|match)|doesn't belong|does not belong|left (?:it|them) out|"
    r"leave (?:it|them) out|unsuitable|"
    r"against your (?:rules?|constraints?|limits?|wish\w*|profile|policy)|violat\w*|breach\w*|"
    r"conflicts? with|stay away|outside your|wouldn't|would not|"
    r"can't recommend|cannot recommend|"
    r"rules? (?:it|this|them|that) out|ruled out|off the table|off limits)\b",
)
_CONTRAST: Final = Bilingual(r"不过|但|然而|可是|只是", r"\b(?:but|however|still|yet|though)\b")
_OWN_VOICE: Final = compile_pattern(
    r"不过|但(?!愿)|然而|我(?:的)?(?:建议|倾向|推荐|觉得|认为|看|会|来)|(?<=[,。])建议|建议(?:您|你)|"
    r"\b(?:but|"
    r"however|still|i'd|i would|i suggest|i recommend)\b"
)
_QUESTION_END: Final = re.compile(r"(?:\?|吗|呢)[ \"”’')」]*$")
_PROPOSES_IN_QUESTION: Final = compile_pattern(r"建议|推荐|不妨|不如|\b(?:recommend|suggest|i'd)\b")
_WH: Final = compile_pattern(r"怎么|如何|什么|哪|多少|\b(?:how|what|which|why)\b")
_NOT_MEANT: Final = re.compile(r"(?:不意味着?|并不|不是|没有必要|无需|未必|并非|不代表)[^,。;]{0,12}$")
_ASKS: Final = compile_pattern(
    r"是否|能否|可否|要不要|能不能|会不会|是不是|有没有|(?<![的来])还是(?![要得会应建首])"
)
_DEFINES: Final = re.compile(
    rf"^{_CLAUSE}{{0,6}}(?:是指|就是|指的是|指(?!数)|是一种|是一类|是什么|意思是|意味着|表示|分为|"
    rf"(?:用(?!足|起|上|满|点|一)|靠|通过|让|使|借助|只?面向)|把份额分|由{_CLAUSE}{{0,8}}(?:组成|构成)|"
    r"本质上?是|条款|属于|的(?:代价|下场|教训|结果|后果|机会成本|劣势|优势|好处|缺点|成本|逻辑|投资者|"
    r"个人|人|客户|账户|产品|"
    r"公司)|等(?:杠杆)?工具|者占|为例|起源|投资者|"
    r"平均|余额|行为)|^ (?:is|are|means?|refers?|was|were|lets?) (?:an?|the|made|only|costly|when|you)\b"
)
_CHARACTERIZES: Final = re.compile(
    rf"^{_CLAUSE}{{0,6}}(?:会放大|会同时|会拖|拖着|利率|容易|侵蚀|拖累|损耗|很难|多半|等于|就像|听着|听起来|看着|退潮|站岗|通常|"
    rf"一般|往往|的?风险|的?波动)"
    r"|^ (?:can|may|might|tends? to|charges|costs|carries|often|usually|typically)\b"
)
_DESCRIBED: Final = compile_pattern(
    rf"(?:基金经理|管理人|机构|量化模型|模型|这类产品|该产品|该基金|这只(?:基金|etf|产品)|产品|策略|"
    rf"etf|指数|市场|有人|很多人|多数人|投资者|"
    rf"企业|公司|银行|行业|(?<![债股票益收券金仓])部分|专业投资者|客户|用户|外资|北向|主力|散户|游资|"
    rf"历史上|过去|曾经?|当时|"
    rf"去年|前年|上周|上月){_CLAUSE}{{0,8}}$"
)
_EQUATED: Final = compile_pattern(
    r"(?:就是|等于|等同于?|无异于|本质上?是|其实是|说白了是|算是|相当于|不过是|是指|指的是|指)(?:在|一种)?$|"
    r"\b(?:is|are|means) (?:just |simply |really |nothing but )$"
)
_HELD: Final = re.compile(
    rf"(?:您|你)?(?:(?:目前|当前|之前|原来|原先|过去|此前)[^,。]{{0,4}}(?:持有|有|配|买|拿|投|占)|现有|"
    rf"已经?(?:持有|有|配|买|拿|投)|手上有|手里有|持仓)(?!就|可以|适合|正是|建议){_CLAUSE}{{0,10}}$"
)
_LEAVING_BEFORE: Final = compile_pattern(
    rf"(?:防止|规避|杜绝|禁止|不进行|分散|减持|卖出|卖掉|清仓|清掉|赎回|退出|降低|减少|压降|了结|换掉|"
    rf"移出|剔除|删去|去掉|替代|代替|取代|而不是|而非|不是|除了|除|扣除|"
    rf"\b(?:ignore|resist|forget|beware of|tempted by|sell|reduce|exit|trim|cut|replace|instead of|"
    rf"rather than|out of)\b){_CLAUSE}{{0,8}}$"
)
_LEAVING: Final = re.compile(
    rf"^{_CLAUSE}{{0,12}}(?:换成|换为|换到|转为|转到|转入|替换|换掉|换下|丢掉|卖掉|卖出|清掉|清仓|清零|"
    rf"减到|减掉|减仓|"
    rf"降到|降至|赎回|赎出|调出|撤出|退出|还清|还掉|归零|降为零)"
    r"|^[^,.;]{0,12}\b(?:into|for)\b"
)
_TAKEN_UP: Final = re.compile(r"(?:换成|换为|换到|转为|转到|转入|into|to)[^,。]{0,10}$")
_MOVED: Final = re.compile(r"(?:把|将)[^,。:;]{0,12}$|\b(?:move|switch|shift|rotate)\b[^,.;]{0,20}$")
_ANAPHORA: Final = compile_pattern(
    r"它|这类|这样|这么|这种|该类|此类|这只|这几只|这些|其中|其|前者|后者|\b(?:there|it|them|this|that|"
    r"these|those)\b"
)
_NEXT_ADOPTS: Final = re.compile(
    r"^\s*(?:我|因此|所以)?(?:建议|推荐|不妨|可以|您可以)(?:您|你)?[^。!?\n]{0,16}(?:这[样么](?!做?:)|这类|"
    r"它|按此|照此|跟进|参与)|^[^。!?\n,]{0,8}(?:买|配|拿|放|认购)[^。!?\n,]{0,12}(?:它|这只|这类|"
    r"这个)|^\s*(?:i (?:suggest|recommend)|i(?:'d| would) (?:give|put|hold|size|allot|add|take|place)|"
    r"you could|put|buy|allocate|add|tap|grab|take|use|pick|just|let's)[^.!?]{0,40}\b(?:this|that|it|them)\b"
)
_NEXT_REJECTS: Final = re.compile(
    rf"^\s*(?:但|不过|然而|所以|因此)?(?:这|它|该|此|前者|这些|这类|以上|我|您|this|it|that|"
    rf"but)[^。!?\n]{{0,30}}?(?:{_VERDICT.pattern})"
)
_TITLE: Final = re.compile(
    r"[^,。!?;:]{2,24}(?:基金|混合|股票|债券|债|产品|理财|etf|lof|fof|计划|持有|定开|"
    r"[一二三四五六12345]号|增利|稳进|精选|成长|指数|联接|"
    r"fund|trust|note|portfolio)[a-e]?"
)
_OPTION: Final = re.compile(
    r"认[沽购]|期权|虚值|实值|平值|权利金|备兑|合约|covered|cash-secured|(?:weekly |index )?(?:puts?|"
    r"calls?)\b|options?\b|"
    r"call |put |straddle|strangle|credit|iron|premium"
)
_WRITE_ORDER: Final = re.compile(
    r"[ \d.)\-*>]*(?:then |just |simply |and |also |you (?:can|could|might) |i'd |consider |try )*"
    r"(?:sell(?:ing)?|writ(?:e|ing))\b|"
    r"[ \d.)\-*>]*(?:您|你|也|还|再|先|就|可以?|不妨|建议|推荐|考虑|适合|适当|试着|每[月周])*卖出?"
)
_WRITING: Final = re.compile(r"卖出?|\b(?:sell|write)\b")
_PLAN_HEAD: Final = re.compile(
    r"建议(?!书)|方案|推荐|安排|这样[配分搭做]|配置如下|如下配置|计划|怎么配|组合如下|配法|分法|清单|"
    r"可以考虑|调整[后为成]|步骤|"
    r"\b(?:plan|suggest\w*|recommend\w*|proposed?|proposal|i'd|i would|split|allocation|lineup|"
    r"here is what|here's what|picks)\b"
)
_NO_PLAN_HEAD: Final = re.compile(
    r"不建议|不推荐|不适合|不[在含]|避免|回避|规避|区别|对比|比较|现有|目前|当前|风险|注意|误区|说明|"
    r"介绍|了解|什么|如何|怎么(?!配)|指标|"
    r"历史|过去|为什么|原因|剔除|减掉|卖出|禁|如果|若|\b(?:not|avoid|risks?|current|today|compare|"
    r"versus|vs|why|never|what to watch|if)\b"
)
_TURNED_DOWN: Final = re.compile(
    rf"{_CLAUSE}{{0,8}}(?:[不别勿没未]|拉黑|免谈|为零|归零|\b(?:no|not|none|zero|never)\b)"
)
_LURED: Final = re.compile(
    r"(?:别|不要|切勿|勿)[^,。;!?\n]{0,6}(?:被|因|为了|看到|听信|一看|一听)[^,。;!?\n]{0,14},$"
)
_ADOPTING_REACH: Final = 220
_ADOPTS: Final = re.compile(
    r"(?:建议|推荐|不妨|可以|就|先|直接|今天|放心|赶紧|都|请|现在|我会|您)(?:{_CLAUSE}){0,10}?(?:买|配|"
    r"拿|放|认购|申购|加|选|投|上|留|埋伏|"
    r"参与|跟|安排|纳入)(?:{_CLAUSE}){0,8}?(?:它|这只|这款|这家|这类|这个|这种|此类|进来|进组合|进去)(?!的)|"
    r"[把将给](?:它|这只|这款|这类)(?:{_CLAUSE}){0,8}?(?:买|配|放|加|纳入|安排|留)|(?:买|选|投|配|"
    r"认购)它(?!的)|"
    r"今天就动手|时机(?:很|正|也)?合适|您(?:可以)?(?:先)?[用拿出]自己|(?:可以|就|今天|"
    r"现在)(?:{_CLAUSE}){0,6}(?:认购|下单|申购|上车|入手)|"
    r"\b(?:buy|pick|add|choose|go (?:straight )?for|put|load up on|grab|take|get)\b[^.!?]{0,30}\b(?:it|"
    r"this one|this fund|"
    r"this product|them|the stock)\b(?! (?:back|out|slow))|\bthe (?:one|only) (?:fund |stock |"
    r"product )?i(?:'d| would) (?:pick|buy|choose)".replace("{_CLAUSE}", _CLAUSE)
)
_EXAMPLE: Final = compile_pattern(
    r"(?:例如|比如|譬如|假设|假如|举例|示例|演示|算例|e\.g\.|for example|suppose|imagine)[^。!?\n]{0,24}$"
)
_OTHER_ASSET: Final = compile_pattern(
    r"基金|etf|国债|债券|债基|短债|股票|宽基|指数|存款|纯债|货基|短融|货币|黄金|红利|现金|利率债|fund|bond|"
    r"treasur|index|cash|gold"
)


def disowned(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the span is somebody else's, a question, a condition or an example: no word of advice."""
    norm = analysis.norm
    low, high = analysis.sentence_span(start)
    if _in_quotes(analysis, start, end) and not _is_title(analysis, start, end):
        return True
    if conditional(analysis, start, end) or _EXAMPLE.search(norm, low, start):
        return True
    clause_low, clause_high = analysis.clause_span(start, end)
    if _ASKS.search(norm, clause_low, clause_high):
        return True
    if _QUESTION_END.search(norm, low, high) and (
        _WH.search(norm, low, high) or not _PROPOSES_IN_QUESTION.search(norm, low, high)
    ):
        return True
    return attributed(analysis, start, end) and not _OWN_VOICE.search(norm, low, end)


def _in_quotes(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the span is quoted; straight marks need the whole reply, curved ones only its line."""
    if not analysis.quoting:
        return False
    norm = analysis.norm
    low = norm.rfind("\n", 0, start) + 1
    high = norm.find("\n", end)
    high = len(norm) if high < 0 else high
    for opening, closing in ("“”", "「」", "『』", "‘’"):
        opened = norm.rfind(opening, low, start)
        if opened >= 0 and norm.find(closing, opened, start) < 0 and norm.find(closing, end, high) >= 0:
            return True
    straight = norm.find('"', low, high) >= 0 or norm.find("'", low, high) >= 0
    return straight and quoted(analysis, start, end)


def _is_title(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the quotation is the name of a product: “睿选六个月持有混合”."""
    norm = analysis.norm
    low = max(norm.rfind(mark, 0, start) for mark in "“「『\"'")
    closing = [norm.find(mark, end) for mark in "”」』\"'" if norm.find(mark, end) >= 0]
    return bool(closing) and _TITLE.fullmatch(norm, low + 1, min(closing)) is not None


def rejected(analysis: Analysis, start: int, end: int, *, limit: bool = False) -> bool:  # noqa: PLR0911 - one a sign
    """Say whether the reply speaks against the span: negates it, calls it unfit, or leaves it behind."""
    norm = analysis.norm
    low, high = analysis.sentence_span(start)
    if not limit and negated(analysis, start, end):
        return True
    if _VERDICT.search(norm, end, high):
        return True
    before = None
    for match in _VERDICT.finditer(norm, low, start):
        before = match
    if before is not None and not _CONTRAST.search(norm, before.end(1), start):
        return True
    if _NEXT_REJECTS.match(norm[high : high + 60]):
        return True
    if "," in norm[low:start] and _LURED.search(norm, low, analysis.clause_span(start, end)[0]):
        return True
    if norm[start - 1 : start] in _ZERO:
        return True
    head, tail = norm[max(low, start - 24) : start], norm[end : min(high, end + 24)]
    if _written_option(norm, start, end):
        head = _WRITING.sub("", head)
    if _LEAVING_BEFORE.search(head):
        return True
    return (
        _MOVED.search(head) is not None
        and _TAKEN_UP.search(head) is None
        and _LEAVING.match(tail) is not None
    )


def advised(  # noqa: C901, PLR0911, PLR0912 - a ladder of signs, one return each
    analysis: Analysis, start: int, end: int, *, act: bool = False, limit: bool = False, asset: bool = False
) -> bool:
    """Say whether the reply advises what stands at ``[start, end)`` of ``Analysis.norm``.

    With ``act`` the span itself is a way of dealing (快进快出, 融资买入): a plain offer of it needs no
    further verb. With ``limit`` the span is a bound (不超过三天), so a negation before it is part of it.
    With ``asset`` the span names or describes something to own: to keep it long is no alternative to it,
    and a sentence that describes it may go on to offer it.
    """
    if disowned(analysis, start, end) or rejected(analysis, start, end, limit=limit):
        return False
    norm = analysis.norm
    low, high = analysis.sentence_span(start)
    clause_low, clause_high = analysis.clause_span(start, end)
    before, after = norm[clause_low:start], norm[end:clause_high]
    if not act and _HELD.search(before):
        return False
    if _marked(norm, (low, high), (clause_low, clause_high), (start, end), act=act, asset=asset):
        return True
    if _NEXT_ADOPTS.match(norm[high : high + 60]):
        return True
    if SIZED_DEAL.search(norm, clause_low, end) and not (
        BACKS_OUT.search(before) or _DESCRIBED.search(before)
    ):
        return True
    if _DEFINES.match(after) or _EQUATED.search(before):
        return asset and _adopted_later(analysis, high)
    if _DESCRIBED.search(before):
        return asset and (_taken_up(norm, clause_high, high) or _adopted_later(analysis, high))
    if _CHARACTERIZES.match(after):
        return _taken_up(norm, clause_high, high)
    clause = norm[clause_low:clause_high]
    if _written_option(norm, start, end):
        if _WRITE_ORDER.match(before):
            return True
        before = _WRITING.sub("", before)
    then = THEN_ORDER.match(norm, clause_low, clause_high)
    if then is not None and then.end() <= start:
        return True
    if BACKS_OUT.search(before) is not None:
        return False
    if _in_plan(analysis, start) and _TURNED_DOWN.match(after) is None:
        return True
    if SIZED_DEAL.search(clause) is not None:
        return True
    if OFFER.search(clause) is not None or _ENOUGH.search(clause) is not None:
        return True
    order = ORDER.match(clause)
    if (
        order is not None
        and _TURNED_DOWN.match(after) is None
        and (act or clause_low + order.end() <= (start if asset else end))
    ):
        return True
    if act and (OFFER.search(norm, low, high) or _ENOUGH.search(norm, low, high)):
        return True
    return act or _taken_up(norm, clause_high, high) or (asset and _adopted_later(analysis, high))


def _written_option(norm: str, start: int, end: int) -> bool:
    """Say whether the span names an option: to sell one opens a position, it leaves none."""
    return _OPTION.match(norm, start, end + 1) is not None


def _in_plan(analysis: Analysis, start: int) -> bool:
    """Say whether the span stands in a list or table that is introduced as the reply's plan."""
    head = analysis.lead_in(start)
    if not head:
        return False
    if analysis.line_kind(start) == "row":
        head += _introduction(analysis, start)
    return _PLAN_HEAD.search(head) is not None and _NO_PLAN_HEAD.search(head) is None


def _introduction(analysis: Analysis, position: int) -> str:
    """Return the line above the table around the position."""
    norm = analysis.norm
    end = norm.rfind("\n", 0, position)
    while end > 0:
        start = norm.rfind("\n", 0, end) + 1
        if start < end and analysis.line_kind(start) != "row":
            return norm[start:end]
        end = start - 1
    return ""


def _adopted_later(analysis: Analysis, position: int) -> bool:
    """Say whether a later sentence takes up what was described: 把它加进组合, it is the one I would pick."""
    norm = analysis.norm
    for match in _ADOPTS.finditer(norm, position, position + _ADOPTING_REACH):
        low, high = analysis.sentence_span(match.start())
        if (
            negated(analysis, *match.span())
            or conditional(analysis, *match.span())
            or _QUESTION_END.search(norm, low, high)
            or _VERDICT.search(norm, position, high)
            or BACKS_OUT.search(match.group())
            or attributed(analysis, *match.span())
        ):
            continue
        return True
    return False


def _taken_up(norm: str, start: int, end: int) -> bool:
    """Say whether a later clause of the sentence deals with the topic: 分级B弹性大，…，配5%就好."""
    for clause in re.split(r"[,:]", norm[start:end]):
        if BACKS_OUT.search(clause) or _OTHER_ASSET.search(_SLEEVE.sub("", clause)):
            continue
        if SIZED_DEAL.search(clause):
            return True
        if _ENOUGH.search(clause) and (DEALS.search(clause) or WEIGHTED.search(clause)):
            return True
        if OFFER.search(clause) or (
            WEIGHTED.search(clause) and (ORDER.match(clause) or _SIZED.search(clause))
        ):
            return True
    return False


def _marked(
    norm: str,
    sentence: tuple[int, int],
    clause: tuple[int, int],
    span: tuple[int, int],
    *,
    act: bool,
    asset: bool,
) -> bool:
    """Look for a marker of advice that reaches the span, within its sentence."""
    start, end = span
    for match in STRONG.finditer(norm, sentence[0], sentence[1]):
        first, last = match.span(1)
        if _NOT_MEANT.search(norm, sentence[0], first):
            continue
        if last <= start:
            between = norm[last:start]
            if BACKS_OUT.search(_BOUNDED.sub("", between)):
                continue
            if act or first >= clause[0]:
                return True
            # The marker stands in an earlier clause: the span must go on with the advice.
            if DEALS.search(norm, clause[0], clause[1]) or WEIGHTED.search(norm, clause[0], clause[1]):
                return True
        elif first >= end:
            rest = norm[last : sentence[1]]
            reach = rest[:_REACH]
            advice = reach.split(",")[0]
            if BACKS_OUT.search(advice) or (not asset and _OPPOSITE.search(advice)):
                continue
            same_clause = first < clause[1]
            if same_clause or _ANAPHORA.search(reach) or not _OTHER_ASSET.search(reach):
                return True
        else:
            return True
    return False
