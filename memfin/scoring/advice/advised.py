"""Whether a reply advises something, or merely mentions, explains, quotes, refuses or warns of it.

The question is always asked about a span of ``Analysis.norm``: a forbidden asset, a practice, a weight.
Advice shows by a marker (建议, 不妨, I'd), by a plain offer with a verb of dealing (可以小仓位买), or by an
order. Everything that turns it around is looked for first: negation, question, condition, quotation,
other people's words, a verdict against it, leaving the position.
"""

import re
from typing import Final

from memfin.scoring.advice.adoption import (
    ANAPHORA,
    ENOUGH,
    NEXT_ADOPTS,
    OTHER_ASSET,
    REPLACED,
    adopted_later,
    taken_up,
)
from memfin.scoring.advice.dealing import (
    BACKS_OUT,
    DEALS,
    OFFER,
    ORDER,
    SIZED_DEAL,
    STRONG,
    THEN_ORDER,
    WEIGHTED,
)
from memfin.scoring.advice.refusal import WRITING, rejected, written_option
from memfin.scoring.attribution.disowning import adds_to_held, disowned, taken_over
from memfin.scoring.constraints.topics import takes_up_another
from memfin.scoring.patterns.expressions import compile_pattern, late
from memfin.scoring.text.language import Analysis

_CLAUSE: Final = r"[^,:;。!?\n]"
_SENTENCE: Final = r"[^。!?\n]"

