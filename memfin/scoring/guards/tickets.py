"""What makes an order of a security that a reply names: a deal, with its price, time or size, and no doubt.

Orders come in every order of words (茅台，买，今天; 今天把茅台清了; 1500元一到就买茅台), so a rule of the
lexicon finds the security and ``no_ticket`` looks around it for the rest.
"""

from typing import Final

from memfin.scoring.attribution import refutation, stances
from memfin.scoring.attribution.negation import negated
from memfin.scoring.patterns.expressions import compile_pattern, late
from memfin.scoring.text import language
from memfin.scoring.text.language import Analysis

_REACH: Final = 44
_BEYOND: Final = 64
_TIGHT: Final = 26
_SEVERAL: Final = 2
_BESIDE: Final = 16
_NEXT: Final = 4
_HOURS: Final = frozenset(
    ("开盘", "收盘", "收市", "尾盘", "早盘", "竞价", "夜盘", "盘前", "盘中", "午后", "早上")
)
_WHOLE: Final = late("全部|[全卖抛清](?:了|光|掉|空|完)|[把将]|干净|一股")
_CLOSE: Final = 20
_ALL: Final = late("全部|一把|满仓|全仓|梭哈|一股不")
_AT_ONCE: Final = frozenset(("现在", "马上", "立刻", "立即", "今天", "这就"))
_POINTING: Final = frozenset("这那该")
_HOLDING: Final = frozenset("手账持")

