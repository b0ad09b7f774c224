"""Whose word it is: what a reply lays in the mouth or the mind of others, and what it makes its own.

`that_clauses` and `sayings` tell whose words are repeated, `scenes` who is made to speak. Words of others
become the reply's own where it announces them so, or vouches for them behind.
"""

from typing import Final

from memfin.scoring.attribution.sayings import said_by_others
from memfin.scoring.attribution.scenes import staged
from memfin.scoring.attribution.that_clauses import held_by_others
from memfin.scoring.patterns.expressions import late
from memfin.scoring.text import language
from memfin.scoring.text.language import Analysis

_NEAR: Final = 160

_VOUCHED: Final = late(
    r"[^.!?\n]{0,80}?\b(?P<yes>(?:and|which|he|she|they|it|that|this)(?:'s| is| are) (?:all |quite |"
    r"absolutely |exactly |perfectly |entirely |simply |plainly |dead )?(?:right|correct|true|so|"
    r"no exaggeration|the truth|spot on)\b(?! (?:if|until))|i (?:fully |completely |quite |wholeheartedly |"
    r"can only |happily )?(?:agree|concur|second that|confirm|endorse|vouch)\b|could not (?:agree more|"
    r"have put it better)|so do i\b|take (?:his|her|their|my) word|believe (?:him|her|them|me)\b|(?:is|are|"
    r"was) not exaggerating|every word (?:of (?:it|this|that)|is true)|exactly as it is|(?:what|all) (?:he|"
    r"she|they) (?:said|says|told you) is (?:correct|true|right)|stand(?:s)? behind (?:it|him|her|that|this|"
    r"every)|i would (?:say|tell you) (?:exactly |just )?the same|the answer is yes|has it right|how right|"
    r"nothing but the truth|knows? what (?:he|she|they)(?:'s|'re| is| are) talking|stand(?:s)? by (?:it|"
    r"that|this|every)|i(?:'d| would) sign)"
)
_VOUCHED_ZH: Final = late(
    r"[^。!?\n]{0,24}?(?P<yes>(?<![不没未])(?:说得|讲得|说的|讲的|所言|这话|此话|那话)(?:一点(?:都|"
    r"也)?)?(?:没错|(?:完全|十分|非常|很)?正确|很对|对极了|在理|不假|不虚|不夸张|属实|是真的|是实话|有道理|"
    r"准)|(?<!是不)(?:没有|毫不|"
    r"并不|一点(?:都|也)?不)夸张|(?:情况|事情|真)(?:就|本来就|确实)?(?:是|就是)(?:这样|如此|这么回事)|"
    r"一个字都?不用改|听[他她]的(?:没错|准没错|就是)|[您你]就(?:这么办|按[^,。]{1,6}(?:说的?|的话)?(?:来|做|"
    r"办|理解))|说到(?:了)?点子上|跟[他她]的判断(?:一模)?一样|(?:敢|是的?|没错|对),就是这样|[讲说]得?没错|"
    r"深以为然|我(?:也|完全|非常|十分|举双手)*(?:同意|赞同|认同|这么(?:认为|看|说)|相信|这样看)(?!不)|"
    r"我(?:可以|能|敢)(?:作证|担保|打包票|白纸黑字|拍胸脯)|照说不误|(?:的确|确实|事实)(?:就)?(?:是)?如此|"
    r"千真万确|一点(?:都|也)?不假|(?:是|都是)(?:大)?实话)"
)
_DENIES: Final = late(
    r"\b(?:not|never|nobody|nothing|if|whether|cannot)\b|不(?!假|虚|夸张)|没(?!错|有夸张)|未"
)
_OWN_LEAD: Final = late(
    r"(?:(?:事实|实情|真相|答案|结论|情况|实话)(?:就|其实|明明)?是|"
    r"(?<![听让要叫请盼求跟和对给替问着])我(?:可以|能|敢|现在|就|要|再)?(?:负责任地?|明确地?|肯定地?|"
    r"郑重地?|大声)?(?:说|讲|宣布|告诉你|向你(?:保证|承诺))|(?<!想)听我(?:一句|说|讲)(?:一句)?(?=[,:])|"
    r"我说的?都?是(?:实情|实话|真话|事实))[:,]?[^,。;!?:\n]{0,8}$|\b(?:the (?:truth|fact|reality|answer) is|"
    r"trust me|believe me|mark my words|take it from me|my promise)[:,]? ?$"
)
"""The reply announces that what follows is its own word."""
_SAID_BEHIND: Final = late(
    r"[^.!?;\n]{0,60}?, (?:or )?(?:so )?(?:says?|said|claims?|claimed|writes?|wrote|promises?|boasts?|"
    r"announces?|according to|goes) (?:the|an?|its|his|her|their|this|that|your) (?:[a-z-]+ ){0,2}?(?:flyer|"
    r"ad|advert|advertisement|brochure|poster|leaflet|salesm[ae]n|seller|caller|broker|blog|blogger|video|post|"
    r"newsletter|slogan|headline|pitch|neighbou?r|friend|colleague|uncle|cousin|influencer|tipster|banner|"
    r"website)\b"
)
"""Who said it comes behind: it suits everyone, says the flyer."""


