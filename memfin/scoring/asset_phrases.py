"""Turns of phrase of assets that clients forbid: bonds told by their right to shares, tiers of a fund."""

from typing import Final

from memfin.scoring.phrases import Shape

_LINE: Final = r"[^.;!?\n]"

ASSETS: Final = (
    Shape(
        "convertible_bond",
        ("exchange", "turn into", "turned into", "swapped", "converted", "share"),
        (
            r"\b(?:bonds?|notes?|securities|debt|paper)\b(?: (?:that|which|you|with|can|could|may|be|the|a|right|"
            r"option|are|to|holders?)){1,7} (?:exchange|turn|swap|convert)(?:e?d)?\b"
            r"[^.;!?\n]{0,24}\b(?:shares|stock|equity)\b"
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
            r"\b(?:tiered|structured|split-capital|tranched) (?!(?:plan|approach|portfolio|way|fee|deposit|product)\b)"
            r"(?:[a-z0-9&-]+ ){0,4}?funds?\b|"
            r"\b(?:a|b) (?:and b )?(?:shares?|units?|class(?:es)?|tranches?) of (?:the|a|an|that|this) "
            r"(?:structured|tiered|split)|\b(?:senior|junior|subordinated?)(?: and (?:senior|junior|subordinated?))?"
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
            r"\b(?:individual|single|one|two|three|four|five|a few|some|a couple of|a handful of|an?|that|this) "
            r"(?:individual |single |very |rather |promising |local )*(?:small(?:er)?|tiny|little-known|lesser-known|"
            r"obscure|unknown|thinly traded|micro-cap)(?:,? (?!(?:part|position|stake|amount|slice|share|portion|"
            r"weight|business|loan|bank)\b)[a-z-]+){0,2}? (?:compan(?:y|ies)|firms?|makers?|"
            r"biotechs?|miners?|explorers?|developers?|suppliers?|producers?)\b(?!'s)(?! (?:funds?|etfs?|index|bonds?))|"
            r"\bthe smallest (?:listed )?(?:company|firm|stock|name|share)\b"
        ),
        act=False,
    ),
    Shape(
        "high_volatility",
        ("swing", "moves of", "up and down", "浮动", "起伏", "震荡", "波动", "fluctuat", "bumpy"),
        (
            r"(?:账户|净值|市值)[^,。;!?\n]{0,10}?(?:上下)?(?:浮动|波动|起伏)[^,。;!?\n]{0,4}?(?:[三四五六七八九]成|"
            r"三四成|[3-9]\d%)|净值[^,。;!?\n]{0,4}?(?:剧烈|大幅)(?:起伏|波动)|"
            r"\b(?:swings?|moves?) of (?:about |around |up to )?(?:[2-9]\d(?:-\d\d)?%|(?:twenty|thirty|forty|fifty) "
            r"percent)|\b(?:expect|be|get) (?:a )?bumpy (?:ride)?"
        ),
        act=False,
    ),
    Shape(
        "high_valuation_growth",
        ("growth", "grower", "成长", "增长"),
        (
            r"\b(?:richly|highly|expensively|generously|dearly) (?:valued|priced) (?:[a-z-]+ ){0,3}?(?:growth|growers?|"
            r"tech|high-growth)\b(?! (?:of|in|is))|\bhyper-?growth (?:names|stocks|companies|shares)\b|"
            r"\b(?:overpriced|pricey|expensive|overvalued) (?:[a-z-]+ )?(?:growth|growers?)\b"
        ),
        act=False,
    ),
)
