"""English terms inside Chinese sentences are read in Chinese: 加leverage到2倍 as 加杠杆到2倍.

A run of Latin words beside a Chinese character is put into Chinese when every word of it is known. Names,
tickers, abbreviations and English sentences stay as they are.
"""

from collections.abc import Iterator
from typing import Final

from memfin.scoring.patterns.expressions import late

_RUN: Final = late(r"[a-z][a-z' -]*[a-z]")
_LONGEST: Final = 3

_TERMS: Final = {
    # promises and risks
    "guarantee": "保证", "guarantees": "保证", "guaranteed": "保证", "guaranteed to": "保证会",
    "promise": "承诺", "promised": "承诺", "principal": "本金", "capital": "本金",
    "principal guaranteed": "保本", "capital guaranteed": "保本", "principal protected": "保本",
    "capital protected": "保本", "guaranteed return": "保证收益", "guaranteed returns": "保证收益",
    "fixed return": "固定收益", "return": "收益", "returns": "收益", "yield": "收益率", "risk": "风险",
    "risk free": "无风险", "zero risk": "零风险", "no risk": "无风险", "low risk": "低风险",
    "high risk": "高风险", "credit risk": "信用风险", "liquidity risk": "流动性风险",
    "market risk": "市场风险", "interest rate risk": "利率风险", "loss": "亏损", "losses": "亏损",
    "default": "违约", "issuer": "发行人", "rating": "评级", "volatility": "波动", "volatile": "波动大",
    "drawdown": "回撤", "max drawdown": "最大回撤", "maximum drawdown": "最大回撤", "liquidity": "流动性",
    "downside": "下跌空间", "upside": "上涨空间", "zero": "零", "profit": "利润", "profits": "利润",
    "reimburse": "赔付", "refund": "退还", "cover": "承担", "risk profile": "风险等级",
    # dealing
    "buy": "买入", "buy in": "买入", "sell": "卖出", "sell out": "卖出", "sell off": "卖出", "hold": "持有",
    "short": "做空", "long": "做多", "all in": "全仓", "market order": "市价单", "limit order": "限价单",
    "stop loss": "止损", "stop order": "止损单", "order": "委托", "trade": "交易", "trading": "交易",
    "position": "仓位", "entry": "进场", "exit": "离场", "open": "开盘", "close": "收盘",
    "today": "今天", "tonight": "今晚", "tomorrow": "明天", "now": "现在", "right now": "马上",
    "day trade": "日内交易", "day trading": "日内交易", "swing trade": "波段交易", "in and out": "快进快出",
    "swing trading": "波段交易", "round trip": "来回", "account": "账户", "password": "密码",
    "login": "登录密码", "pin": "密码", "otp": "验证码", "passcode": "验证码", "sms code": "验证码",
    "manage": "管理", "team": "团队", "rebalance": "再平衡", "broker": "券商",
    # forecasts
    "must": "必须", "surely": "肯定", "definitely": "一定", "absolutely": "绝对", "certainly": "肯定",
    "no doubt": "毫无疑问", "any doubt": "任何疑问", "for sure": "肯定", "sure": "肯定",
    "bull market": "牛市", "bear market": "熊市", "market": "市场", "rebound": "反弹", "rally": "上涨",
    "bottom": "底部", "break": "突破", "crash": "暴跌", "index": "指数", "target price": "目标价",
    # assets and limits
    "leverage": "杠杆", "leveraged": "杠杆", "margin": "融资", "margin account": "融资账户",
    "margin trading": "融资融券", "exposure": "仓位", "cash": "现金", "bond": "债券", "bonds": "债券",
    "fund": "基金", "funds": "基金", "bond fund": "债券基金", "equity": "权益", "equities": "权益",
    "stock": "股票", "stocks": "股票", "treasury": "国债", "treasuries": "国债", "gold": "黄金",
    "convertible bond": "可转债", "convertible bonds": "可转债", "convertibles": "可转债", "cb": "可转债",
    "high yield": "高收益", "junk bond": "垃圾债", "junk bonds": "垃圾债", "hedge fund": "对冲基金",
    "private equity": "私募股权", "duration": "久期", "long duration": "长久期", "fee": "费用",
    "fees": "费用", "management fee": "管理费", "expense ratio": "费率", "lock up": "封闭期",
    "crypto": "加密货币", "options": "期权", "option": "期权", "futures": "期货", "covered call": "备兑期权",
    "diversify": "分散", "diversification": "分散", "asset": "资产", "assets": "资产",
    "premium": "权利金", "momentum": "动量", "benchmark": "基准", "etf": "etf", "etfs": "etf",
    # inside information
    "insider": "内幕", "inside info": "内幕消息", "insider info": "内幕消息", "internal": "内部",
    "source": "消息源", "confidential": "保密", "release": "发布", "announce": "公告", "public": "公众",
    "merger": "并购", "buyback": "回购", "earnings": "业绩", "deal": "项目", "investment bank": "投行",
    # praise and pressure
    "best": "最好", "the best": "最好", "perfect": "完美", "flawless": "完美无缺", "everyone": "所有人",
    "anyone": "任何人", "all": "所有人", "skip": "跳过", "ignore": "忽略", "strategy": "策略",
    "recommend": "推荐", "top pick": "首选", "industry": "行业", "peers": "同行", "offer": "优惠",
    "any time": "随时", "anytime": "随时", "past performance": "过往业绩", "performance": "业绩",
    "goat": "最强", "underperform": "跑输", "outperform": "跑赢",
}  # fmt: skip
_FIRST_WORDS: Final = frozenset(term.partition(" ")[0] for term in _TERMS)


def terms_in(norm: str) -> Iterator[tuple[int, int, str]]:
    """Yield where an English term stands in a Chinese sentence, and what it is in Chinese."""
    for match in _RUN.finditer(norm):
        run = match.group()
        if run == "etf" or run.partition(" ")[0].partition("-")[0] not in _FIRST_WORDS:
            continue
        start, end = match.span()
        before, after = norm[max(0, start - 2) : start], norm[end : end + 2]
        left, right = _is_chinese(before.rstrip(" ")[-1:]), _is_chinese(after.lstrip(" ")[:1])
        if not (left or right):
            continue
        chinese = _put(run.replace("-", " ").split())
        if chinese is not None:
            # Blanks between Chinese characters carry nothing.
            yield start - (left and before.endswith(" ")), end + (right and after.startswith(" ")), chinese


def _is_chinese(character: str) -> bool:
    return "\u3400" <= character <= "\u9fff"


def _put(words: list[str]) -> str | None:
    """Return the Chinese for all the words, the longest terms first; None when one has none."""
    chinese, index = "", 0
    while index < len(words):
        for length in range(min(_LONGEST, len(words) - index), 0, -1):
            term = _TERMS.get(" ".join(words[index : index + length]))
            if term is not None:
                chinese += term
                index += length
                break
        else:
            return None
    return chinese
