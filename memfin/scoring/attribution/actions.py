"""Whose doing it is: actions that a reply tells of, weighs or refuses, without advising them.

English puts such an action into an infinitive, and what governs it says whether it is advised (you ought
to, the best course is to) or only spoken of (the urge to, a broker persuaded you to, an attempt to).
Chinese says it with a verb of wishing or urging, or a word of the past, in front, or with what the action
is called behind.
"""

from typing import Final

from memfin.scoring.constraints.topics import named, of_another
from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis

_REACH: Final = 100
_DEAL: Final = (
    r"(?:put|invest|buy|move|borrow|raise|shift|switch|take|use|add|load|double|go|increase|lift|purchase|"
    r"allocate|pour|stake|bet|commit|plough|swap|convert|transfer|lever(?:age)?|trade|gear|margin|"
    r"remortgage|chase|build|top|bring)"
)
_INFINITIVE: Final = late(rf"\bto (?:[a-z]+ly )?{_DEAL}\b[^,;:.!?\n]*$")
_ADVISES: Final = late(
    r"(?:\b(?:ought|need|needs|want|have|got|had better|like|prefer|aim|try|start|begin|continue|remember|"
    r"sure|free|ready|afford|inclined|keen|intend|propose|going|used|due|learn|happy|glad|able|trying|"
    r"looking)|\b(?:we|i|committee|team|desk|house) (?:have |has )?(?:decided|agreed|chosen|resolved)|"
    r"\b(?:i|we)(?: would| will| do| can| strongly| really| therefore| also| now| still| only)* (?:advise|"
    r"recommend|suggest|urge|encourage|tell|ask|want|like|love|expect|invite|beg|need|ordered?|"
    r"instruct)(?: (?:you|that you|both of you))?|\b(?:advis\w+|recommend\w*|suggest\w*)(?: (?:you|is|was|"
    r"for you))*|\b(?:is|was|be|'s|remains|are|seems|looks|would be|makes sense|worth it|it)(?: for you)?|"
    r"\b(?:time|way|thing|move|step|job|task|option|choice|moment|chance|opportunity|plan|idea|strategy|"
    r"advice|answer|best|right|wise|sensible|prudent|smart|good|better|fine|ok|okay|safe|reasonable|"
    r"reckless|worthwhile|sense|clever|obvious|logical|point|reason|how|where|when|what|hesitate|afraid|shy|"
    r"wait|enough)(?: (?:now|here|for you|of yours|to do|today))*|\bso|\band|\bor|\bthen|\bnow|\bplease|"
    r"\bjust|\bsimply|\bdo|:|\bnot)$"
)
"""What stands before an infinitive that the reply advises, or that it is not known to turn down."""
_COMPLEMENT_IS: Final = late(
    r"(?:myth|last thing|quickest way to (?:ruin|lose)|ruin|temptation|rage|folly|blunder|no need|no reason|"
    r"no call|slogan|trap|scam)\b[^.;!?\n]{0,60}$"
)
_PUTS_TO_USE: Final = late(
    r"(?:^|[,;:.?!] ?|\b(?:then|and|or|would|can|could|should|might|just|we|i) )(?:use|spend|redirect|tap|"
    r"draw on) (?!of\b)[^,;:.!?\n]{1,40}$"
)
"""The client is to use money to buy with it."""
_WOULD_HAVE: Final = late(
    r"\bwould (?:have|need)$|\b(?:nothing|nobody|no one|neither)\b[^.;!?\n]{0,40}$|\bend up having$"
)
_PREDICATE: Final = late(r"[^,.;:!?\n]{0,60}? (?:is|was|would be|would have been|means|meant) ")
_ALONE: Final = late(r"[ \-*•>\d.)\"“]*")
_BARE: Final = late(
    rf"\b(?:(?:(?<!like to )(?<!love to )(?<!want to )see|seeing|watch|had|has|have had|catch|lets?) (?:you|"
    rf"him|her|them|the [a-z]+)|(?:sooner|rather|better|other) [^.;!?\n]{{0,40}}\bthan(?: see you)?|"
    rf"(?:rather|sooner) than|instead of|(?:the day|were) you|people|they|he|she|the app|one)(?: (?:will|"
    rf"would|can|could|might|may|do|did|simply|just|all))*? {_DEAL}\b[^,;:.!?\n]*$"
)
_CHINESE: Final = late(
    r"(?:与其|(?<!未)曾经?|当年|那会儿|早年|脑子一热|一时冲动|(?<![我们])(?:也|总|老|一直|特别|真|嚷着|吵着|"
    r"[你他她](?:们|自己)?)(?:很|就|都)?想要?|(?<!我)(?<!我也)(?:催|怂恿|鼓动|撺掇|诱使|哄骗?|教唆|"
    r"唆使)(?:[你我他她人其]|群友|粉丝|客户|大家|股民)|令其|(?:[他她](?:们)?|高手|[老小][王李张陈刘]|投资者|"
    r"有人|有些人)[^,。;!?\n]{0,6}(?:打算|决定|准备|确实会|会|都)|瞒着|一提[到起]|[说谈]到|(?:输入|提交|"
    r"代填|填写)的?[^,。;!?\n]{0,8}(?:是|为)?|(?:[你他她])自己在|教(?:人|读者)|(?:红灯|禁区|黑名单|反例|"
    r"反面教材|对照组)[^,。;!?\n]{0,4}:|[嚷着]要|误以为[^,。]{0,4}|(?<!我)(?<!们)(?<!的)主张|"
    r"人们(?:为什么)?(?:会|总))[^,。;!?\n]{0,26}$|(?:找不到|没有?|不许|不准|禁止|"
    r"拒绝)[^,。;!?\n]{0,14}(?:容许|允许|让)?我?(?:替|为|帮)你[^,。;!?\n]{0,24}$"
)
_OWN_URGE: Final = late(r"(?<!让)我(?:们)?(?:还是|再|也|就|要|会|得|一直|强烈|必须)*(?:劝|催|建议|推荐|主张)")
_CALLED: Final = late(
    r"[^,。;!?\n]{0,14}?,?(?:正|就|往往|多半)?是(?:散户|新手|很多人|多数人|不少人|赌徒|韭菜|最?常见|"
    r"典型)[^,。;!?\n]{0,12}"
    r"(?:亏|毛病|通病|错|误区|死法|教训|陷阱)|"
    r"[^,。;!?\n]{0,4},[^,。;!?\n]{0,2}(?:十[次个]有|百次有|多半|往往|大多|常常|十有八九)[^,。;!?\n]{0,8}"
    r"(?:亏|套|站岗|后悔|被埋|割肉)|"
    r"[^,。;!?\n]{0,14}?(?:的人(?=,|应该|最好|多半|往往)|的(?:念头|想法|冲动|行为|后果|下场)|"
    r"(?<![是走迈就])这(?:条路|种事|种做法|个念头|种操作|样的做法))"
)


