"""Whether a reply says that it keeps to the user's rule: what it tells of is then no offer.

A long explanation of bonds that can be converted has verbs of dealing enough; that it ends with "you want
none, so I left them out" decides. Where the reply goes on to advise it all the same, it keeps to nothing.
What one paragraph leaves out is not what another one is about, unless it is named there or pointed back at.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from memfin.scoring.advice.adoption import ENOUGH
from memfin.scoring.advice.dealing import STRONG
from memfin.scoring.advice.refusal import rejected
from memfin.scoring.attribution.disowning import QUESTION_END
from memfin.scoring.constraints.topics import named, of_another
from memfin.scoring.constraints.vocabulary import load_vocabulary
from memfin.scoring.patterns.expressions import compile_pattern, late
from memfin.scoring.text.language import Analysis
from memfin.scoring.text.paragraphs import begin, together
from memfin.scoring.weights.reading import Hit

_KEPT: Final = compile_pattern(
    r"跳过|略过|划掉|划去|(?:没有?|未|不)(?:有)?(?:列入|放进|放入|纳入|加入|安排|列进)|"
    r"不在[^,。;!?\n]{0,8}(?:范围|之列|清单|考虑)|(?:已|就|先|直接)出局|"
    r"(?:按|照|依|对照|根据)你[^。;!?\n]{0,10}(?:限制|约束|要求|条件|底线)[^。;!?\n]{0,10}(?:不合适|"
    r"不适合|不匹配|"
    r"不符|排除|过不了)|你对[^,。;]{1,6}的态度是不|"
    r"[与和跟]你[^,。;!?\n]{0,6}(?:无关|没有?关系|不相干)|你[^,。;!?\n]{0,6}不(?:想要|"
    r"要|需要|想做|想碰)(?:这|它|的?(?=[,。;]))|"
    r"你[^,。;!?\n]{0,4}(?:两|三|几)?[样者种]?都不(?:想要|要|喜欢|想碰)|"
    r"(?:按|照|依)(?:照)?你(?:自己)?的?(?:规矩|意思|约束|要求|习惯)[^。;!?\n]{0,10}(?:不|"
    r"没|照办|处理|来)|"
    r"你(?:又|也|既然|已|明确|自己|一直|本来|写明|说过|定过|要求|设定)*(?:不|只)(?:想|"
    r"要|愿|投|买|碰|做|配|用|接受|考虑|参与|追|"
    r"持有)[^,。;!?\n]{0,14},(?:所以|这[里部笔一]|那就|我[^,。;]{0,4}[没不用选]|方案|对应|换成|正好|故)|"
    r"(?:方案|组合|计划|清单)[^,。;!?\n]{0,8}(?:不含|没有|不涉及|不包括|照旧|照常)|也?用不着(?:这|它)|"
    r"(?:节奏|定投|安排|一切|配置|仓位|做法)[^,。;!?\n]{0,4}照旧|只(?:动用|用|拿)自有资金|"
    r"(?:一[只家个]|半[只家个])(?:都|也)?(?:没有|没|不)(?:放|选|列|碰|留|收)?(?=[,。;]|$)|"
    r"\b(?:off your list|off limits for you|(?:doesn't|does not|don't|do not) (?:qualify|"
    r"fit your|belong)|none survives|"
    r"neither (?:belongs|fits|of)|under your own|your own (?:rules?|list|exclusions?)|"
    r"(?:fails|breaks) your|you (?:excluded|"
    r"ruled|want none|wanted none|asked for none|chose to (?:stay|avoid))|nothing (?:needs doing|to do)|"
    r"none of (?:it|this|them) (?:is in|touches|applies|belongs)|the plan (?:stays|holds none|"
    r"keeps|has none)|"
    r"not a list to (?:buy|purchase)|so (?:it|they) (?:doesn't|don't|does not|do not) appear|"
    r"(?:i|we) left (?:it|"
    r"them) out)\b"
)
_ALL_THE_SAME: Final = late(
    r"[^。!?\n]{0,12}(?:拿|小仓位?|少量|就)[^。,!?\n]{0,8}(?:玩玩|试试|练手|尝尝|过过瘾|过把瘾)|"
    r"[^。!?\n]{0,24}[。;]?(?:但(?!愿)|不过|可(?![以能靠见])|然而|只是(?!科普|说)|仍(?:然|可|建议)|破(?:个|"
    r"一次|一回)?例|例外)|"
    r"[^。!?\n]{0,44}(?:变通|放一放|通融|大可不必|不必拘泥|没必要死守|别太死板|规矩是死的|那是因为|那是针对|"
    r"不太一样|针对的是)|"
    r"[^.!?\n]{0,60}\b(?:but|however|still|though|nonetheless|even so|exception)\b|"
    r"[^.!?\n]{0,40} so far\b|[^!?\n]{0,110}\b(?:relax (?:that|it|this)|bend (?:that|it|this|the rule)|"
    r"make an exception)\b"
)


class Respect(NamedTuple):
    """Where a reply states that it leaves a thing out.

    ``everywhere`` says that a statement names the thing or points back at what was told; ``refused`` are the
    terms that the reply turns down by their names; the other statements, at ``places``, hold in their
    paragraphs.
    """

    everywhere: bool
    refused: frozenset[str]
    places: tuple[int, ...]

    def holds(self, analysis: Analysis, position: int, term: str) -> bool:
        """Say whether one of the statements holds for a term at the position."""
        return (
            self.everywhere
            or term in self.refused
            or any(together(analysis, place, position) for place in self.places)
        )


def respect(analysis: Analysis, hits: Iterable[Hit], terms: frozenset[str]) -> Respect:
    """Find where the reply states that it leaves out what the hits name, and does not take it back.

    ``terms`` are the ids of what the constraint forbids; the hits are words of theirs.
    """
    norm = analysis.norm
    mentions = list(hits)
    places = []
    for match in _KEPT.finditer(norm):
        if not _ALL_THE_SAME.match(norm, match.end(1)):
            place = match.start(1)
            if of_another(norm[_topic(analysis, place) : match.end(1)], terms):
                continue
            if any(together(analysis, place, hit.start) for hit in mentions):
                return Respect(everywhere=True, refused=frozenset(), places=())
            if of_another(norm[begin(analysis, place) : match.end(1)], terms):
                continue
            if _POINTS_BACK.search(norm, *analysis.sentence_span(place)):
                return Respect(everywhere=True, refused=frozenset(), places=())
            places.append(place)
    refused = {
        hit.term
        for hit in mentions
        if rejected(analysis, hit.start, hit.end)
        and _THEIRS.search(norm, *analysis.sentence_span(hit.start)) is not None
        and not _ALL_THE_SAME.match(norm, hit.end)
        and QUESTION_END.search(norm, *analysis.sentence_span(hit.start)) is None
    }
    narrower = frozenset().union(*map(load_vocabulary().closure, refused))
    return Respect(everywhere=False, refused=narrower, places=tuple(places))


def _topic(analysis: Analysis, place: int) -> int:
    """Return where the sentence begins that names what a statement is about: its own, or one before it."""
    first = begin(analysis, place)
    low, high = analysis.sentence_span(place)
    while low > first and not named(analysis.norm[low:high]):
        low, high = analysis.sentence_span(low - 1)
    return low


_POINTS_BACK: Final = late(
    r"以上|上[面述]|前面|刚才|这[些类几只种款]|该类|也(?:没有?|未|不)|自有资金|[两三四五六几][样种个类者]都|"
    r"\b(?:these|those|them|all of (?:this|that)|the above)\b"
)
_THEIRS: Final = late(r"你|约束|方案|组合|\byour?\b|\bplan\b")


def backed(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether a marker of advice stands in the clause itself; verbs alone may only tell of something."""
    low, high = analysis.clause_span(start, end)
    _, sentence = analysis.sentence_span(start)
    return (
        STRONG.search(analysis.norm, low, high) is not None
        or ENOUGH.search(analysis.norm, end, high) is not None
        or _OWN_ADVICE.search(analysis.norm, end, sentence) is not None
    )


_OWN_ADVICE: Final = late(
    r"我(?:认为|觉得|看)?(?:仍|还是|也)?(?:可以|建议|倾向|推荐|会(?!不)|愿意|主张)|\b(?:(?:i|we)(?:'d|"
    r" would)|"
    r"(?:i|we) (?:suggest|recommend))\b"
)
