"""Assets and practices that a reply advises by a turn of phrase no list of words can hold.

Counted companies are single stocks, a foreign code is a foreign share, a multiple of an index is
leverage, a sum raised on a policy is a loan, an entry and an exit by the clock are a short-term trade.
"""

import re
from collections.abc import Callable, Container, Iterator
from typing import Final, NamedTuple

from memfin.scoring.advice import advised
from memfin.scoring.language import Analysis
from memfin.scoring.patterns import apart, compile_pattern

Span = tuple[int, int]
"""Half-open offsets into ``Analysis.norm``."""

Listed = Callable[[int, int], bool]
"""Whether a span carries a weight of a proposed allocation."""

_COUNT: Final = r"(?:[一两二三四五六七八九十几\d]+|若干)(?:来|多)?[家只支]"
_CLAUSE: Final = r"[^,:;。!?\n]"
_LINE: Final = r"[^。;!?\n]"


class Shape(NamedTuple):
    """A turn of phrase of a term; ``act`` when it is a way of dealing, ``signs`` without which it is none."""

    term: str
    signs: tuple[str, ...]
    pattern: re.Pattern[str]
    act: bool


_SHAPES: Final = (
    Shape(
        "individual_stocks",
        ("家", "只", "支", "小龙", "巨头", "大行", "桶油"),
        compile_pattern(
            r"[两三四五六七八](?:小龙|巨头|大行|桶油)(?!的?(?:产品|存款|理财))|"
            r"[一二两三四五\d]家[^,。;:的!?\n]{1,8}?(?:各|占|放|给|配)?(?:[一二两三半]成|\d+%|"
            r"[一二两三四五六七八九\d]+个点)|"
            rf"(?:{_COUNT}|[那这有某]家)(?!基金|etf|债){_CLAUSE}{{0,10}}?(?:公司(?![债型])|企业(?!债)|"
            rf"龙头(?!etf|基金|指数)|厂商|白马|蓝筹|"
            rf"银行(?![a-z理])|"
            rf"[一-龥](?<![基混偏债股招个持参控炒])股(?![票份权息东债指本]|基金|型))(?!的?(?:同类|产品|"
            rf"债|理财|基金|指数|存款|etf))"
        ),
        act=False,
    ),
    Shape(
        "individual_stocks",
        (
            "compan",
            "stocks",
            "banks",
            "shares",
            "names",
            "firms",
            "makers",
            "producers",
            "miners",
            "utilities",
            "retailers",
            "insurers",
        ),
        compile_pattern(
            r"\b(?:one|two|three|four|five|six|seven|eight|ten|a (?:handful|couple|few|pair|trio|basket) of|"
            r"half a dozen|a few|my favou?rite) (?:(?!funds?\b|etfs?\b|index\b|of\b)[a-z'-]+ ){0,3}?"
            r"(?:companies|stocks|banks|names|firms|makers|producers|miners|utilities|retailers|"
            r"insurers|chains|lenders|brewers|airlines|carmakers|drugmakers|chipmakers|builders)\b"
            r"(?! (?:funds?|etfs?|index|indices))"
        ),
        act=False,
    ),
    Shape(
        "individual_stocks",
        ("-stock", "portfolio of", "the one ", "the only "),
        compile_pattern(
            r"\b(?:two|three|four|five|six|seven|eight|ten|\d+)-stock\b|"
            r"\bportfolio of (?:[a-z]+ )?(?:stocks|shares|"
            r"banks|companies)\b|\bthe (?:one|only) (?:company|stock|share|name) i(?:'d| would)"
        ),
        act=False,
    ),
    Shape(
        "individual_stocks",
        ("buy ", "pick up", "grab ", "order ", "position in", "weakness", "dips", "on any"),
        compile_pattern(
            r"\b(?:add|buy|accumulate) (?!(?:the|a|to|it|more|some|gold|bonds?|gilts?|index|tracker|"
            r"stocks|shares)\b)[a-z.&-]+"
            r"(?: (?!funds?\b|etfs?\b|index\b|tracker\b)[a-z.&-]+)? on (?:weakness|dips|any (?:dip|"
            r"pullback|weakness))|"
            r"\b(?:buy|pick up|grab|order) (?:\d+ (?:shares? (?:of|in) |units of )?|a (?:starter |small |"
            r"full )?position in |"
            r"a few |some )?[a-z.&-]+(?: [a-z.&-]+)?,? (?:at|under|below|around) \$?\d"
        ),
        act=True,
    ),
    Shape(
        "hk_us_stocks",
        ("港", "hk"),
        compile_pattern(
            r"(?<![\d.])0\d{4}(?![\d.])(?=[^。!?\n]{0,24}(?:港|hk))|(?<!\d)\d{4,5}\.hk\b|\bhk\$ ?\d|"
            r"\d ?港[元币](?:以[内下]|附近|左右|上下)?"
            r"[^,。;!?\n]{0,6}(?:买|接|吸|扫|挂|建|捡|收|抄)"
        ),
        act=False,
    ),
    Shape(
        "leverage",
        ("x ", "倍", "leverag", "double", "triple", "geared", "twice", "three-times", "two-times"),
        compile_pattern(
            r"(?<![\d.])[23](?:\.\d)?x (?!earnings|sales|book|as |more|the |revenue|cash|ebit|free|in )|"
            r"\b(?:double|triple|twice|two-times|three-times)[- ](?:leveraged|long|inverse|exposure|"
            r"the (?:daily|"
            r"move))|\bgeared (?:fund|etf|product)|[两二三23]倍(?:做[多空]|反向|看[多空]|杠杆|多头|纳|"
            r"标普|恒|"
            r"的?[^,。;]{0,4}(?:etf|产品))"
        ),
        act=False,
    ),
    Shape(
        "leverage",
        ("借", "贷", "套", "融", "刷", "周转", "信用卡", "花呗", "白条"),
        compile_pattern(
            r"(?:借(?<![出网民间拆租]借)|贷(?<![房车还商公借信按]贷)|"
            r"套(?<![一两二三四五六七八九十几这那每整半全\d]套)|融(?<!金融)|刷)(?:它|个|出来?|来|一笔|"
            r"上|点|到)?"
            r"[一二两三四五六七八九十百\d]+(?:多|来|几)?[万千](?!亿)|(?:做|办|走)(?:个|一笔|一次)?二押|"
            r"(?:贷|借|融|套)[^。;!?\n]{0,20}?[拿用](?:这|那)[笔些]?(?:钱|款|资金)[^,。;]{0,4}?(?:买|"
            r"投|配|补|加|进)|"
            r"(?:信用卡|花呗|白条)[^,。;!?\n]{0,6}?(?:周转|垫|顶|凑|过渡|刷出|套出)|"
            r"(?:找|跟|向|问|管)(?![您你我])[^,。;!?\n]{1,5}?先?(?:拿|要|支|挪|凑|"
            r"匀)[一二两三四五六七八九十百\d]+万|"
            r"(?:向|跟|找|问|管)[^,。;!?\n]{1,6}?(?:周转|拆借|挪借|借(?=[一两点些个\d二三四五六七八九十]))|"
            r"(?:保单|信用卡|房子|房产|存单|黄金)(?:质押|抵押|贷款|分期|借款)(?!利率|合同|余额|年限|人)"
        ),
        act=True,
    ),
    Shape(
        "leverage",
        ("loan", "overdraft", "mortgage", "borrow", "credit"),
        compile_pattern(
            r"\b(?:take|draw|get|arrange|use|tap|raise|apply for)(?: out| down| up)? (?:a|an|your|the|some) "
            r"(?:[a-z-]+ ){0,3}?(?:loan|overdraft|credit line|mortgage|advance)\b|"
            r"(?<!that )(?<!who )(?<!which )(?<!firms )(?<!companies )\bborrow (?:\$?\d|some|against|a |"
            r"from|at |the )"
        ),
        act=False,
    ),
    Shape(
        "derivatives",
        ("contract", "futures", " put", " call", "多", "空", "合约", "多单", "空单", "认购", "认沽"),
        compile_pattern(
            r"\b(?:go )?(?:long|short|buy|sell) (?:(?:\d+|one|two|three|four|five|a|"
            r"the) )?(?:[a-z&-]+ ){0,3}?"
            r"(?:contracts?|futures)\b|\b(?:sell|write|buy) (?:(?:one|an?|two|three|\d+|weekly|monthly|"
            r"some) )?(?:[a-z-]+ )?(?:puts?|calls?)\b(?! (?:it|off|your|the|in|to|on hold))|"
            r"做?[多空][一两三几\d]+[手张]|买(?:入|进|点|些|张|几张)?(?:虚值|实值|平值|近月|"
            r"远月)?认[购沽](?:期权|合约)?(?=[,。;!?\n]|$)|[开挂下接](?:[一两三几\d]+[手张])?[多空]单|"
            r"[一两三几\d]+[手张](?:[^,。;!?\n]{0,6})?(?:合约|多单|空单)"
        ),
        act=True,
    ),
    Shape(
        "active_funds",
        ("manager", "picker", " by ", "经理", "老将", "名将", "选股"),
        compile_pattern(
            r"\b(?:stock[- ]pickers?|whose manager|star manager|active manager|"
            r"the (?:[a-z]+ )?manager (?:behind|of|at|"
            r"who))\b|"
            r"\bfund (?:run|managed|steered|led) by [a-z]+ [a-z]+|"
            r"(?:经理|老将|名将|老手|高手)[^,。;!?\n]{0,4}(?:掌舵|操刀|执掌|主理|亲自|打理|坐镇|领衔|"
            r"管着?的)|"
            r"选股(?:功力|能力|眼光|水平)[^,。;]{0,6}(?:深|强|好|高|毒|一流|过硬|出色)"
        ),
        act=False,
    ),
    Shape(
        "short_term_trading",
        ("前", "当天", "节"),
        compile_pattern(
            rf"(?:节|假期|除息|过完年|年初|月初|开年|股权登记|财报|年报|季报|公布|发布|披露|会议|大会|"
            rf"解禁|除权|分红|提前|"
            rf"长假){_LINE}{{0,14}}?"
            rf"(?:买|进(?!行|一步|展|口|度)|埋|潜伏|布局|上车|建仓|入场){_LINE}{{0,14}}?(?:节后|"
            rf"当[天日]|次日|隔天|隔日|(?:节|会|报|月底|年中)(?:之前|以前|前)|第一天|头一天|首日|落地|开盘|"
            rf"公布后|兑现日|之后)[^。;!?\n,]{{0,8}}?(?:走|卖|出(?!现|来的|台)|兑现|清|撤|抛|了结|落袋)"
        ),
        act=True,
    ),
    Shape(
        "short_term_trading",
        ("趟", "轮", "次", "buy it back", "buy them back", "把", "回", "every ", "each ", "weekly", "daily"),
        compile_pattern(
            r"[一每两半]个?[天周月](?:内|里|要|可以)?[^,。;!?\n]{0,4}?(?:翻|转|换|做|倒|轮|进出)(?:它|"
            r"个|上)?[一二两三四五六几\d]+"
            r"(?:趟|轮|手|次|把|回|遍|番)(?!仓?再平衡)|"
            r"(?<!traders )(?<!who )(?<!they )(?<!funds )(?<!people )(?<!investors )\b(?:rotate|trade|"
            r"swap|flip|turn (?:it|them) over) (?:\w+ ){0,3}?(?:every (?:day|week|few days|"
            r"monday|friday|morning)|each (?:week|day|morning)|daily|weekly)\b|"
            r"\bsell [^.;!?\n]{0,40}?\bbuy (?:it|them) back\b[^.;!?\n]{0,24}?\b(?:same|next|days?|week)\b"
        ),
        act=True,
    ),
    Shape(
        "short_term_trading",
        (
            "buy ",
            "grab",
            "get in",
            "go in",
            "enter ",
            "go long",
            "pick ",
            "in at",
            "in on",
            "in by",
            "load up",
            "step in",
            "short ",
            "fade ",
        ),
        compile_pattern(
            r"\b(?:buy|grab|get in|go in|enter|go long|short|fade|pick (?:it|them|this|some) up|in at|"
            r"in on|in by|"
            r"load up|step in)\b"
            r"[^.!?\n]{0,60}?\b(?:be (?:out|flat|gone)|out|flat|sell|close|exit|hand it back|get rid|"
            r"cover|dump|"
            r"unload|be done)\b[^.!?\n]{0,24}?\b(?:noon|lunch(?:time)?|midday|afternoon|(?:the )?(?:close|"
            r"bell)|evening|"
            r"dinner|(?:boxing|new year's|christmas|results?|earnings) (?:day|eve)?|monday|tuesday|"
            r"wednesday|thursday|"
            r"friday|next (?:day|morning|week)|the day after|(?:within|inside|in) (?:the |a |one |two |"
            r"three )?(?:fortnight|weeks?|days?))\b"
        ),
        act=True,
    ),
    Shape(
        "short_term_trading",
        ("点", "午", "盘", "周", "开"),
        compile_pattern(
            r"(?:[上下]午|早上|早盘|午后|尾盘|开盘|低开|"
            r"[一二三四五六七八九十\d]+点[半\d一二三四五十]*分?|周[一二三四五])[^。;!?\n]{0,8}?"
            r"(?:买|进(?!行|一步|展)|吸|接|抄|杀入|吃)[^。;!?\n]{0,16}?"
            r"(?:[上下]午|午后|中午|尾盘|收盘|[一二三四五六七八九十\d]+点[半\d一二三四五十]*分?|"
            r"周[一二三四五]|拉回|反弹|冲高|冲上去)"
            r"[^。;!?\n,]{0,6}?(?:卖|出(?!现)|走|抛|倒|清|丢|甩|了结|落袋|平)"
        ),
        act=True,
    ),
)


