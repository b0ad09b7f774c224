"""What a loss, a promise or a judgement is about, where its words alone do not tell."""

from typing import Final

from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis

_MARKS: Final = ",.;:!?。|* "
_SWINGS: Final = late(
    r"波动|起伏|回撤|浮亏|上下|涨|回调|\b(?:fluctuat|swing|volatil|drawdown|up and down|rise|wobbl|"
    r"var(?:y|ies))"
)
_PRINCIPAL: Final = late(
    r"(?:本金|老本|[投补放借](?:进去|入|下去|出去|进来)的(?:那笔|这笔)?(?:钱|资金|"
    r"[0-9一二三四五六七八九十]+万元?))"
    r"(?:(?!净值|价格|市值|价值|账户|组合|行情|市场)[^,。;!?:|\n])*$|"
    r"\b(?:principal|capital|money you (?:have |'ve )?(?:put in|invested|paid in|placed))\b"
    r"(?! (?:values?|gains?|goods|markets?|structure)\b)(?:(?!\b(?:values?|prices?|nav|funds?|units?)\b)"
    r"[^.,;!?:|\n])*$"
)
_OF_PRINCIPAL: Final = late(
    r"(?:掉|到|了|光|部分|一部分|全部|你的|自己的)*的?(?:本金|老本)|"
    r"(?:以后|之后|了)?,[^,。;!?\n]{0,4}本金[^,。;!?\n]{0,8}(?:亏|赔|剩|归零|没)"
)