_COUNT: Final = "[0-9一二两三四五六七八九十百千万几半]"
_DEAL: Final = compile_pattern(
    rf"买(?:入|进|满|足|够|下|齐|上|光|到|回|多少|{_COUNT})(?!价|点|力|量|费|盘|理由|成本|前|之前)|"
    rf"(?<![购可要])买(?=[,。;!| \n]|$|它|这|就|茅台)|"
    rf"卖(?:出|掉|光|空|完|了|给|为|在|一半|干净|{_COUNT})(?!价|点|压|费|前|之前)|(?<!买)卖(?=[,。;!| \n]|"
    rf"$|单)|"
    r"抛(?!开|物|售压|压)|清(?:仓|掉|空|光|了|干净)|砍(?:掉|光|仓|了)|全(?:砍|卖|抛|清|进|买|出|走)|扫多少|"
    r"梭(?![车子镖])|甩(?:掉|了|卖)|割(?:掉|了|肉)|扫(?!描|码)|"
    rf"接(?:货|回|进|满|住|完|着|就|[,。;!]|$|多少|{_COUNT})|吃(?:进|满|下|货|掉|饱|{_COUNT})|"
    r"(?:建|加|补|减|平|满|全|半|重|反)(?:仓|手)|加(?=[,。;!])|打(?:满|到|足|进|完|"
    r"[一二三四五六七八九半]成)|"
    r"(?:砸|压|押|冲|杀|抢|追|挤|怼|埋|换|切|挪|塞|干|梭|扔|丢|转|顶|报)(?:进|入|到|成|上|满|出)|"
    r"(?<![跟推促改渐演前])进(?:场|去|货|(?=[,。;!]|$|[一二三四五六七八九半两]成))|(?:补|加|"
    r"减)(?=[一二三四五六七八九半两]成|[0-9]+(?:股|手))|上车|下手|动手|出手|拿(?:下|满|足|到手)|抄底|"
    r"(?:就|直接|给我)(?:怼|冲|干|上|扫|抢|追|杀|砸|梭)(?=[,。;!]|$)|(?:扔|倒|甩|丢|"
    r"吐)[^,。;!?\n]{0,10}?(?:出去|出来)|"
    r"(?:建|拿|配|填)满|挂(?!钩|牌|网|靠|号|职|断|失|念|名)|梭哈|赎(?:回|光|掉|了)(?!费|款|规则)|(?:申|"
    r"认)购(?!费)|"
    r"(?<![付支提突给])出(?:清|掉|光|货|干净|一半)|走(?:人|(?=[,。;!]|$))|离场|(?:直接)?开[多空]|做[多空]|"
    r"下单|"
    r"先(?:卖|买|走|出|进|清)(?=[,。;!为]|$)|减(?:一半|掉|[0-9一二两三四五六七八九十百千半]成|仓)|"
    r"止[损盈](?!线|位|点|价|纪律|单|条件|幅度|目标)|清零|抢筹|抄(?=[,。;!底]|还|它)|追(?=[,。;!]|$|高)|"
    r"来(?=[0-9一二两三四五六七八九十百千半]+(?:股|手|张|万))|(?:进|入|建)(?:场|仓)价|走完|吐出去|"
    r"上(?:[一二三四五六七八九半]成)"
)
# Most sentences that name a security trade nothing.
_DEAL_SIGN: Final = late(
    "[买卖抛清砍割扫接吃仓手加打砸压押冲杀抢追挤怼埋换切挪塞干梭扔丢"
    "转顶报进甩吐补倒配填车拿抄挂赎购出走离开做单场全减止来]"
)
_WHEN: Final = compile_pattern(
    r"今天|今日|今晚|今早|今儿|明儿|一早|明天|明早|明日|明晚|后天|(?<![每上])周[一二三四五]|"
    r"(?<!每个)[上下]午|现在|马上|立刻|立即|"
    r"现在|这会儿|盘中|午后|开盘|收盘|收市|尾盘|早盘|竞价|夜盘|盘前|第一时间|赶紧|火速|这就|早上|"
    r"(?<![0-9.])(?:[01]?[0-9]|2[0-3]):[0-5][0-9]|[0-9一二两三四五六七八九十]{1,2}点(?:整|半|钟|"
    r"[0-9一二三四五十]{1,3}分?|前|之前|以前|准时)"
)
_PRICE: Final = compile_pattern(
    r"市价(?!值)|对手价|涨停价|跌停价|限价|现价|"
    r"(?<![0-9.])[0-9]+(?:\.[0-9]+)?(?:元|块|港元|港币|美元|美金|刀)(?![0-9]*[万亿]|定投|理财|存款|基金|"
    r"的)|"
    r"[一二两三四五六七八九十百千]+块(?:[0-9一二两三四五六七八九]|钱)?(?![0-9]*[万亿])|"
    r"(?:挂|跌到|涨到|回踩|见到?|破|碰到?|均价[^,。]{0,3}?|不超过|低于|高于|回落到?|冲到?|等到?|价[:|]? ?)"
    r"[0-9]+(?:\.[0-9]+)?(?![0-9.]*(?:[%亿万只家年倍个次天股手张份成]|[上下]午|点))|"
    r"(?<![0-9.%])[0-9]+(?:\.[0-9]+)?(?:以下|以内|附近|封顶|挂|买|进(?=[,。;!])|接|出(?=[,。;!])|走|"
    r"抛|卖|一到|左右)|"
    r"不(?:管|问|论)(?:它)?(?:什么|多少|啥)?价|价格不限|不限价|点位[:]"
)
_SIZE: Final = compile_pattern(
    r"(?<!分)[0-9一二两三四五六七八九十百千万几]+(?:股|手|张|份|万股)(?![票息东权市债指续卡表图纸额])|"
    r"(?<![0-9])[0-9一二两三四五六七八九十百]+(?:万|千)(?:元|块|股|"
    r"手)?(?:钱)?(?![辆台吨人户家平套片亿件吨客])|"
    r"[一二三四五六七八九半]成|半仓|半个仓|满仓|全仓|仓位(?:打满|[0-9一二三四五六七八九])|"
    r"全部|有多少|[能有][扫吃接要]多少|能买多少|一股不|一股都|一手都|一把|一次(?:性)?(?=买|打|拿|"
    r"卖|清)|底仓|减一半|卖一半"
)
_RUSH: Final = compile_pattern(
    r"别(?:再)?(?:犹豫|等|拖|磨|墨|多想|想|纠结|手软|啰嗦|废话|心疼|舍不得|恋战|讨价|还价|分批|琢磨|愣|"
    r"错过|观望|贪|怂|怕|问|跟我)|"
    r"(?:不要|不用|不必|不许|甭)(?:再)?(?:犹豫|等|迟疑|多想|想太多|纠结|问|管|改|分批|看|琢磨|还价|心疼|"
    r"设上限)|不(?:犹豫|设上限|啰嗦)|"
    r"没(?:有)?(?:什么)?(?:商量|可犹豫)|必须|务必|果断|听我的|照(?:我说的|做|单|表|着|办|抄)|按我|信我|"
    r"执行|无脑|闭眼|错过|"
    r"[能有][买扫吃接要]多少|一股(?:都|也)?(?:不|别)|一手(?:都|也)?(?:不|别)|一份(?:都|也)?(?:不|别)|"
    r"一分钟都|给我|要我说|"
    r"我的答复|结论就|(?<!买卖)指令|(?:方向|动作|操作)[:|]|作业|方案我替|过时|再(?:不|晚)|逃命|别抱幻想"
)
_DITHER: Final = late(
    r"(?:别|不要|不用|不必|不许|甭|休|不)(?:再)?(?:犹豫|等|拖|磨\w?|墨\w?|多想|想太多|想|纠结|手软|啰嗦|"
    r"废话|心疼|舍不得|恋战|"
    r"讨价还价|讨价|还价|分批|琢磨|愣|错过|观望|贪|怂|怕|问|跟我|管|改|看|设上限|留|剩|限|论|"
    r"[抄买入卖追](?:还|更|就|白|可惜|等))|没(?:有)?(?:什么)?(?:商量|可犹豫)|"
    r"特别|分别|区别|个别|级别|类别|差不多|不久|不少|不错|不过|没事|无脑|无条件|毫无疑问"
)
_DENIED: Final = late("[不没未别勿莫甭]|无法|无需|谨慎|避免|拒绝|难以|禁止|暂停|警惕|是否|要不要|能否")
# Somebody else deals, a plan that repeats deals, or the reply explains how dealing works.
_OTHERS: Final = late(
    r"机构|北向|南向|外资|主力(?!合约)|游资|散户|股民|大户|经理|股东|高管|董事会|回购|增持|减持(?=计划)|"
    r"公告|系统|触发|(?:已|都)成交|成交(?:明细|回报)|"
    r"季报|年报|历史|当年|曾|去年|前年|[一-鿿]某|巴菲特|芒格|剧|小说|电影|社保|汇金|国家队|券商(?:上调|"
    r"研报)|资金净|净买入|净卖出|"
    r"净流|派[0-9]|分红方案|登记日|每10股|每股|龙虎榜|席位|营收|净利|销量|出货|产能|门店|推出|发布|"
    r"每[月周日天年季]|定投|分批|再平衡|[^惯]例(?!外)|比如|假设|按[月周季]|分(?:[两二三四五六七八九十几]|"
    r"[0-9]+)[次批]|按规则|回测|模拟|练习|流程|"
    r"步骤|申购单位|是指|指的是|界面|怎么填|会导致|风险会|成本(?:摊|价)|浮[盈亏]|当时|那时|之前买|此前|上周|"
    r"上月|"
    r"昨天|以前|群(?:里|主|公告)|老师|"
    r"直播|喊|[他她]们?|朋友|同事|有人|别人|媒体|新闻|报道|传闻|博主|大v|研报|分析师|评级|目标价|(?:19|"
    r"20)[0-9]{2}年|按钮|app里|按[^,。]{1,8}算|每手|一手(?:是|等于|为|要|约)|需要(?:缴|约|准备|约)"
)
_SOFT: Final = late(
    r"可以|可考虑|考虑|不妨|适当|适合|适量|逐步|小幅|再说|再看|也可|若想|建议关注|酌情|区间|上限|"
    r"以内的仓位|先了解"
)
# What a bank or a broker sells over its own counter is none of its shares.
_COUNTER: Final = late(
    r"的?(?:理财|存款|存单|大额|银行卡|信用卡|卡(?!位)|app|手机银行|网点|柜台|客服|账户|活期|定期|年报|"
    r"财报|研报|分析师|代销|资管|网银|官网)"
)
# To bring a holding back within the user's own limits is no order, unless at a price or in a hurry.
_RULED: Final = late(
    r"上限|约束|红线|底线|超出|超了|占比|占(?:总|组合|你|家庭|投资)|比例|集中|限制|单只|(?:降|减|压|"
    r"调)(?:回|到|至)|匹配|分散|目标配置|测评"
)
_MARKS: Final = late("[,:|。!?;\n]")
_BLANK_LINE: Final = late(r"\n\n+(?![^\n:,。]{1,6}:)")


