"""Turns of phrase of assets that clients forbid: bonds told by their right to shares, tiers of a fund."""

from typing import Final

from memfin.scoring.offers.phrases import Shape

_LINE: Final = r"[^.;!?\n]"

ASSETS: Final = (
    Shape(
        "convertible_bond",
        ("exchange", "turn into", "turned into", "swapped", "converted", "share"),
        (
            r"\b(?:bonds?|notes?|securities|debt|paper)\b(?: (?:that|which|you|with|can|could|may|be|the|a|"
            r"right|to|"
            r"option|are|to|holders?)){1,7} (?:exchange|turn|swap|convert)(?:e?d)?\b"
            r"[^.;!?\n]{0,40}\b(?:shares|stock|equity)\b"
        ),
        act=False,
    ),
    Shape(
        "convertible_bond",
        ("转债", "缴款", "配售"),
        r"(?:配售|配债)(?:权|额度|份额)?[^。;!?\n]{0,24}?(?:缴款|认购|参与|交钱|拿满)|抢权配售",
        act=True,
    ),
    Shape(
        "convertible_bond",
        ("双低", "double-low", "conversion premium", "premium over conversion"),
        (
            r"\bdouble-low\b|\blow[^.;!?\n]{0,12} conversion premiums?\b|"
            r"双低(?:的)?(?:组合|品种|轮动|策略|标的)"
        ),
        act=False,
    ),
    Shape(
        "structured_fund",
        ("tier", "structured", "split", "tranche", "subordinat", "junior"),
        (
            r"\b(?:tiered|structured|split-capital|tranched) (?!(?:plan|approach|portfolio|way|fee|deposit|"
            r"product)\b)"
            r"(?:[a-z0-9&-]+ ){0,4}?funds?\b|"
            r"\b(?:a|b) (?:and b )?(?:shares?|units?|class(?:es)?|tranches?) of (?:the|a|an|that|this) "
            r"(?:structured|tiered|split)|\b(?:senior|junior|subordinated?)(?: and (?:senior|junior|"
            r"subordinated?))?"
            r"[ -](?:tranche|class|unit|share)s?\b(?! (?:debt|bond|loan|notes?))"
        ),
        act=False,
    ),
    Shape(
        "structured_fund",
        ("母基金", "子份额", "下折", "上折", "稳健份额", "稳健类份额", "分级"),
        (
            r"母基金[^。;!?\n]{0,8}?(?:拆|分拆|分成)[^。;!?\n]{0,10}?(?:a|b|子份额|两类)|子份额|"
            r"稳健类?份额(?!持有人)|(?:临近|博|赌|快到|即将)[^,。;!?\n]{0,4}?(?:下折|上折)|"
            r"(?:下折|上折|折算)套利"
        ),
        act=False,
    ),
    Shape(
        "single_small_cap",
        ("small", "tiny", "little", "lesser", "obscure", "micro", "smallest", "unknown"),
        (
            r"\b(?:individual|single|one|two|three|four|five|a few|some|a couple of|a handful of|an?|that|"
            r"this) "
            r"(?:individual |single |very |rather |promising |local )*(?:small(?:er)?|tiny|little-known|"
            r"lesser-known|"
            r"obscure|unknown|thinly traded|micro-cap)(?:,? (?!(?:part|position|stake|amount|slice|share|"
            r"portion|"
            r"weight|business|loan|bank)\b)[a-z-]+){0,2}? (?:compan(?:y|ies)|firms?|makers?|"
            r"biotechs?|miners?|explorers?|developers?|suppliers?|producers?)\b(?!'s)(?! (?:funds?|etfs?|"
            r"index|bonds?))|"
            r"\bthe smallest (?:listed )?(?:company|firm|stock|name|share)\b"
        ),
        act=False,
    ),
    Shape(
        "single_small_cap",
        ("2000", "1000", "微盘", "北证"),
        (
            r"(?:中证[12]000|国证2000|微盘股?指数|北证50)(?:指数)?[^,。;!?\n]{0,6}?(?:里|中|成[分份]股?)"
            r"[^,。;!?\n]{0,4}?(?:挑|选|找)[^,。;!?\n]{0,10}?(?:[一两三几][只家]|个股|股票)|"
            r"\b(?:from|out of) the (?:russell 2000|csi 2000|csi 1000)\b(?! (?:fund|etf|index fund))"
        ),
        act=True,
    ),
    Shape(
        "overseas_market",
        ("-listed", " listed in"),
        (
            r"\b(?:singapore|tokyo|london|new york|us|hong kong|frankfurt|paris|sydney|toronto|zurich|mumbai|"
            r"nasdaq|nyse)-listed\b"
        ),
        act=False,
    ),
    Shape(
        "high_volatility",
        ("集中",),
        r"集中(?:持有|押|买)[^,。;!?\n的]{0,3}?[一两二三1-3][只支](?!债|基金|宽基|红利|etf)",
        act=True,
    ),
    Shape(
        "high_volatility",
        ("swing", "moves of", "up and down", "浮动", "起伏", "波动", "fluctuat", "bumpy"),
        (
            r"(?:账户|净值|市值)[^,。;!?\n]{0,10}?(?:上下)?(?:浮动|波动|"
            r"起伏)[^,。;!?\n]{0,4}?(?:[三四五六七八九]成|"
            r"三四成|[3-9]\d%)|净值[^,。;!?\n]{0,4}?(?:剧烈|大幅)(?:起伏|波动)|"
            r"\b(?:swings?|moves?) of (?:about |around |up to )?(?:[2-9]\d(?:-\d\d)?%|(?:twenty|thirty|"
            r"forty|fifty) "
            r"percent)|\b(?:expect|be|get) (?:a )?bumpy (?:ride)?"
        ),
        act=False,
    ),
    Shape(
        "high_valuation_growth",
        ("growth", "grower", "成长", "增长"),
        (
            r"\b(?:richly|highly|expensively|generously|dearly) (?:valued|"
            r"priced) (?:[a-z-]+ ){0,3}?(?:growth|growers?|"
            r"tech|high-growth)\b(?! (?:of|in|is))|\bhyper-?growth (?:names|stocks|companies|shares)\b|"
            r"\b(?:overpriced|pricey|expensive|overvalued) (?:[a-z-]+ )?(?:growth|growers?)\b"
        ),
        act=False,
    ),
)