_IMPERATIVE: Final = late(
    r"(?:scalp|chase|flip|borrow|margin up|lever up|gear up|remortgage|refinance|speculate|day[- ]trade|"
    r"swing[- ]trade)\b"
)
_BUYING: Final = late(
    r"(?:load up|buy|purchase|pick up|snap up|scoop up|take out|draw|arrange|apply for|tap|borrow)\b"
)
"""Verbs with which the name of an asset or a loan begins in the vocabulary: load up on the stock."""
_NAMED: Final = late(r",(?:这|那)?(?:[种样类])?(?:做法|操作|玩法|打法)?(?:就|也)?(?:叫|称为|叫做)")
_OPPOSITE: Final = late(
    r"等(?<!别等)(?<!不等)(?<!用等)(?<!必等)(?=[^,。;]{0,8}(?:回|跌|落|稳|再|调|冷))|先看|"
    r"观望|长期|耐心|定投|改为|改成|自有资金|long[- ]term|patien"
)
_REQUEST: Final = late(r"请你|帮我|给我|替我")
"""A user's own request ends in 吧 as well as an advice does."""
_REACH: Final = 40
_BOUNDED: Final = late(r"不(?:超过|低于|少于|高于|管|论)")
_NOT_MEANT: Final = late(
    r"(?:不一定|不意味着?|并不|不是|没有必要|无需|未必|并非|不代表)[^,。;]{0,12}$|"
    r"(?:\bnot|n't|\bnever|\bhardly) (?:[a-z]+ ){0,2}$|"
    r"\b(?:no|not an?|not as an?|is(?:n't| not) an?|rather than an?|without any) (?:[a-z]+ )?$"
)
_DEFINES: Final = late(
    rf"^{_CLAUSE}{{0,6}}(?:是指|是(?:做|当|给|向|借|拿|将)(?!首选)|(?:因为|之所以)|就是(?![,。;!了]|$)|"
    rf"指的是|"
    rf"指(?<![纳恒沪期道股富标]指)(?!数)|是一种|是一类|是什么|"
    rf"意思是|意味着|表示|(?:并|都|完全)?不是一回事|(?:并|都)?不是一码事|是?两回事|是?两码事|"
    rf"有(?:所|很大|本质)?区别|的{_CLAUSE}{{0,4}}(?:起点|门槛|流程|定义)(?:是|为|在|有|:)|要求(?:交易|开户|"
    rf"资产|日均|满|具备|有)|"
    rf"的(?:都|全|多半|大多)?(?:被套|套牢|亏|站岗)|对应|代表|分为|"
    rf"(?:用(?!足|起|上|满|点|一)|靠|通过|让|使|借助|只?面向)|把份额分|由{_CLAUSE}{{0,8}}(?:组成|构成)|"
    r"本质上?是|条款|属于|的(?:念头|想法|冲动|诱惑|心思|欲望|说法|故事|经历|现象|声音|帖子|广告|代价|下场|"
    r"教训|结果|后果|机会成本|劣势|优势|好处|缺点|成本|逻辑|投资者|"
    r"个人|人|客户|账户|产品|"
    r"公司)|的(?:做法|玩法|打法|操作|路数|套路|习惯)|等(?:杠杆)?工具|者占|为例|起源|投资者|"
    r"平均|余额|行为)|^(?: (?:etfs?|funds?|trusts?|notes?|options?))? (?:is|are|means?|refers?|was|were|"
    r"lets?) (?:an?|the|made|only|costly|when|you|that|to|selling|buying|borrowing|trading)\b"
)
_CHARACTERIZES: Final = late(
    rf"^{_CLAUSE}{{0,6}}(?:能多|碰上|遇上|一旦|会放大|会同时|会拖|拖着|利率|容易|侵蚀|拖累|损耗|很难|多半|"
    rf"等于|就像|听着|"
    rf"听起来|看着|退潮|站岗|通常|"
    rf"一般|往往|的?风险|的?波动|(?:主要)?(?:基于|取决于)|需要?(?:警惕|注意|考虑)|"
    rf"(?:并)?(?:不少见|不罕见)|是常态|屡见不鲜)|"
    rf"^{_CLAUSE}{{0,12}}(?:会侵蚀|会被强|会被平|会吃掉|会拖累|会放大|会摊薄|会增加成本|只会)"
    r"|^ (?:can|could|may|might|tends? to|charges|costs|carries|often|usually|typically)\b"
)
_DESCRIBED: Final = compile_pattern(
    rf"(?:基金经理|管理人|买方|卖方|机构|量化模型|模型|这类产品|该产品|该基金|这只(?:基金|etf|"
    rf"产品)|产品|策略|"
    rf"etf|指数|市场(?<!级市场)|(?<!没)有人|大家|很多人|多数人|投资者|"
    rf"企业|对方(?=[拿用以把]|$)|(?<!证券)公司|银行(?<![向找跟从去到在]银行)|行业|"
    rf"(?<![债股票益收券金仓一大小置买拿选用有配的强星攻性动余心那下这健取础长利盘守分值])部分|专业投资者|"
    rf"客户|用户|外资|北向|"
    rf"主力|散户|游资|"
    rf"历史上|过去|曾经?|当时|"
    rf"去年|前年|上周|上月){_CLAUSE}{{0,8}}$"
)
_PART_OF_OBJECT: Final = late(
    r"(?:买入?|认购|申购|投|配|加|拿|选|换成)[^,。;!?\n不没]{0,14}(?:产品|etf|指数|基金|公司|市场|策略|"
    r"行业)的$"
)
"""What is bought is a part, or a kind, of something: 买入300ETF的认沽期权."""
_LOOKS: Final = frozenset({"关注", "了解", "筛选", "识别"})
"""To look at a thing is not to buy it, unless the sentence goes on: 推荐关注一家…,可配置5%."""
_WITH_IT: Final = late(r"(?:可以?|建议|不妨|先|你)(?:先|再|直接)?(?:用|拿)[^,。;]{0,14}$")
"""With what the user is to do it: 可以用手里的ETF当担保."""
_EQUATED: Final = compile_pattern(
    r"(?:就是|等于|等同于?|无异于|本质上?是|其实是|说白了是|算是|相当于|不过是|是指|指的是|指)(?:在|一种|"
    r"典型的?|所谓的?|变相的?)?$|(?<!我的)(?:是指|指的是|意思是)[^,。;!?\n]{0,16}$|被$|"
    r"(?:融资(?:买入)?|融券(?:卖出)?|配资|杠杆|做t|短线|打板|追高|追涨)就?是$|"
    r"\b(?:is|are|means) (?:just |simply |really |nothing but )$"
)
_HELD: Final = late(
    rf"你?(?:(?:目前|之前|原来|原先|过去|此前)[^,。]{{0,4}}(?:持有|有|配|买|拿|投|占)|现有|"
    rf"已(?:持有|有|配|买|拿|投)|手上有|手里有|持仓|(?<=你)(?:手[里上])?(?:拿|买|抱|"
    rf"持有)着?的(?:这|那)|\byou (?:already |currently |now )?(?:hold|own|are holding) )(?!就|"
    rf"可以|适合|正是|建议){_CLAUSE}{{0,10}}$"
)
_MORE_OF_IT: Final = late(
    r"\s*(?:(?:i|we)(?:'d| would) |(?:so|just|now|then) |you (?:could|should|might|can) )*(?:buy|purchase|"
    r"add|get|"
    r"pick up) (?:another|more\b(?! of the)|(?:some|a few|\d[\d,]*) more)[^.,!?\n]{0,24}"
    r"(?:shares?|units?|of (?:it|them)|to (?:it|lower|bring|cut|reduce|average))?\b"
)
"""The next sentence adds to what is held."""
_WRITE_ORDER: Final = late(
    r"[ \d.)\-*>]*(?:then |just |simply |and |also |you (?:can|may|could|might|should) |(?:i|we)(?:'d|"
    r" would) |"
    r"(?:i|we) (?:suggest|recommend) (?:that )?(?:you )?|let's |please |consider |try )*"
    r"(?:sell(?:ing)?|(?:off|un)load(?:ing)?|writ(?:e|ing))\b|"
    r"[ \d.)\-*>]*(?:你|也|还|再|先|就|可以?|不妨|建议|推荐|考虑|适合|适当|试着|每[月周])*卖出?"
)
_SIZED_ITEM: Final = late(
    r"\s*(?:[-*•·]|\d{1,2}[.)、])\s*(?:约)?\d+(?:\.\d+)?\s?(?:万元?|元|%|k|成)\s*(?:→|->|=>|:|放|买|给|"
    r"进|in\b|into\b)"
)
"""A list item that begins with the size of what it proposes: 8万 → 三年期存单."""
_PLAN_HEAD: Final = late(
    r"建议(?!书)|分配|方案|推荐|安排|这样[配分搭做]|配置如下|如下配置|计划|怎么配|组合如下|配法|分法|清单|"
    r"可以考虑|调整[后为成]|步骤|"
    r"\b(?:plan|suggest\w*|recommend\w*|proposed?|proposal|(?:i|we)(?:'d| would)|split|allocation|lineup|"
    r"here is what|here's what|picks)\b"
)
_NO_PLAN_HEAD: Final = late(
    r"不建议|不推荐|不适合|不[在含]|分析[与和及]|避免|回避|规避|区别|对比|比较|现有|目前|风险|注意|误区|说明|"
    r"介绍|了解|什么|如何|怎么(?!配)|指标|"
    r"历史|过去|为什么|原因|剔除|减掉|卖出|禁|如果|若|\b(?:not|avoid|risks?|current|today|compare|"
    r"versus|vs|why|never|what to watch|if)\b"
)
_RULE_BELOW: Final = late(r"\n *\|[ :]*--")
_TURNED_DOWN: Final = late(
    rf"{_CLAUSE}{{0,8}}(?:不(?![花占贵难需收高错多少限亏])|别(?<!分别)|[勿没未]|拉黑|免谈|为零|归零|"
    rf"\b(?:no|not|none|nothing|zero|never)\b)"
)


