"""How often a literal occurs in replies about money: the rarer it is, the better to scan for.

Rates are expected hits in a reply of 600 characters, counted roughly over recorded replies. Only their
order matters: it decides which of several literals announces a pattern (``prefilter``), never what the
pattern matches.
"""

from collections.abc import Iterable
from functools import cache
from typing import Final

_SIGNS: Final[dict[str, float]] = {
    **dict.fromkeys("的是不金资您一基,.:-|%()0123456789、;#*/", 5.0),
    **dict.fromkeys("期能行有可投风以险年个在产债用动为分性我要这大上定本中回利下时成合如率", 2.2),
    **dict.fromkeys("abcdefghijklmnopqrstuvwxyz", 10.0),
    " ": 60.0,
}
_CHINESE: Final = frozenset(
    """
    风险 基金 投资 市场 资产 可能 建议 您的 收益 万元 银行 波动 产品 利率 可以
    配置 债券 是否 回撤 行业 股票 政策 提供 权益 流动 货币 本金 现金 管理 具体
    个月 资金 信用 稳健 净值 长期 没有 最大 如果 历史 亏损 指数 一个 信息 分析
    承受 影响 以上 持有 数据 为了 需要 能力 提示 部分 当前 以下 交易 比例 宽基
    价格 为您 国债 构成 仓位 组合 逻辑 基于 参考 金融 通常 赎回 短期 期限 策略
    存款 说明 账户 适合 企业 时间 理财 关键 板块 存在 公司 预期 决策 不是 目标
    未来 证券 占比 表现 成本 接受 情况 经济 关注 不能 环境 需求 自己 变化 估值
    个人 费率 久期 无法 操作 判断 任何 一年 确定 保证 监管 通过 就是 了解 作为
    周期 业绩 主要 不会 决定 要求 进行 或者 以及 你的 偏好 约束 根据 不代 流动性
    不确定 不确定性 不代表 承受能力
    较高 过高 偏高 更高 回落 不少 较大 提高 下降 上升 上涨 下跌 增长
    """.split()  # noqa: SIM905 - quotes around each of 150 words would hide them
)
_ENGLISH: Final = frozenset(
    "the a and you to is in it your of for that at with one on or so can if than be are up this no not "  # noqa: SIM905 - the same
    "will would could may have".split()
)


def _parts(words: Iterable[str]) -> frozenset[str]:
    return frozenset(
        word[low:high] for word in words for low in range(len(word)) for high in range(low + 1, len(word) + 1)
    )


_CHINESE_PARTS: Final = _parts(_CHINESE)
_ENGLISH_PARTS: Final = _parts(_ENGLISH)
_FREQUENT_CHINESE: Final = 0.7
_PART_OF_FREQUENT_CHINESE: Final = 0.3
_FREQUENT_ENGLISH: Final = 3.0
# Indexed by length; the last figure holds for all longer ones.
_OF_CHINESE: Final = (10.0, 1.5, 0.03, 0.01, 0.002)
_OF_ENGLISH: Final = (10.0, 10.0, 1.0, 0.7, 0.5, 0.3, 0.1)
_OF_DIGITS: Final = (5.0, 5.0, 1.0, 0.3, 0.1, 0.05)
_OF_MIXTURES: Final = (5.0, 5.0, 0.02, 0.01)


@cache
def rate(literal: str) -> float:
    """Estimate how often a literal occurs in a reply of 600 characters."""
    if len(literal) == 1:
        return _SIGNS.get(literal, _OF_CHINESE[1])
    if literal.isdecimal():
        return _at(_OF_DIGITS, literal)
    if literal.isascii() and literal.strip(" -'").isalpha():
        return _FREQUENT_ENGLISH if literal.strip() in _ENGLISH_PARTS else _at(_OF_ENGLISH, literal)
    if literal in _CHINESE_PARTS:
        return _FREQUENT_CHINESE if literal in _CHINESE else _PART_OF_FREQUENT_CHINESE
    if not literal.isalpha() or any(map(str.isnumeric, literal)):
        return _at(_OF_MIXTURES, literal)
    return _at(_OF_CHINESE, literal)


def _at(rates: tuple[float, ...], literal: str) -> float:
    return rates[min(len(literal), len(rates) - 1)]
