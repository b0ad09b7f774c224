"""Falls told of several tiers or portfolios, of which the reply then takes one.

平衡档历史最深跌9%, 进取档17%; 我建议上进取档. Spans count in ``Analysis.norm``.
"""

from typing import Final

from memfin.scoring.advice.advised import advised
from memfin.scoring.advice.refusal import rejected
from memfin.scoring.attribution.disowning import disowned, in_quotes
from memfin.scoring.limits.borne_losses import FORGIVEN
from memfin.scoring.numbers.quantities import Quantity
from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis
from memfin.scoring.weights.reading import Reading

_SIGNS: Final = ("跌", "回撤", "亏", "回落", "drawdown", "fell", "fall", "lost", "drop", "worst")
_OF_LOSS: Final = late(
    r"回撤|跌(?!宕)|亏|回落|缩水|\b(?:drawdowns?|fell|falls?|lost|loss(?:es)?|drop(?:s|ped)?|slid|declines?|"
    r"down|worst)\b"
)
_GAIN: Final = late(
    r"(?:收益|年化|涨|赚|回报|占|配|仓位|return\w*|gain\w*|yield\w*|made|rose)[^,。;|\n%]{0,6}$"
)
_NAMED: Final = late(
    r"(?P<name>(?!(?:而|但|其中|分别|历史|回测|最大|最深|过去|三|两|约|只|会|则|可)+(?:是|为)?[跌亏回:为])"
    r"[^\s,、。;:!?|()\d%-][^\s,、。;:!?|()%]{0,7}?)(?:[ :]|是|为|的|在|则|约|只|才|达到?|曾|会|跌|亏|"
    r"了|损|"
    r"幅|去|回测|回撤|回落|历史|过去|期间|时|最大|最深|最多|最差|最高|上|一度|十年|20\d\d年?|缩水)*$|"
    r"(?:^|[\s,;:])(?:(?:the|our|and|while|with|for|at) )*(?P<english>[a-z]{1,14})"
    r"(?: (?:tier|portfolio|model|option|plan|mix|version|sleeve|fund|one|profile))?"
    r"(?: (?:fell|lost|dropped|slid|was down|went down|drew down|by|at worst|up to|about|around|had a|"
    r"(?:max(?:imum)? )?drawdown|of|is|was)|[:,(-])* ?[-]?$"
)
_NEAR: Final = 44
_TIER: Final = late(r"(?:档|型|组合|方案|策略|账户|模型|款|号)$")
_PART: Final = late(
    r"[^,。;:!?\n\d]{0,8}(?:[1-7]?\d(?:\.\d+)?%|[一二两三四五六七]成)| [^,.;!?\n\d]{0,12}\b[1-7]?\d%"
)
"""Only a part of the money goes into the tier."""
_FEWEST: Final = 2
_SHORT: Final = 2
_TAKES: Final = late(
    r"(?:建议|推荐|首选|就|选|用|上|按|配|投|买|放[在进到]|[切换转调改][到成为入]|定的?(?:是|为|在)|"
    r"意见是|答案是|落在|进|开通|执行|匹配|采用)(?:了)?[^,。;:!?\n\d没别勿不或和、]{0,6}$|"
    r"\b(?:choose|pick|go(?:ing)? (?:with|for|into)|recommend\w*|suggest|take|favou?r|select|use|"
    r"recommendation (?:is|would be)|(?:placed?|put|move[ds]?|switch(?:ed)?|shift(?:ed)?|invest(?:ed)?) "
    r"(?:your |the |all |everything |it |whole |entire |money |account |savings |of )*(?:in|into|to))"
    r" (?:the |our |a )?$"
)
_DONE: Final = late(
    r"(?:已经?|给|替|帮|为)你?[^,。;!?\n没别不]{0,12}(?:定|切|换|转|放|调|选|开|匹配|配)|"
    r"(?:我|就|这次|你的(?:钱|账户|资金))[^,。;!?\n没别不]{0,10}(?:用|上|选|放|进|推荐)|"
    r"\b(?:we|i) (?:have |already )*(?:placed|put|moved|switched|shifted|invested)\b|"
    r"\byour (?:money|account|savings) (?:is|are|goes|will go) |\bmy (?:recommendation|pick|choice)\b"
)
_TURNED: Final = late(
    r"[^,。;!?\n]{0,4}(?:不(?:合适|适合|行|能|建议|在|考虑|符)|超|越|就越|太|除外|先排除|风险太)|"
    r"[^,.;!?\n]{0,12}\b(?:breaks?|exceeds?|too|beyond|is out|not)\b"
)
_IF: Final = late(
    r"如果|若|要是|万一|是否|有人|他们?|别人|朋友|同事|之前|原来|原先|\b(?:if|whether|he|she|they|"
    r"friend|previously|used to)\b"
)


def tiers_taken(reading: Reading) -> tuple[list[Quantity], list[Quantity]]:
    """Return the falls of the tiers that the reply takes, and those of the tiers that it leaves."""
    analysis = reading.analysis
    if not any(map(analysis.norm.__contains__, _SIGNS)):
        return [], []
    told: dict[str, Quantity] = {}
    for share in reading.shares:
        name = _name(reading, share) if share.high <= 1 else None
        if name is not None:
            told.setdefault(name, share)
    if len(told) < _FEWEST:
        return [], []
    last = max(share.end for share in told.values())
    taken = {name for name in told if _taken(analysis, name, last)}
    if not taken:
        return [], []
    return [told[name] for name in told if name in taken], [told[n] for n in told if n not in taken]


def _name(reading: Reading, share: Quantity) -> str | None:
    """Return of what the share is a fall: 进取档最深跌17%, the growth tier 18%."""
    analysis = reading.analysis
    norm = analysis.norm
    if analysis.line_kind(share.start) == "row":
        return None
    low, high = analysis.sentence_span(share.start)
    lead = analysis.lead_in(share.start) or (norm[max(0, low - _NEAR) : low] if low else "")
    if not (_OF_LOSS.search(norm, low, high) or _OF_LOSS.search(lead)):
        return None
    first = max(low, share.start - _NEAR)
    if _GAIN.search(norm, first, share.start):
        return None
    found = _NAMED.search(norm[first : share.start])
    if found is None:
        return None
    name = found["name"] or found["english"]
    name = name.lstrip("*- ")
    clause, _ = analysis.clause_span(share.start, share.end)
    asset = any(clause <= label.start < share.start for label in reading.labels)
    return name if len(name) >= _SHORT and (not asset or _TIER.search(name)) else None


def _taken(analysis: Analysis, name: str, last: int) -> bool:
    norm = analysis.norm
    start = norm.find(name, last)
    while start >= 0:
        end = start + len(name)
        low, high = analysis.sentence_span(start)
        clause, _ = analysis.clause_span(start, end)
        alone = not (norm[end : end + 1].isascii() and norm[end : end + 1].isalnum())
        if (
            alone
            and _TAKES.search(norm, max(low, start - _NEAR), start)
            and _TURNED.match(norm, end) is None
            and _PART.match(norm, end) is None
            and _IF.search(norm, clause, start) is None
            and FORGIVEN.search(norm, end, high) is None
            and not in_quotes(analysis, start, end)
            and not (disowned(analysis, start, end) or rejected(analysis, start, end))
            and (advised(analysis, start, end, asset=True) or _DONE.search(norm, low, end))
        ):
            return True
        start = norm.find(name, end)
    return False