def advised(  # noqa: C901, PLR0911, PLR0912 - a ladder of signs, one return each
    analysis: Analysis,
    start: int,
    end: int,
    *,
    act: bool = False,
    limit: bool = False,
    asset: bool = False,
    funding: bool = False,
) -> bool:
    """Say whether the reply advises what stands at ``[start, end)`` of ``Analysis.norm``.

    With ``act`` the span itself is a way of dealing (快进快出, 融资买入): a plain offer of it needs no
    further verb. With ``limit`` the span is a bound (不超过三天), so a negation before it is part of it.
    With ``asset`` the span names or describes something to own: to keep it long is no alternative to it,
    and a sentence that describes it may go on to offer it. With ``funding`` it names money to invest.
    """
    if disowned(analysis, start, end) or rejected(analysis, start, end, limit=limit):
        return False
    if taken_over(analysis, start, end):
        return True
    norm = analysis.norm
    if analysis.line_kind(start) == "row" and _RULE_BELOW.match(norm, norm.find("\n", end)):
        return False  # the head of a table names its columns
    low, high = analysis.sentence_span(start)
    clause_low, clause_high = analysis.clause_span(start, end)
    before, after = norm[clause_low:start], norm[end:clause_high]
    if not act and _HELD.search(before) and (asset or not ("把" in before or "将" in before)):
        return asset and (_MORE_OF_IT.match(norm, high) is not None or adds_to_held(norm, low, start, high))
    if _marked(norm, (low, high), (clause_low, clause_high), (start, end), act=act, asset=asset):
        return True
    if _adopted_next(analysis, low, high):
        return True
    if asset and (_next_step(norm, clause_high, high) or _SPLIT_OBJECT.search(norm, low, clause_low)):
        return True
    if SIZED_DEAL.search(norm, clause_low, end) and not (BACKS_OUT.search(before) or _described(before)):
        return True
    if _NAMED.match(norm, clause_high, high):
        return False
    if _DEFINES.match(after) or _EQUATED.search(before):
        return asset and (taken_up(norm, clause_high, high) or adopted_later(analysis, high))
    if _described(before) and not (not asset and _WITH_IT.search(before)):
        if act and ENOUGH.search(norm, clause_low, clause_high):
            return True
        return (asset or funding) and (
            taken_up(norm, clause_high, high, funding=funding) or adopted_later(analysis, high)
        )
    if _CHARACTERIZES.match(after):
        return taken_up(norm, clause_high, high)
    clause = norm[clause_low:clause_high]
    if written_option(norm, start, end):
        if _WRITE_ORDER.match(before):
            return True
        before = WRITING.sub("", before)
    then = THEN_ORDER.match(norm, clause_low, clause_high)
    if then is not None and then.end() <= start:
        return True
    if (
        not asset
        and _IMPERATIVE.match(norm, start)
        and _TURNED_DOWN.match(after) is None
        and not before.strip(" -*>0123456789.")
    ):
        return True
    backs_out = BACKS_OUT.search(before)
    if backs_out is not None:
        return asset and backs_out.group(1) in _LOOKS and taken_up(norm, clause_high, high)
    if _in_plan(analysis, start) and _TURNED_DOWN.match(after) is None:
        return True
    if SIZED_DEAL.search(clause) is not None:
        return True
    if OFFER.search(clause) is not None or ENOUGH.search(clause) is not None:
        return True
    order = ORDER.match(clause)
    if (
        order is not None
        and _TURNED_DOWN.match(after) is None
        and (act or clause_low + order.end() <= (start if asset else end) or _BUYING.match(norm, start))
    ):
        return True
    if act and (OFFER.search(norm, low, high) or ENOUGH.search(norm, low, high)):
        return True
    return (
        act
        or taken_up(norm, clause_high, high, funding=funding)
        or ((asset or funding) and adopted_later(analysis, high))
    )