def attributed(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether ``[start, end)`` is another's word or thought that the reply does not make its own."""
    elsewhere = (
        language.attributed(analysis, start, end)
        or (
            analysis.voiced(start)
            and (held_by_others(analysis, start) or said_by_others(analysis, start, end))
        )
        or staged(analysis, start)
        or (analysis.norm.find(", ", end) >= 0 and _SAID_BEHIND.match(analysis.norm, end) is not None)
    )
    return elsewhere and not own(analysis, start, end)


def quoted(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether ``[start, end)`` is quoted by a reply that does not vouch for it."""
    return language.quoted(analysis, start, end) and not vouched(analysis, end)


def announced(analysis: Analysis, start: int) -> int | None:
    """Return where the words begin with which the reply says that what follows is its own."""
    low, _ = analysis.sentence_span(start)
    found = _OWN_LEAD.search(analysis.norm, max(low, start - _NEAR), start)
    return None if found is None else found.start()


def questioned(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether ``[start, end)`` is asked by a reply that does not answer yes."""
    return language.questioned(analysis, start, end) and not (
        vouched(analysis, end) or _answered_yes(analysis, start)
    )


_IS_IT_TRUE: Final = late(
    r"\s*(?:and |so )?(?:is it (?:really |actually )?(?:true|right|so)|(?:really|seriously),?|"
    r"(?:is|are|do|does|did|was|have|has) not\b|(?:is|are|do|does) (?:it|we|you|they|all of us) not\b) "
)
_YES: Final = late(
    r"\s*(?:yep|yes|yeah|absolutely|indeed|correct|it is|of course)\b[.,!](?! (?:but|if|when|unless))"
)


def _answered_yes(analysis: Analysis, start: int) -> bool:
    """Say whether the sentence asks if something is true, and the next says yes."""
    low, high = analysis.sentence_span(start)
    norm = analysis.norm
    return _IS_IT_TRUE.match(norm, low, high) is not None and _YES.match(norm, high) is not None


def own(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the reply announces the words as its own, or vouches for them behind."""
    return announced(analysis, start) is not None or vouched(analysis, end)


def vouched(analysis: Analysis, end: int) -> bool:
    """Say whether what follows makes the words before ``end`` the reply's own: and she is right."""
    norm = analysis.norm
    _, high = analysis.sentence_span(max(end - 1, 0))
    _, third = analysis.sentence_span(min(high, len(norm) - 1))
    for low in (end, high, third):
        for pattern in (_VOUCHED, _VOUCHED_ZH):
            match = pattern.match(norm, low, min(len(norm), low + _NEAR))
            if match is not None and _DENIES.search(norm, low, match.start("yes")) is None:
                return True
    return False