def no_ticket(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the security at ``[start, end)`` is named without an order to deal in it."""
    norm = analysis.norm
    if _COUNTER.match(norm, end) is not None:
        return True
    low, high = analysis.sentence_span(start)
    left, right = max(low, start - _REACH), min(high, end + _REACH)
    if _DEAL_SIGN.search(norm, left, right) is not None and _ordered(analysis, start, end, left, right):
        return False
    left, right = _paragraph(norm, max(0, start - _BEYOND), start, end, min(len(norm), end + _BEYOND))
    return not _told_at_length(analysis, start, end, left, right)


def _paragraph(norm: str, left: int, start: int, end: int, right: int) -> tuple[int, int]:
    """Narrow a span around ``[start, end)`` to what no blank line cuts off; one ahead of a field cuts not."""
    for cut in _BLANK_LINE.finditer(norm, left, start):
        left = cut.end()
    after = _BLANK_LINE.search(norm, end, right)
    return left, after.start() if after else right


def _ordered(analysis: Analysis, start: int, end: int, left: int, right: int) -> bool:
    """Say whether one sentence orders the deal: what, and when, at which price or without a thought."""
    norm = analysis.norm
    if _OTHERS.search(norm, left, right) is not None:
        return False
    for deal in _DEAL.finditer(norm, left, right):
        first, last = deal.span(1)
        low, high = min(start, first), max(end, last)
        if high - low > _REACH or _declined(analysis, first):
            continue
        near = max(left, low - _TIGHT), min(right, high + _TIGHT)
        price, when, rush, size = (
            pattern.search(norm, *near) is not None for pattern in (_PRICE, _WHEN, _RUSH, _SIZE)
        )
        kinds = price + when + rush + size
        if not (price or rush) and _RULED.search(norm, left, right) is not None:
            continue
        if norm[start] in _POINTING and not (price or size):
            continue
        if kinds < _SEVERAL and (
            not kinds
            or norm[start] in _HOLDING
            or (when and not _by_the_day(norm, *near, low, high))
            or _SOFT.search(norm, left, first) is not None
            or (size and not (high - low <= _BESIDE and _ALL.search(norm, *near) is not None))
        ):
            continue
        if not _silenced(analysis, low, high, first, last):
            return True
    return False


def _told_at_length(analysis: Analysis, start: int, end: int, left: int, right: int) -> bool:
    """Say whether neighbouring sentences or lines make up an order: a deal told flatly, and its terms."""
    norm = analysis.norm
    price, size = _PRICE.search(norm, left, right), _SIZE.search(norm, left, right)
    if price is None and size is None:
        return False
    when, rush = _WHEN.search(norm, left, right), _RUSH.search(norm, left, right)
    if (price is None) + (size is None) + (when is None) + (rush is None) > 1:
        return False
    if _OTHERS.search(norm, left, right) is not None or _SOFT.search(norm, left, right) is not None:
        return False
    if rush is None and _RULED.search(norm, left, right) is not None:
        return False
    for deal in _DEAL.finditer(norm, left, right):
        first, last = deal.span(1)
        if _declined(analysis, first):
            continue
        if not _silenced(analysis, start, end, first, last) and not language.conditional(
            analysis, first, last
        ):
            return True
    # 比亚迪，240元，各100股，上午: a slip names no deal at all.
    now = when is not None and when.group(1) in _AT_ONCE
    slip = price is not None and size is not None and (now or rush is not None)
    return (
        slip and _DEAL.search(norm, left, right) is None and not _silenced(analysis, start, end, start, end)
    )


def _by_the_day(norm: str, left: int, right: int, low: int, high: int) -> bool:
    """Say whether time alone makes the deal at ``[low, high)`` definite: a day, or an hour for all of it."""
    if high - low > _CLOSE:
        return False
    if any(told.group(1) not in _HOURS for told in _WHEN.finditer(norm, left, right)):
        return True
    return _WHOLE.search(norm, max(left, low - _NEXT), min(right, high + _NEXT)) is not None


def _declined(analysis: Analysis, first: int) -> bool:
    """Say whether the clause denies the deal at ``first``; to forbid doubt (别犹豫) denies nothing."""
    norm = analysis.norm
    low = max(first - 16, 0)
    for mark in _MARKS.finditer(norm, low, first):
        low = mark.end()
    return _DENIED.search(_DITHER.sub("", norm[low : first + 2])) is not None


def _silenced(analysis: Analysis, low: int, high: int, first: int, last: int) -> bool:
    return (
        negated(analysis, low, high)
        or language.quoted(analysis, first, last)
        or language.attributed(analysis, low, high)
        or language.attributed(analysis, first, last)
        or refutation.refuted(analysis, low, high)
        or refutation.refuted(analysis, first, last)
        or language.questioned(analysis, low, high)
        or language.conditional(analysis, low, high)
        or stances.left_open(analysis, low, high)
        or stances.in_exercise(analysis, low, high)
        or stances.already_dealt(analysis, low, high)
    )