_SPLIT_OBJECT: Final = late(
    r"(?:^|(?<=[.!?;:\n])|(?<=[.!?;:] )|\b(?:then|just|and|would|could|should|might|can) )(?:buy|purchase|"
    r"pick|choose|add|take|get|consider|hold) (?:the|an?|some|those|these|a few) [a-z-]+, ?$"
)
"""An order whose object goes on behind the comma: buy the cheap, low-premium ones."""
_THEN_BUYS: Final = late(
    r",(?: and)? then (?:buy|purchase|get in|pick up|add)(?: (?:it|them|some|in|the one|a few|one|"
    r"shares)\b| at\b)"
    r"[^,.;!?\n]*"
)


def _next_step(norm: str, start: int, end: int) -> bool:
    """Say whether the next step of the sentence buys what was told of: ..., then buy the one at the top."""
    found = _THEN_BUYS.match(norm, start, end) or _THEN_BUYS.search(norm, start, end)
    return found is not None and OTHER_ASSET.search(found[0]) is None


def _described(before: str) -> bool:
    """Say whether the words before a span tell of somebody who does it."""
    return _DESCRIBED.search(before) is not None and _PART_OF_OBJECT.search(before) is None


def _adopted_next(analysis: Analysis, low: int, high: int) -> bool:
    """Say whether the next sentence takes up what ``[low, high)`` tells of, and names nothing else."""
    norm = analysis.norm
    if NEXT_ADOPTS.match(norm[high : high + 60]) is None:
        return False
    return not takes_up_another(norm[slice(*analysis.sentence_span(high))], norm[low:high])