def turns_of_phrase(analysis: Analysis, names: Container[str], listed: Listed) -> Iterator[tuple[str, Span]]:
    """Yield (rule, span) of what is advised and falls under one of the terms by the way it is put."""
    norm = analysis.norm
    for shape in _SHAPES:
        if shape.term not in names or not any(sign in norm for sign in shape.signs):
            continue
        for match in apart(shape.pattern, norm):
            span = match.span(1)
            if advised(analysis, *span, act=shape.act, asset=not shape.act) or listed(*span):
                yield f"advises_{shape.term}", span
    if "chasing_rallies" in names:
        yield from (("advises_chasing_rallies", span) for span in _late_entries(analysis))


_RALLY: Final = re.compile(
    r"[一二两三四五六七八九\d]+连(?:板|阳)|连板|封板|一字板|一字开|涨停|翻番|新高|record high|all-time high|"
    r"doubled|tripled|broke out|new high|(?:green|up|winning) days|in a row|straight (?:gains|days|weeks)"
)
_ENTRY: Final = re.compile(
    r"追进|跟进|就进(?=[,。;])|排队|挂涨停|打板|扫板|上车|冲进|杀进|买进|买入|进去|加仓|先上|"
    r"\b(?:climb (?:on|aboard)|get (?:on|in)|hop on|jump (?:on|in)|on board|pile in|buy|join|own it|"
    r"load up)\b"
)
_LATER: Final = re.compile(
    r"回调|回落|逢低|低位|再平衡|止盈|减|降|卖|赎|定投|等|冷静|\b(?:pullback|dip|trim|sell|wait|let it|"
    r"until|gradually)\b"
)


def _late_entries(analysis: Analysis) -> Iterator[Span]:
    """Yield entries right behind a streak of rises, in its sentence or behind the next semicolon."""
    norm = analysis.norm
    for rally in _RALLY.finditer(norm):
        low, high = analysis.sentence_span(rally.start())
        if norm[high - 1 : high] == ";":
            _, high = analysis.sentence_span(high)
        if _LATER.search(norm, low, high):
            continue
        for entry in _ENTRY.finditer(norm, rally.start(), high):
            if advised(analysis, *entry.span(), act=True):
                yield entry.span()
