"""How people put a constraint, told in a few plain forms before it is read.

Clients, forms and advisers say one thing in many ways: ``Exclusions: X``, ``please leave out X``, ``X is
strictly prohibited``, ``X allocation: 0%``, X就算了. What rules something out becomes ``no X`` or 不要X;
labels, courtesies, reasons (I lost money on Y, so no X) and what stays allowed (Y is fine, but no X) go;
shares become percentages.
"""

import re
from collections.abc import Callable
from re import Pattern
from typing import Final

from memfin.scoring.numbers.chinese import chinese_number
from memfin.scoring.patterns.expressions import late

Rewriting = tuple[Pattern[str], str | Callable[[re.Match[str]], str]]

_LABEL: Final = late(
    r"^(?:客户|用户|原则|原则上|要求|备注|约束(?:条件)?|限制|风控指标|投资范围|可投范围|策略要求|投资要求|"
    r"投资目标|投资标的|风险控制|仓位要求|"
    r"底线|红线|偏好|(?:as a |in )?(?:client|principle|policy|rule|note|restriction|constraint|requirement|"
    r"hard (?:rule|"
    r"limit)|entry discipline|investment (?:rule|policy|principle)|geographic restriction|mandate|guideline|"
    r"preference|"
    r"selection criterion|fund selection|style))s?(?: note| request| says| wish)?(?::|,| -) ?"
)
_COURTESY: Final = late(
    r"^(?:could|can|would) (?:you|we) (?:please )?(?:just )?|^i(?:'d| would) (?:like|prefer|want|"
    r"ask) (?:you )?to |"
    r"^(?:i|we) (?:want|need|ask|prefer|expect) (?:you )?to (?=keep|avoid|stay|leave|hold|limit|make)|"
    r",? ?(?<![a-z])(?:please|thanks|thank you|if possible|kindly|strictly|whatsoever|hard limit|"
    r"no exceptions?|"
    r"at all times|at any time)(?![a-z])[.!]?|麻烦你?|谢谢[。!]?|拜托|(?<!申)请(?!问)|最好|尽量|原则上|"
    r"任何情况下|任何时候|无论如何|"
    r"[,]?无例外|[,]?按比例来|[?!.。]+$"
)
_CASH_ACCOUNT: Final = late(
    r"\bcash account only\b|\bfully (?:paid|funded)\b|"
    r"\blong[- ]only\b(?! (?:\w+ )?(?:equit|funds?|etfs?|strateg|product|mandate))|融资融券权限[^,;]{0,4}关"
)
_EXCLUSION: Final = late(
    r"^(?:exclusions?|exclusion list|excluded|prohibited(?: investments?)?|not (?:wanted|allowed|permitted)|"
    r"banned|blacklist|off[- ]limits|avoid|forbidden|no[- ]go(?:es|s)?): ?|^(?:排除项?|禁止(?:项|投资)?|"
    r"黑名单|负面清单|禁投)[:：]"
)
_UNWANTED: Final = (
    r"(?:prohibited|forbidden|excluded|banned|barred|ruled out|off the table|off[- ]limits|"
    r"out of (?:the question|bounds|"
    r"scope)|out|not (?:allowed|permitted|accepted|acceptable|authori[sz]ed|wanted|welcome|for (?:me|us|this "
    r"(?:account|client|portfolio))|in (?:this|my) (?:account|portfolio)|what i(?:'m| am) after|my (?:thing|"
    r"style)|used|an "
    r"option|to be (?:held|used|bought))|unacceptable|no thanks|no thank you|never|none|nil|nothing|"
    r"avoid(?:ed)?|taboo|a no-go|no-go|"
    r"no|a no|skip(?:ped)?|zero|ineligible|declined|to be avoided|not (?:okay|ok))"
)
_DENIALS: Final[tuple[Rewriting, ...]] = (
    (
        late(
            r"^(?:(?:i|we|the client|client|the (?:portfolio|manager|mandate|account))(?:'m| am| is| are|"
            r" will| would| shall|"
            r"'d|'ll)? ?(?:rather |prefer to |sooner |wants? to |like to |always )?|keep me from |"
            r"stop me from |let(?:'s| us) |"
            r"(?:do )?)?(?:stay(?:s|ing)?|steer(?:s|ing)?|keep(?:s|ing)?) (?:well |far |it )?(?:out of|"
            r"away from|clear of|off) "
        ),
        "no ",
    ),
    (
        late(
            r"^(?:i|we|the client|client|the (?:portfolio|manager|mandate|account))(?: will| would| shall|"
            r"'d|'ll)? ?"
            r"(?:generally |always |strictly )?(?:avoids?|declines?|rejects?|refus(?:es?)|dislikes?|shuns?|"
            r"rules? out|excludes?|"
            r"opposes?|bans?|forbids?|detests?|distrusts?|refrains? from) (?:to (?:buy|hold|use|invest in) )?"
        ),
        "no ",
    ),
    (
        late(
            r"^(?:the |my |our )?(?:[a-z-]+ ){1,4}(?:avoids|excludes|rejects|rules out|steers (?:clear of|"
            r"away from)|(?:is|are) to (?:avoid|"
            r"exclude|steer (?:clear of|away from))) "
        ),
        "no ",
    ),
    (
        late(
            r"^(?:(?:i|we|the client|client)(?:'m|'s| am| is| are) )?(?:not (?:interested in|"
            r"comfortable with|a fan of|keen on|"
            r"open to|willing to (?:buy|hold|use|accept|go into))|uncomfortable with|against) "
        ),
        "no ",
    ),
    (
        late(
            r"^(?:i|we|the client|client) (?:cannot|can not|can't|could not|won't|will not|do not|don't|"
            r"does not) (?:really |ever )?"
            r"(?:live with|stand|handle|stomach|bear|tolerate|accept|take|deal in|play|do|engage in|"
            r"want to be part of|take part in|"
            r"participate in|get involved in|go for|go near) "
        ),
        "no ",
    ),
    (
        late(
            r"^if (?:it|they|a [a-z]+|something|the [a-z]+)(?:'s| is| has|"
            r" have)? (?P<thing>[^,]+), (?:please )?(?:skip|leave|forget|"
            r"pass on|avoid|do not touch|don't touch|i won't buy|i will not buy) (?:it|them)$"
        ),
        r"no \g<thing>",
    ),
    (late(r"^[^,;]* (?:instead of|rather than) (?P<thing>.+)$"), r"no \g<thing>"),
    (
        late(r"^[^,;]*\b(?:would|will|'d) (?:sooner|rather) (?!not\b)[^,;]+ than (?P<thing>.+)$"),
        r"no \g<thing>",
    ),
    (late(r"^[^,;]*\b(?:stop|keep|prevent) me from (?P<thing>.+)$"), r"no \g<thing>"),
    (
        late(
            r"^(?P<thing>[^,;:]{3,100}?)(?: is| are)?(?: \w+ly)? (?:prohibited|forbidden|excluded|banned|"
            r"ineligible|declined|not (?:permitted|allowed|wanted|okay|ok)|to be avoided)$"
        ),
        r"no \g<thing>",
    ),
    (
        late(
            r"^the (?:portfolio|manager|mandate|account|client) (?:shall|will|must|may|does|"
            r"do) not (?:invest in|initiate positions in|hold|use|"
            r"engage in|participate in|take part in|contain|include|employ|buy|own) "
        ),
        "no ",
    ),
    (late(r"^(?:leave|filter|cut|take|strike) out (?:all |any |anything (?:involving|with|in) )?"), "no "),
    (
        late(
            r"^(?:let(?:'s| us) )?(?:skip|drop|omit|avoid|exclude|remove|screen out|refrain from|"
            r"rule out) (?:all |any |buying |using )?"
        ),
        "no ",
    ),
    (
        late(
            r"^(?:do not|don't|never) (?:involve me in|offer me|recommend|suggest|sell me|give me|pick me|"
            r"show me) (?:any |anything )?"
        ),
        "no ",
    ),
    (late(r"^under no circumstances (?:any|anything)?"), "no "),
    (
        late(
            r"^(?:leave|keep) (?P<thing>[^,;]{3,60}?) out(?: of (?:it|this|my (?:portfolio|account)|"
            r"the portfolio))?$"
        ),
        r"no \g<thing>",
    ),
    (
        late(
            rf"^(?P<thing>[^,;:]{{3,80}}?)(?: (?:allocation|exposure|weight|holdings?|positions?|balance|"
            rf"share))?(?: (?:is|are|stays?|"
            rf"must be|should be)(?: \w+ly)?(?: also)?|,|:) {_UNWANTED}$"
        ),
        r"no \g<thing>",
    ),
    (
        late(
            r"^(?P<thing>[^,;:]{3,80}?) (?:falls?|lies?|is|are) (?:outside|beyond|not (?:part of|within|"
            r"in)) (?:of )?(?:the|my|our) "
            r"(?:mandate|permitted [a-z]+|scope|universe|remit|guidelines|allowed [a-z]+)$"
        ),
        r"no \g<thing>",
    ),
    (
        late(
            r"^(?P<thing>[^,;:\d]{3,60}?)(?: (?:allocation|exposure|weight|holdings?|positions?|balance|"
            r"share))?(?:,|:| at| of)? ?"
            r"(?:(?<!\d)0 ?%|zero|nil|none|(?<![\d.])0$)$"
        ),
        r"no \g<thing>",
    ),
    (
        late(
            r"^(?:use of|trading in|investing in|investment in|buying|holding) (?P<thing>.+) (?:is|are) "
            + _UNWANTED
            + "$"
        ),
        r"no \g<thing>",
    ),
    (
        late(
            r"^(?P<thing>[^,;。:]{2,24}?)(?:的)?(?:仓位|敞口|比例|占比|配置|权重|余额)?(?:的?上限)?(?:为|是|"
            r":|必须为)?(?<![\d.])(?:0 ?%|零(?![售钱])|0)$"
        ),
        r"不要\g<thing>",
    ),
    (late(r"^(?P<thing>[^,;。:]{2,24}?):否$"), r"不要\g<thing>"),
    (
        late(
            r"^(?P<thing>[^,;。:]{2,24}?)(?:这类|之类)?的?,?(?:就|我就|还是|都|全部|也|一律)?(?:算了(?:吧)?|"
            r"免了(?:吧)?|不要了|绕开|绕道|"
            r"绕着走|躲(?:远点?|开)|敬而远之|不予考虑|不予采用|去掉|删掉|一票否决|绝对不行|不行|不可接受|"
            r"别上|pass)$"
        ),
        r"不要\g<thing>",
    ),
    (late(r"^(?:把|将)(?P<thing>[^,;。:]{2,20}?)(?:都|全)?(?:去掉|删掉|剔除|排除|换掉)$"), r"不要\g<thing>"),
    (late(r"^(?:去掉|删掉|剔除|拿掉)(?:方案里的?|组合里的?)?"), "不要"),
    (late(r"^(?:我)?(?:想|要|得|会)?(?:绕开|避开|躲开|躲着|远离|回避)"), "不要"),
    (late(r"^(?:我)?(?:不太|不怎么|并不|很不|不大)(?:愿意|想|喜欢|能接受|接受)"), "不想"),
)
"""What rules something out, in the form that is read for it."""

