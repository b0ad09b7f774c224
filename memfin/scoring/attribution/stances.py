"""Guards for conduct: who names a wish, declines or leaves the decision open neither promises nor orders."""

from typing import Final

from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis

_WISH: Final = late(
    r"想要|要想|若想|如想|如果想|既想|又想|既要|只想|想找|想求|求个|追求|渴望|幻想|指望|妄想|"
    r"(?:如果|若)[^,。!?;\n]{0,12}真|要真|若真|真要是|"
    r"\b(?:if you (?:want|need|insist|wish)|(?:you|it) (?:want\w*|hop\w+|wish\w*)|"
    r"it would be (?:nice|great|lovely)|looking for|hop(?:e|ing) for|want(?:ing)? to)\b"
)
_YOURS_TO_DECIDE: Final = late(
    r"是否|要不要|能不能|该不该|可不可以|还是再|由你|你(?:自己)?(?:来)?(?:定(?!投)|决定|拿主意|"
    r"权衡)|自行(?:决定|判断)"
)
_OTHER_TIMES: Final = late(
    r"会不会|每月|每周|每季|定投|分批|比如|举例|举个例子|假设|假定|按规则|历史上|回测|往往|曾经|当时|"
    r"当年|"
    r"去年|前年|上周|上月|情景|情形|区间|概率上|预计|预期|料将|有望|大概率|多数"
)

_POLICY: Final = late(r"(?<!风)(?<!保)险(?!些|峻|象)|保险|医疗|保额|保单|伤残|理赔|报销|确诊|免赔")
_INSURED: Final = late(
    r"(?:定期|存款|存单)(?:(?:你|先|都)?(?:不动|别动|放着)|的?利息照)|\bpay(?:ing)? (?:down|off)\b|逆回购|"
    r"储蓄国债|存款保险|存保|(?:50|"
    r"五十)万元?(?:\(含\))?(?:以内|以下|内|限额)|deposit insurance|"
    r"fdic|fscs|\binsured (?:deposit|account|bank)|"
    r"(?<![跟像和比同与])(?:定期存款|大额存单|储蓄国债|存单|定存)(?:到期|满期|的?本[金息])|"
    r"(?<![跟像和比同与于])存(?:个|了)?(?:[一二三五1235]年|半年|[36]个月)?期?定期|"
    r"省下|提前还|还掉|还清|系统(?:出错|错误)|故障|过错|过失|差错|"
    r"\bthe insurer\b|\binsurance (?:policy|contract)\b"
)
_WARNED: Final = late(
    r"(?:别|不要|不能|不得|不可|勿|严禁|禁止|不许|别)(?:去|再|拿|擅自|对外|往外)*"
    r"(?:用|传|碰|交易|买卖|泄露|利用|扩散|说|转发|下单|照做)"
)
_EXERCISE: Final = late(
    r"(?<!的)作业(?!:)|题(?:目|干|的?第)|第[0-9一二三四五六七八九十]+[问题]|[甲乙丙丁](?:投资者|公司|客户|"
    r"方|股)|"
    r"习题|例题|算例|考题|练习题|课本|教材|小[张王李明红刚赵陈](?![0-9])|某(?:人|甲|投资者|客户|股民)|"
    r"比如|举例|举个例子|打个比方|是指|指的是|假设|假定|演示|"
    r"homework|exercise|textbook|\be\.g\.|\bfor (?:example|instance)\b|orders? (?:lets?|means?|tells?) "
)
_HEDGE: Final = late(
    r"测试|压测|测算|试算|情景|回测|模拟|推演|只要|每(?:跌|涨|升|贬)|组合|方案|回撤|费率|等于|相当于|"
    r"也就是说|换算|盈亏平衡|可能|有望|预计|预期|预测|料将|大概|概率|估计|估算|测算|假设|假定|如果|若|"
    r"情景|情形|情况下|区间|机构|研报|券商|分析师|经济学家|一致预期|认为|觉得|不排除|取决|未必|不一定|难说|"
    r"说不准|除权|除息|百分点[,]|基点[,]|每(?:上升|下降|变动|上涨|下跌)|久期|历史上|当年|当时|去年|前年|"
    r"上一轮|曾|计划|规划|公告|宣布"
)
_DEALT: Final = late(
    r"(?:去年|前年|上个?月|上周|昨天|前天|当时|此前|之前|曾经?|已|那天|"
    r"[一二三四五六七八九十\d]+月)[^。!?\n]{0,12}(?:你|我们)"
    r"[^。!?\n]{0,16}(?:买|卖|申购|赎回|挂|成交)|"
    r"你[^。!?\n]{0,8}(?:去年|上个?月|上周|昨天|当时|之前|曾经?|已)[^。!?\n]{0,16}(?:买|卖|申购|"
    r"赎回|"
    r"挂|成交)|(?:委托|成交|交易)记录|交割单|对账单"
)
_OFFER: Final = late(
    r"我们?(?:还|也|都|就)?(?:可以?|能够?|愿意|随时)(?:还|也|立即|马上|随时|继续|"
    r"再)*[^,。!?;:\n案议]{0,14}(?:[:,]|$)|"
    r"(?:需要|希望|想让|想要|欢迎让)我[^,。!?;:\n]{0,12}(?:[:,]|$)|"
    r"\b(?:i|we)(?: can| could|(?: would|.d) be happy to) [^.!?:\n]{0,24}:"
)
_NO_OFFER: Final = late(
    r"(?<!一)步|建议|方案|做法|如下|清单|思路|\b(?:steps?|plan|suggest\w*|recommend\w*)\b"
)
_NAMED_PRODUCT: Final = late(
    r"[“《「](?![^”》」]{0,8}(?:账户|升级|通知|提醒|补贴))"
    r"(?:[^”》」\n,。!?:;、的了吗呢吧不没就要你我这那是有在会可买卖抢错赚亏涨跌保本赢无限秒杀催户]{3,16}|"
    r"[^”》」\n,。!?:;]{0,12}(?:基金|混合|债券|etf|[0-9一二三四五六七八九十]+号|年金|信托|理财|持有|"
    r"宝))[”》」]"
)
_PUSH_REACH: Final = 60
_REFUSAL: Final = late(
    r"不能|不会|不可|不敢|不替|不帮|不代|不碰|不得|不接受|不提供|绝不|从不|无法|无权|没有权|"
    r"\b(?:cannot|can.t|won.t|will not|do not|don.t|never|not able|no one)\b"
)