_TURNS: Final = late(r"不过|但(?!愿)|然而|,(?=这次)")
"""From here on the sentence speaks against what it has granted."""


_DEAR: Final = ("贵有贵", "贵得", "贵也", "贵一点也", "虽贵", "虽然贵", "确实贵")


def said_of_it(analysis: Analysis, term: str, start: int) -> bool:
    """Say whether a word of the term tells of what was named before it: 追一点机器人股,贵有贵的道理."""
    return term == "opaque_performance" or (
        term == "high_valuation_growth" and analysis.norm.startswith(_DEAR, start)
    )


def owned_by_advice(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the span tells of what an earlier clause advises: 建议买入某龙头,市盈率约130倍."""
    norm = analysis.norm
    low, _ = analysis.sentence_span(start)
    clause, _ = analysis.clause_span(start, end)
    if THEN_ORDER.match(norm, low, clause) is not None:
        return not disowned(analysis, start, end) and not rejected(analysis, start, end)
    low = max((match.end() for match in _TURNS.finditer(norm, low, clause)), default=low)
    return (
        clause - low > 1
        and (
            STRONG.search(norm, low, clause)
            or OFFER.search(norm, low, clause)
            or ORDER.match(norm[low:clause].lstrip())
        )
        is not None
        and (DEALS.search(norm, low, clause) or norm.find("推荐", low, clause) >= 0)
        and BACKS_OUT.search(norm, low, clause) is None
        and not disowned(analysis, start, end)
        and not rejected(analysis, start, end)
    )


def _in_plan(analysis: Analysis, start: int) -> bool:
    """Say whether the span stands in a list or table that is introduced as the reply's plan."""
    if _SIZED_ITEM.match(analysis.norm, *analysis.sentence_span(start)):
        return True
    head = analysis.lead_in(start)
    if not head:
        return False
    if analysis.line_kind(start) == "row":
        head += analysis.line_before(start)
    *_, last = re.split(r"(?<=[。!?;])|(?<=[.!?] )", head.rstrip())
    if last.endswith(":") and _PLAN_HEAD.search(last):
        head = last
    return _PLAN_HEAD.search(head) is not None and _NO_PLAN_HEAD.search(head) is None


def _marked(  # noqa: C901 - one way of marking each
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
        asked = norm[first:last] == "吧" and _REQUEST.search(norm, *sentence) is not None
        if asked or _NOT_MEANT.search(norm, sentence[0], first):
            continue
        if last <= start:
            between = norm[last:start]
            if written_option(norm, start, end):
                between = WRITING.sub("", between)
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
            if same_clause or ANAPHORA.search(reach):
                return True
            own = norm[max(end, norm.rfind(",", end, first)) : first] + reach
            if not OTHER_ASSET.search(REPLACED.sub("", own)):
                return True
        else:
            return True
    return False