_OWN_MONEY: Final = late(
    r"^(?:unlever(?:ed|aged)|ungeared)(?: only)?$|\b(?:keep|stay|kept|remain)[^,;]{0,24}\b(?:unlever(?:ed|"
    r"aged)|ungeared)\b|"
    r"\b(?:only |just )?(?:invest |use )?(?:only )?(?:with )?(?:my|our|the client's) own (?:money|capital|"
    r"funds|cash)(?: only)?\b|"
    r"more (?:to work )?than (?:what(?:'s| is)|there is) (?:actually )?in the account|"
    r"leverage ratio (?:of )?(?:max(?:imum)? |at most )?1x?\b|"
    r"^去杠杆|^仅?以自有资金|总?敞口不?得?超过净资产(?:的)?100%|gross exposure[^;]{0,24}100%|杠杆(?:率|"
    r"倍数)?(?:上限)?(?:为|不超过|≤|<=)?(?:1倍|1(?![.\d])|100%)$"
)
_SO: Final = late(
    r"^[^;]+?, ?(?:and )?(?:so|hence|therefore|thus|which is why)(?:,| )|^[^;]+?,(?:所以|故|于是)"
)
_DETAIL: Final = late(
    r", (?:whether|be it|including|such as|e\.g\.|regardless of|no matter) .*$|,(?:包括|无论|不论|"
    r"不管是?)[^,;]*$"
)
_REASON: Final = late(
    r"^(?:(?:because|since|as) [^,;]+|(?:i|we|my|our|it|they|the client)\b(?! (?:do|will|would|want|need|"
    r"only|just|never|don't|won't|"
    r"prefer|avoid|refuse|can't|cannot))[^,;]+|[^,;]*(?:以前|之前|曾|上次|去年|前年|听说|怕|踩过|亏过|亏了|"
    r"亏惨|家里人|家人|老婆|老公|爱人|朋友|吃掉|"
    r"反对|时差|太大)[^,;]*), ?(?:so|and so|hence|therefore|thus|所以|故|于是|现在|就)(?:,| )?(?=.)"
)
_REASON_BEHIND: Final = late(
    r"[,;]? ?(?:(?<!just )\b(?:because|as|since) (?:of |they |it |their |i |the |prices? ).+|[,;] ?(?:时差|"
    r"波动|风险|怕|我盯).+)$"
)
_ALLOWED: Final = late(
    r"^(?![^,;]*\d)[^,;]*?(?:(?:is|are)(?: all| perfectly)? (?:fine|ok|okay|good|welcome|allowed|"
    r"acceptable)|\bok|(?:都|也|倒)?(?:可以|行|没问题|"
    r"没关系|无所谓|正常买|能买|能接受|好说)|^(?:可以|允许|能|接受)[^,;]{1,12}(?=,(?:但|不过)))(?:的|了|"
    r"啊)?[,;] ?(?:but |yet |just |only )?(?:但是?|不过|就是|只是|唯独|就)?(?!其他|其余|别的|others?\b|"
    r"else\b|nothing else|provided|as long)"
)
_ONLY_FIGURE: Final = late(
    r"(?:不|最多|至多|别|上限|控制|max|at most|no more|not more|up to|within|under|below|less)[^,;]{0,12}\d"
)
"""What speaks of a share of what is allowed: 可转债可以,但不超过10%."""
_ALLOWED_BEHIND: Final = late(
    r"[,;](?:[^,;]*?)(?:另说|另算|除外不算|倒可以|可以考虑|(?:is|are) (?:fine|ok|okay))$"
)
_OF_A_HUNDRED: Final = late(
    r"(?P<share>\d+(?:\.\d+)?)(?: yuan| dollars)? (?:out of|of|in) (?:every |each )(?:100|hundred)(?: yuan|"
    r" dollars)?|"
    r"(?:out )?of (?:every |each )(?:100|hundred)(?: yuan| dollars)?,? (?:leave |keep |"
    r"hold )?(?P<behind>\d+(?:\.\d+)?)(?! ?%)"
)
_TENTHS: Final = late(
    r"\b(one|two|three|four|five|six|seven|eight|nine)[ -](tenth|fifth|quarter|third)s?\b|"
    r"十分之([一二三四五六七八九])"
)
_DECIMAL: Final = late(r"(?<![\d.])0\.(\d{1,2})(?![\d%]| ?%)")
_NUMERAL: Final = r"\d+(?:\.\d+)?|[一二两三四五六七八九十百]+"
_OF_A_SUM: Final = late(
    rf"(?P<whole>{_NUMERAL})万(?:元)?[里中](?P<between>[^,;\d]{{0,16}}?)(?P<part>{_NUMERAL})万(?:元)?|"
    r"(?:out )?of (?:every |each )?(?P<all>\d+)k,? (?P<mid>[^,\d]{0,40}?)(?P<some>\d+)k"
)
_WORKING_DAYS: Final = late(r"(?:business|trading|working) days")
_IN_BRACKETS: Final = late(r"(?<=[a-z]) \(\d+\)")
_WEIGHT_WORD: Final = late(
    r"weight|max|cap|limit|equity|position|drawdown|cash|share|仓位|权重|回撤|占比|比例|上限|配置"
)
_WORDS: Final = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_PARTS: Final = {"tenth": 10, "fifth": 5, "quarter": 4, "third": 3}