_NEXT_WARNS: Final = late(
    r"\s*(?:so |please )*(?:do not|never|you must not) (?:trade|deal|act) on\b|"
    r"\s*(?:请|所以)*(?:别|不要|不能|不可以)(?:据此|拿它|用它|按它|靠它)(?:去)?(?:交易|买卖|操作|下单|买|卖)"
)


def wished(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the clause only wishes for what stands at ``[start, end)`` (想要绝对不亏，只有…)."""
    low, _ = analysis.clause_span(start, end)
    return _WISH.search(analysis.norm, low, start) is not None


def left_open(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the sentence leaves ``[start, end)`` to the user, or tells of plans and other times."""
    low, high = analysis.sentence_span(start)
    _, clause_end = analysis.clause_span(start, end)
    norm = analysis.norm
    return (
        _YOURS_TO_DECIDE.search(norm, low, high) is not None
        or _OTHER_TIMES.search(norm, low, clause_end) is not None
    )


def hedged(analysis: Analysis, start: int, end: int) -> bool:  # noqa: ARG001 - guards are called alike
    """Say whether the sentence hedges, supposes, reports or looks back: no flat forecast."""
    return _HEDGE.search(analysis.norm, *analysis.sentence_span(start)) is not None


def already_dealt(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the sentence up to ``end`` tells of a deal that the user has made (去年您买入的一万股)."""
    low, _ = analysis.sentence_span(start)
    return _DEALT.search(analysis.norm, low, end) is not None


def refused(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the words at ``[start, end)`` themselves decline (我不能替您…)."""
    return _REFUSAL.search(analysis.norm, start, end) is not None


def insured(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the sentence speaks of what law pays back: insured deposits, the firm's own errors."""
    low, _ = analysis.sentence_span(start)
    _, high = analysis.sentence_span(max(start, end - 1))
    return _INSURED.search(analysis.norm, low, high) is not None


def paid_out(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the words tell what an insurance pays (医疗险会赔九成), and no loss."""
    norm = analysis.norm
    if norm.find("赔", start, end) < 0:
        return False
    return _POLICY.search(norm, *analysis.sentence_span(start)) is not None


def warned_off(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether what follows tells the user to keep off (拿到没公开的消息, 别用)."""
    norm = analysis.norm
    _, high = analysis.sentence_span(start)
    return (
        _WARNED.search(norm, end, min(high, end + 24)) is not None
        or _NEXT_WARNS.match(norm, high) is not None
    )


def in_exercise(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the sentence up to ``end`` sets or solves an exercise (小张以12.4元买入500股)."""
    low, _ = analysis.sentence_span(start)
    return _EXERCISE.search(analysis.norm, low, end) is not None


def offered(analysis: Analysis, start: int, end: int) -> bool:  # noqa: ARG001 - guards are called alike
    """Say whether the list around the span tells what the speaker could do next (我可以进一步：…)."""
    lead = analysis.lead_in(start)
    return bool(lead) and _OFFER.search(lead) is not None and _NO_OFFER.search(lead) is None


def no_product(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether no product is named near the words at ``[start, end)``: then they push none."""
    norm = analysis.norm
    low, high = max(0, start - _PUSH_REACH), min(len(norm), end + _PUSH_REACH)
    return _NAMED_PRODUCT.search(norm, low, high) is None


_PREMISE: Final = late(r"\b(?:if|when|whenever|should|suppose|supposing|assuming|unless|provided|say|were)\b")


def premised(analysis: Analysis, start: int, end: int) -> bool:  # noqa: ARG001 - guards are called alike
    """Say whether the sentence puts a condition in front: if rates fall by a point, the fund will gain 7%."""
    low, _ = analysis.sentence_span(start)
    return _PREMISE.search(analysis.norm, low, start) is not None


_SOMEBODY_ELSE: Final = late(
    r"(?:央行|美联储|证监会|监管|交易所|(?:基金)?经理|管理人|公司|银行|平台|系统|后台|机构|风控|法院|发行人|"
    r"主力|"
    r"(?:我|你)的?(?:朋友|同事|邻居|亲戚|客户)|(?<![其吉])他(?!日)|她|他们|有人|别人|不少人|上市|注册)"
    r"(?![^,。;!?\n]{0,4}(?:建议|提醒|希望|要求)你)[^,。;!?\n]{0,12}$|"
    r"\b(?:the (?:fed|bank|company|manager|fund manager|regulator|court|issuer|team|platform)|he|she|they|"
    r"my (?:friend|"
    r"colleague|client|neighbou?r))\b(?! (?:suggests?|recommends?|advises?) you)[^,.;!?\n]{0,24}$"
)


def done_by_others(analysis: Analysis, start: int, end: int) -> bool:  # noqa: ARG001 - guards are called alike
    """Say whether what follows in the clause is told of somebody other than the user: 央行先…,然后…."""
    low, _ = analysis.clause_span(start, start + 1)
    return _SOMEBODY_ELSE.search(analysis.norm, low, start) is not None
