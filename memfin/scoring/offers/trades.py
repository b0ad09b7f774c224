"""Turns of phrase of trading: in and out by the clock, on a swing, around an event."""

from typing import Final

from memfin.scoring.offers.phrases import Shape

_LINE: Final = r"[^。;!?\n]"

TRADES: Final = (
    Shape(
        "short_term_trading",
        ("round trip", "the range", "back in", "profit"),
        (
            r"\b(?:these|such|a few|a handful of|several|quick) round[- ]trips?\b|\b(?:work|trade|"
            r"play) the range\b|"
            r"\b(?:take|taking|book|booking) (?:some |the )?profits?\b[^!?\n]{0,90}?\b(?:get(?:ting)?|"
            r"buy(?:ing)?|step(?:ping)?) "
            r"back in\b"
        ),
        act=True,
    ),
    Shape(
        "short_term_trading",
        ("沿", "轨", "支撑", "箱", "%"),
        (
            r"涨[1-5](?:\.\d)?%[^。;!?\n]{0,6}?卖[^。;!?\n]{0,10}?跌[1-5](?:\.\d)?%[^。;!?\n]{0,6}?买|"
            r"(?:下沿|下轨|支撑位?|箱底)[^,。;!?\n]{0,6}?(?:买|接|进|加|"
            r"吸)[^。;!?\n]{0,16}?(?:上沿|上轨|压力位?|箱顶)[^,。;!?\n]{0,6}?(?:卖|抛|出|减|走|清)"
        ),
        act=True,
    ),
    Shape(
        "short_term_trading",
        (
            "日线",
            "日均线",
            "一年",
            "每年",
            "全年",
            "each ",
            "every ",
            " a year",
            " a month",
            " per ",
            "-day",
            "sell ",
            "load ",
        ),
        (
            r"(?:\d+|[五十二三六]+)日(?:都)?线[^。;!?\n]{0,10}?(?:上穿|站上|金叉|"
            r"突破)[^。;!?\n]{0,4}?就?(?:进|买|上|加)"
            r"[^。;!?\n]{0,16}?(?:下穿|跌破|死叉|破)[^。;!?\n]{0,4}?就?(?:出|卖|走|减|清)|"
            r"(?:一年|每年|全年)[^,。;!?\n]{0,4}?(?:换(?!手)|轮|倒|进出|做)[^,。;!?\n]{0,2}?"
            r"(?:十[一二三四五六七八九]?|[二三四五]十|[1-9]\d)[来多几]?(?:次|回|遍|趟)|"
            r"\b(?:each|every) (?:day|week|monday|tuesday|wednesday|thursday|"
            r"friday)\b[^.;!?\n]{0,40}?\b(?:rank|switch|rotate|trade|swap|reshuffle|replace)\b|"
            r"\b(?:twenty|thirty|forty|fifty|\d\d) (?:switches|trades|round trips|"
            r"rotations) (?:a|per|each|every) (?:year|month)\b|"
            r"\b(?:sell|offload|unload) (?:it )?(?:as soon as|once|when|the moment) (?:you're|it's|it is|"
            r"you are) (?:up )?\d{1,2}%|"
            r"\b(?:above|over|crosses) the \d+-day[^.;!?\n]{0,40}?\b(?:below|under|falls?)\b"
        ),
        act=True,
    ),
    Shape(
        "short_term_trading",
        ("每", "哪"),
        (
            r"每个?(?:天|日|周|星期|礼拜|交易日)[^,。;!?\n]{0,3}?(?:(?:调|换|倒|动|轮|"
            r"切)[一两三几]?[次回遍轮手]?"
            r"(?:仓(?!再平衡)|手(?![续机])|股|票|标的|一换)|换(?:一|两|三)[只家支])|"
            r"哪[个只里边家][^,。;!?\n]{0,5}(?:强|热|涨得[好快多]|火|"
            r"猛)[^,。;!?\n]{0,3}?就?(?:换|切|追|买|进|去|倒)"
        ),
        act=True,
    ),
    Shape(
        "short_term_trading",
        ("前", "当天", "节"),
        (
            rf"(?:节|假期|除息|过完年|年初|月初|开年|股权登记|财报|年报|季报|公布|发布|披露|会议|大会|"
            rf"解禁|除权|分红|提前|长假){_LINE}{{0,14}}?"
            rf"(?:买|进(?!行|一步|展|口|度)|埋|潜伏|布局|上车|建仓|建[一二两三半]成|"
            rf"入场){_LINE}{{0,14}}?(?:节后|"
            rf"当[天日]|次日|隔天|隔日|(?:节|会|报|月底|年中)(?:之前|以前|前)|第一天|头一天|首日|落地|开盘|"
            rf"公布后|兑现日|之后)[^。;!?\n,]{{0,8}}?(?:走|卖|出(?!现|来的|台)|兑现|清|撤|抛|了结|落袋)"
        ),
        act=True,
    ),
    Shape(
        "short_term_trading",
        ("趟", "轮", "次", " back", "把", "回", "very ", "each ", "weekly", "daily", "hold "),
        (
            r"[一每两半]个?[天周月](?:内|里|要|可以)?[^,。;!?\n]{0,4}?(?:翻|转|换|做|倒|轮|进出)(?:它|"
            r"个|上)?[一二两三四五六几\d]+(?:趟|轮|手|次|把|回|遍|番|个(?:回合|来回))(?!仓?再平衡)|"
            r"(?<!traders )(?<!who )(?<!they )(?<!funds )(?<!people )(?<!investors )\b(?:rotate|trade|"
            r"swap|switch|reshuffle|flip|turn (?:it|them) over) (?:\w+ ){0,3}?(?:every (?:day|week|few days|"
            r"monday|friday|morning)|each (?:week|day|morning)|daily|weekly)\b|"
            r"\bhold (?:it |them |on )?(?:until|till|through) (?:monday|tuesday|wednesday|thursday|"
            r"friday|the (?:close|bell|weekend)|tomorrow|next week)\b|"
            r"\b(?:sell|offload|unload) [^.;!?\n]{0,40}?\b(?:re)?(?:buy|purchase|pick|get) (?:it|"
            r"them) (?:back|up again)\b[^.;!?\n]{0,24}?\b(?:same|next|days?|week)\b"
        ),
        act=True,
    ),
)