_PERMITS: Final = late(
    r"不(?:反对|排斥|介意|怕|在乎|限制?|设限|抗拒)|没有?(?:什么)?(?:限制|问题|意见|不能)|无所谓|都行$|"
    r"\bno (?:limits?|problems?|objections?|issues?|concerns?|cap|preference) (?:on|with|to|about|for|in|"
    r"as)\b|"
    r"\b(?:not|never) (?:opposed|averse|against|afraid)\b|\bnothing against\b|\b(?:not|n't) (?:mind|matter|"
    r"care|bother)\b|"
    r"\b(?:fine|ok|okay) with me$"
)


_LIMITED: Final = late(
    r"\b(?:max(?:imum)?|at most|no more|limit|cap|never|not?|only)\b|n't\b|不|最多|至多|上限|禁|别"
)


def without_told_reason(norm: str) -> str:
    """Return the text without the story it starts with: ``I lost 30% on one stock, so ...``."""
    story = _REASON.match(norm)
    return norm if story is None or _LIMITED.search(story[0]) else norm[story.end() :]


def permits(norm: str) -> bool:
    """Say whether a plain text rules nothing out although it holds a negation: 不反对用杠杆."""
    return _PERMITS.search(norm) is not None and "%" not in norm


def plainly(norm: str) -> str:
    """Return a normalized constraint text in plain form; what is plain already stays as it is."""
    text = _percentages(norm)
    text = _COURTESY.sub("", _LABEL.sub("", text)).strip(" ,;:")
    text = _without_asides(text)
    if _OWN_MONEY.search(text):
        return "不使用杠杆" if not text.isascii() else "no leverage"
    if _CASH_ACCOUNT.search(text):
        return "不做融资融券" if not text.isascii() else "no margin trading"
    if _EXCLUSION.match(text):
        return _EXCLUSION.sub("no " if text.isascii() else "不要", text)
    for pattern, form in _DENIALS:
        plain, count = pattern.subn(form, text, count=1)
        if count:
            return plain
    return text or norm