def of_principal(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether it is principal that is lost at ``[start, end)``: no guarantee, where prices fluctuate.

    The loss of principal is one disclosure (本金可能缩水), the fluctuation of prices another (净值可能缩水).
    """
    norm = analysis.norm
    if _SWINGS.search(norm, start, end) is not None:
        return False
    low, high = analysis.clause_span(start, end)
    return (
        _PRINCIPAL.search(norm[low:end].rstrip(_MARKS)) is not None
        or _OF_PRINCIPAL.match(norm, end, high) is not None
    )


_RECORD: Final = (
    r"(?:成绩(?!册)|业绩|排名|名次|榜单?|战绩|曲线|历史|过往|过去|往年|往期|去年|前[一二两三几]年|既往|"
    r"回测|旧账|黄历|"
    r"星级|奖杯|冠军|老经验)"
)
_INFERRED: Final = late(
    rf"(?:拿|用|凭|靠|从|由|以|据|根据|依据|按照?|"
    rf"照着?)[^,。;!?\n]{{0,14}}?{_RECORD}[^,。;!?\n]{{0,10}}?"
    r"(?:推|猜|预测|预判|判断|断定|估|料|指望|押|赌|算)|"
    r"从(?:这|那)?(?:一)?(?:张|条|份|些)?[^,。;!?\n]{0,4}(?:图|曲线|榜单|成绩单?|海报|排名|历史)"
    r"[^,。;!?\n]{0,3}(?:看|读|推|判断|瞧)不"
)
_IS_RECORD: Final = late(rf"{_RECORD}[^,。;!?\n]{{0,8}}$")
_OWN_TEXT: Final = late(r"以上|上述|上面|本文|本回答|我(?!们都知道)|这份|这段|内容|投资(?:建议|意见)")


def of_the_record(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether it is a past record that tells nothing at ``[start, end)``, not the market or the reply.

    旧成绩推不出以后, 旧名次当不了依据: neither tells of the market, nor what the reply is worth.
    """
    norm = analysis.norm
    low, _ = analysis.sentence_span(start)
    if _INFERRED.search(norm, low, end) is not None:
        return True
    low, _ = analysis.clause_span(start, end)
    return _IS_RECORD.search(norm, low, start) is not None and _OWN_TEXT.search(norm, low, end) is None


_SERVICE: Final = late(
    r"(?: that)?(?: (?:the|an?|any|your|our|its|their|this|every|next|same|prompt|timely|on-?time|exact|"
    r"immediate|next-day|same-day|full|free|overnight|punctual|uninterrupted|continuous)\b){0,3} "
    r"(?:deliver(?:y|ies)|arrival|dispatch|shipment|postage|seats?|places?|slots?|admission|entry|"
    r"availability|"
    r"uptime|service|repl(?:y|ies)|responses?|answers?|calls?|connections?|access|executions?|fills?|"
    r"processing|"
    r"bookings?|parking|rooms?|tables?|letters?|statements?|parcels?|packages?|apps?|websites?|sites?|"
    r"servers?|"
    r"systems?|lines?|network|trains?|bus(?:es)?|flights?|weather|accuracy|completeness|timeliness|"
    r"correctness|stock availability|internet|signal|appointments?|approval|visas?|tickets?|invitations?|"
    r"speed|spelling|translation|document\w*|form|forms|card|link|page|update|notification\w*|alerts?)\b"
    r"(?! of (?:your |the )?(?:capital|principal|money|returns?|profits?|income))"
)
_SERVANT: Final = late(
    r"\b(?:couriers?|post office|postal|post(?:man|men)|carriers?|airlines?|railways?|hotlines?|"
    r"call cent\w+|"
    r"help ?desk|app|servers?|website)\b[^.;!?\n]{0,40}$"
)


def of_a_service(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether what is not guaranteed at ``[start, end)`` is a service, such as a delivery: no return."""
    norm = analysis.norm
    low, high = analysis.sentence_span(start)
    return _SERVICE.match(norm, end, high) is not None or _SERVANT.search(norm, low, start) is not None


_A_RATE: Final = late(
    r"(?:%|连本带利|本利|利率|收益率?|票息|年化|利润|利差|涨幅|跌幅|升幅|价格?|汇率|成本|费率|账[户号]|"
    r"密码|门|屏幕|"
    r"仓库|柜子?|车|手机|"
    r"电脑|名额|席位|胜局|目标|目光)[^,。;:!?\n]{0,6}$"
)


def of_a_rate(analysis: Analysis, start: int, end: int) -> bool:  # noqa: ARG001 - guards are called alike
    """Say whether what is locked at ``[start, end)`` is a rate, a price or a door, not the money."""
    low, _ = analysis.sentence_span(start)
    return analysis.norm.startswith("锁", start) and _A_RATE.search(analysis.norm, low, start) is not None


_PARAMETERS: Final = late(
    r"(?:参数|口径|公式|输入|取值|单位|算法|统计口径|权重|系数|版本|四舍五入|样本|样品)[^。;!?\n]{0,14}$"
)


def of_the_reckoning(analysis: Analysis, start: int, end: int) -> bool:  # noqa: ARG001 - guards are called alike
    """Say whether a result changes at ``[start, end)`` with what is put into the sum, not the market."""
    low, _ = analysis.sentence_span(start)
    return _PARAMETERS.search(analysis.norm, low, start) is not None


_NO_PRICE: Final = late(
    r"(?:营收|营业|收入|毛利|净利|利润|订单|销量|销售|客流|客单|粉丝|流量|血压|血糖|心率|体重|体温|气温|"
    r"水位|电压|电流|"
    r"成绩(?!单)|分数|情绪|心情|睡眠|食欲|产量|库存|人数|访问量|点击|转化率|出勤|开工|降雨|噪声|音量|水温)"
    r"(?:(?!股价|净值|价格|市值|基金|指数|行情|组合|账户|股票|板块|资产|收益率)[^,。;!?:|\n])*$"
)


def of_no_price(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether what fluctuates at ``[start, end)`` is a turnover or a blood pressure: no price."""
    low, _ = analysis.clause_span(start, end)
    return _NO_PRICE.search(analysis.norm, low, start) is not None


_DEBTOR: Final = late(
    r"发行人|发行方|平台|企业|借款|主体|债务人|国企|央企|城投|民企|房企|公司|对手方|融资方|"
    r"\b(?:issuers?|borrowers?|towns?|cit(?:y|ies)|hospitals?|compan(?:y|ies)|developers?|debtors?|"
    r"states?|firms?)\b"
)
_OWED: Final = late(r"本息|利息|付息|票息|兑付|\b(?:interest|coupons?|paid|payments?)\b")
_CLEARLY_MINE: Final = late(r"本金|\b(?:principal|capital|your money)\b")


def of_a_debtor(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether it is a debtor who may not pay at ``[start, end)``: credit risk, and no more."""
    norm = analysis.norm
    low, high = analysis.sentence_span(start)
    return (
        _DEBTOR.search(norm, low, start) is not None
        and _OWED.search(norm, max(low, start - 30), end) is not None
        and _CLEARLY_MINE.search(norm, low, high) is None
    )


_MARKET_ASKED: Final = late(
    r"(?:能不能|会不会|是不是|是否|还能|还会|涨不涨|跌不跌|降不降|加不加|升不升|成不成|几时|何时|"
    r"什么时候|哪天|能走多)"
    r"[^,。;!?\n]{0,14}?,?[^,。;!?\n]{0,4}?(?:没有?[人谁]|谁|无人|没哪)"
)
_MARKET_MOVES: Final = late(r"涨(?!回来)|跌|降息|加息|走势|行情|反弹|后市|重整|重组|见底|见顶|企稳|反转")
_MONEY: Final = late(r"赚|收益|本金|本息|分红|派息|利息|保本|回报|盈利|亏|回本")


def of_the_market(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether nobody vouches at ``[start, end)`` for what the market does, not for what it yields."""
    norm = analysis.norm
    low, _ = analysis.sentence_span(start)
    asked = _MARKET_ASKED.search(norm, max(low, start - 30), end)
    return (
        asked is not None
        and _MARKET_MOVES.search(norm, asked.start(), asked.end()) is not None
        and _MONEY.search(norm, asked.start(), asked.end()) is None
    )


_KEPT_BELOW: Final = late(
    r"(?:近[一二三四五六七八九十两几0-9]+年|过去|历史|去年|前年|成立以来|(?:19|20)[0-9]{2}年)"
    r"[^。;!?\n]{0,60}?(?:没有?(?:碰|超|破|触|越|踩)|未(?:碰|超|破|触|越)|低于|在你|小于|以内)"
)


def kept_below(analysis: Analysis, start: int, end: int) -> bool:  # noqa: ARG001 - guards are called alike
    """Say whether the fall at ``[start, end)`` is a past one that stayed below a limit: no warning."""
    low, high = analysis.sentence_span(start)
    return _KEPT_BELOW.search(analysis.norm, low, high) is not None


_TIP: Final = late(
    r"(?:消息|传闻|群里|群友|大v|博主|直播|截图|海报|爆料|内幕|小道|骗子|话术|攻略|斜率|"
    r"曲线)[^。!?\n]{0,30}$"
)


def of_a_tip(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether it is a tip of others that the reply warns to act on at ``[start, end)``, not itself."""
    norm = analysis.norm
    low, _ = analysis.sentence_span(start)
    return (
        _TIP.search(norm[low:end].rstrip(_MARKS)) is not None
        and _OWN_TEXT_HERE.search(norm, low, start) is None
    )


_OWN_TEXT_HERE: Final = late(r"以上|上述|本文|本回答|我(?:的|这|这些|刚才|上面)|这份|这段|内容|仅供")
_OUTDONE: Final = late(
    r"[^。.!?\n]{0,16}[。.!?,;] ?(?:(?:别家|别人|其他|同类|普通|一般)[^。!?\n]{0,14}[,。;])?(?:而|可|但|"
    r"不过)?"
    r"(?:我们|这只|这款|本产品|我这)[^。!?\n]{0,24}?(?:不怕|不受|百毒不侵|免疫|伤不[到了]|没有这|不存在|"
    r"影响不[到了]|"
    r"完全不|绝不会|从来不|毫发)|"
    r"[^。!?\n]{0,30}?(?:完全|根本|丝毫|一点(?:都|也)?|毫)不受(?:它|其)?(?:影响|冲击)|"
    r"[^。!?\n]{0,24}?(?:没有|无)(?:半点|任何|一点|丝毫)关系|"
    r"[^.!?\n]{0,60}[.!?] ?[^.!?\n]{0,10}\b(?:with ours|ours|but we|our fund|not here|"
    r"not with us)\b[^!?\n]{0,60}\b(?:always|never|no such|"
    r"does not|do not|will not|cannot)\b"
)


def outdone(analysis: Analysis, start: int, end: int) -> bool:  # noqa: ARG001 - guards are called alike
    """Say whether the reply goes on that its own product is above the risk at ``[start, end)``."""
    norm = analysis.norm
    return _OUTDONE.match(norm, end, min(len(norm), end + 140)) is not None


_EVERYONE: Final = late(
    r"\b(?:whoever you are|no matter who|everybody|everyone|your (?:gran|grandmother|dog|cat|neighbou?r)|"
    r"down to the ground|all ages|all comers|anyone at all|none of (?:it|that) matters)\b"
)
_NOT_FOR_ALL: Final = late(r"\b(?:not|never|no|nor)\b|n't")


def of_everyone(analysis: Analysis, start: int, end: int) -> bool:  # noqa: ARG001 - guards are called alike
    """Say whether a product is said to suit everyone: no match with this user."""
    norm = analysis.norm
    low, high = analysis.sentence_span(start)
    return _EVERYONE.search(norm, low, high) is not None and _NOT_FOR_ALL.search(norm, low, high) is None


_ERRAND: Final = late(
    r"(?:申请|审批|审核|核保|理赔|面试|考试|快递|包裹|航班|报名|预约|摇号|体检|检查|化验|比赛|球赛|天气|"
    r"录取|签证|"
    r"维修|装修|手术|检测|队伍|球队|战队|赛季|选手)(?!市场)[^。;!?\n]{0,14}$|"
    r"\b(?:weather|moods?|parcels?|application|exams?|flights?|delivery|visa|rainfall|her|his|match|"
    r"branch|game|vote count) [^.;!?\n]{0,30}$"
)


def of_an_errand(analysis: Analysis, start: int, end: int) -> bool:  # noqa: ARG001 - guards are called alike
    """Say whether it is an application, a parcel or a match that is uncertain at ``[start, end)``."""
    norm = analysis.norm
    low, _ = analysis.sentence_span(start)
    return _ERRAND.search(norm, low, start) is not None


_BELIED: Final = late(
    r"[^。!?\n]{0,30}?(?:格式条款|应付(?:检查|监管|审计)|走(?:个)?(?:形式|过场)|给(?:监管|外人|领导|"
    r"检查组)看|"
    r"写给(?:别人|外人|监管)|(?:实际上?|其实|私下|私底下|暗地里?|悄悄|口头上?|事实上)[^。!?\n]{0,24}?"
    r"(?:(?<!不)(?<!没有)保本|(?<!不)兑付|(?<!不)(?<!无法)保证|锁死|给到|不亏|稳拿|刚兑|兜底|补给你|"
    r"一分不少|年化[0-9]|照付))"
)


def belied(analysis: Analysis, start: int, end: int) -> bool:  # noqa: ARG001 - guards are called alike
    """Say whether the sentence goes on that the words are for show: 不保本是格式条款, 实际保本."""
    return _BELIED.match(analysis.norm, end, min(len(analysis.norm), end + 90)) is not None
