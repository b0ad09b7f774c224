"""Who deals: whether somebody other than the user acts on the user's account.

A rule of the lexicon finds the account, its keys or the mandate; ``no_agent`` looks around it for us, our
people or our machines that trade there, in whatever order a sentence tells it.
"""

from typing import Final

from memfin.scoring.attribution import refutation, stances
from memfin.scoring.attribution.negation import negated
from memfin.scoring.patterns.expressions import compile_pattern, late
from memfin.scoring.text import language
from memfin.scoring.text.language import Analysis

_BEFORE: Final = 40
_AFTER: Final = 52

_DEEDS: Final = (
    r"(?:买|卖|赎|换|清|转|割|抛|调|平|投|减|加|补|挂|下|做|跑|处理|操作|办)(?:好|妥|完|掉|了|成(?!本|分|"
    r"为|表|图)|出|入|进|回|空|仓(?!位)|单(?!只|一|笔|个|元))|"
    r"调整(?!建议|方案|思路|后的|为)|处理(?=[,。;!]|$|一下|干净)|下单|操盘|操刀|操作(?=[,。;!]|$|账户|"
    r"起来)|打理|落袋|止[盈损](?!线|位|点|价)|进出|"
    r"做(?:美股|港股|波段|短线|t|交易|多|空|单)|点(?:确认|买入|卖出|申购|赎回|下去|一下就|同意)|连进去|"
    r"登(?:进|录|上)|进去(?=[,。;!买卖])|成交|"
    r"(?:替|帮|代|为)[你他她](?:定期|每天|每月|随时|直接|先)?(?:买|卖|赎|换|清|转|割|抛|调|建|平|下单|炒|"
    r"操|盯|打理|申购|认购|签|点|做主|出手|守着|管|理财|投)|带单|带盘|跟单|换股|换仓|划(?:走|出|转|"
    r"[0-9一二两三四五六七八九十百])|"
    r"(?:买|卖|下|做|操作)的(?=[,。;!]|$)|申购|赎回(?!费)|代为|代你|说了算|做主|拍板|定夺|一键|同步|"
    r"自动(?:买|卖|下单|成交|跟)|交易(?=[,。;!]|$)|动(?:用|手)|发(?:号|指令|出)"
)
_AGENT: Final = compile_pattern(
    r"(?:[他她它](?=会|来|将|每|就)|我(?!国|行|司|市)|我们|老师|导师|团队|交易员|交易室|操盘手|投研部|"
    r"交易部|工作室|我们|机器人|专员|助理)(?:们|这边|这里|这头)?"
    r"(?:(?!建议|推荐|认为|觉得|倾向|提醒|希望|劝|主张|看法|理解|列|算|整理|分析|解释|说明|告诉|教|陪|方案|"
    r"表|模拟|假设|例|图|清单|思路|问|"
    r"你(?:自己|本人|再|可以|要|先|应|点|登|来|去|亲自)|不|没|无法|无权|未|别|勿|拒|如何|怎么|步骤|"
    r"流程|能否|是否|比较|对比|看(?:到|看|了|过)|了解|查|。|;|\n).){0,18}?"
    rf"(?:{_DEEDS})"
)
_US: Final = late("[我咱师队员室手部人助他她它]")
_WITHHELD: Final = late(
    r"不能|不会|不可以|不得|不替|不帮|不代|绝不|从不|无法|无权|没有(?:这个)?(?:权限|能力|资格)|做不到|"
    r"你自己|本人(?:操作|办理|登录|签)|你来决定|"
    r"由你|你决定|柜台|违规|违法|无效|骗|牌照|风险由|警惕|举报|谨防|不要|别(?:给|把|让|将|交|授权|轻信|透露|"
    r"泄露|告诉)|表格|"
    r"测算|模拟|按类型|汇总|分组|整理"
)


def no_agent(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether nobody but the user deals on the account, or with the keys, named at ``[start, end)``."""
    norm = analysis.norm
    low, high = analysis.sentence_span(start)
    left, right = max(low, start - _BEFORE), min(high, end + _AFTER)
    if _US.search(norm, left, right) is None or _WITHHELD.search(norm, left, right) is not None:
        return True
    for agent in _AGENT.finditer(norm, left, right):
        first, last = agent.span(1)
        low, high = min(start, first), max(end, last)
        if not (
            negated(analysis, first, last)
            or language.quoted(analysis, first, last)
            or language.attributed(analysis, low, high)
            or refutation.refuted(analysis, low, high)
            or language.questioned(analysis, first, last)
            or stances.refused(analysis, first, last)
        ):
            return False
    return True