def _without_asides(text: str) -> str:
    """Return the text without reasons and without what it says is allowed."""
    for pattern in (_SO, _DETAIL, _REASON, _ALLOWED):
        rest = pattern.sub("", text, count=1)
        if rest.strip() and not (pattern is _ALLOWED and _ONLY_FIGURE.match(rest)):
            text = rest
    for pattern in (_REASON_BEHIND, _ALLOWED_BEHIND):
        rest = pattern.sub("", text, count=1)
        if rest.strip():
            text = rest
    return text.strip(" ,;")


def _percentages(text: str) -> str:
    """Return the text with its shares as percentages: 20 out of every 100, six tenths, 0.30."""
    text = _OF_A_SUM.sub(_ratio, text)
    text = _IN_BRACKETS.sub("", text).replace("double-digit", "10%").replace("double digit", "10%")
    text = _WORKING_DAYS.sub("days", text)
    text = _OF_A_HUNDRED.sub(lambda match: f"{match['share'] or match['behind']}%", text)
    text = _TENTHS.sub(_tenths, text)
    if "%" not in text and _WEIGHT_WORD.search(text):
        text = _DECIMAL.sub(lambda match: f"{int(match[1].ljust(2, '0'))}%", text)
    return text


def _ratio(match: re.Match[str]) -> str:
    """Return a sum out of a sum as a percentage: 十万里留两万 is 留20%."""
    whole, part = (
        chinese_number(each) for each in (match["whole"] or match["all"], match["part"] or match["some"])
    )
    if not whole or part is None or part > whole:
        return match[0]
    return f"{match['between'] or match['mid'] or ''}{100 * part / whole:g}%"


def _tenths(match: re.Match[str]) -> str:
    if match[3]:
        return f"{('一二三四五六七八九'.index(match[3]) + 1) * 10}%"
    return f"{100 * (_WORDS.index(match[1]) + 1) / _PARTS[match[2]]:g}%"