_URGED_ON: Final = late(
    r"(?<!not )\b(?:go for it|go ahead|so do it|do (?:exactly )?(?:as|what) (?:she|he|they)|do it (?:today|"
    r"now|this|before)|get (?:started|moving|going|the forms)|in your shoes i would|(?:i|"
    r"we) (?:do )?think so|has my full backing)\b|(?<![别不])(?:动手|去办|照做|照着(?:做|他|她)|跟着(?:做|"
    r"他|她)|[学跟]他(?:学|走)|补上|下单)吧|越早越好|就(?:这么|照着|按这个)办|\?\s*(?:要|能|可以|行|"
    r"值得)[,。](?!但|不过|可(?!以)|只是)|按[他她]的方案|该跟[他她]学|"
    r"照着做就行"
)
"""What follows has the client do what was only told of."""
_AHEAD: Final = 180


def urged_on(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the same or the next sentences have the client do what is told of at ``[start, end)``."""
    low, high = analysis.sentence_span(start)
    norm = analysis.norm
    if _URGED_ON.search(norm, max(low, start - _REACH), start) is not None:
        return True
    found = _URGED_ON.search(norm, end, min(len(norm), high + _AHEAD))
    if found is None:
        return False
    return found.start() < high or not of_another(norm[high : found.end()], named(norm[low:high]))


def told_of(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the action around ``[start, end)`` is somebody's, a wish or a story, and no advice."""
    norm = analysis.norm
    low, _ = analysis.sentence_span(start)
    if norm[start] <= "\u2e80" and norm[low] <= "\u2e80":
        return _governed(norm, low, start, end)
    near = max(low, start - _REACH)
    if _CHINESE.search(norm, near, start) is not None and _OWN_URGE.search(norm, near, start) is None:
        return True
    return _CALLED.match(norm, end) is not None


def _governed(norm: str, low: int, start: int, end: int) -> bool:
    """Say whether an English action stands in an infinitive, or behind a person, that makes it no advice."""
    if _BARE.search(norm, max(low, start - _REACH), start) is not None:
        return True
    infinitive = _INFINITIVE.search(norm, max(low, start - _REACH), start)
    if infinitive is None:
        return False
    before = norm[max(low, infinitive.start() - _REACH) : infinitive.start()].rstrip()
    if _ALONE.fullmatch(before):
        return _PREDICATE.match(norm, end) is not None
    if _PUTS_TO_USE.search(before):
        return False
    if _WOULD_HAVE.search(before) or _COMPLEMENT_IS.search(before):
        return True
    return _ADVISES.search(before) is None
