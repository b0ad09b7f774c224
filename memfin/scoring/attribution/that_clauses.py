"""English clauses that begin with ``that``: whose word they are.

What governs the clause says it: the reply's own (I promise that, the truth is that, studies prove that), or
somebody's who says, writes, believes or hopes (he assured you that, the rumour that, I cannot say that).
"""

from typing import Final

from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis

_REACH: Final = 120

_THAT: Final = late(r"\b(?:that|whether)\b(?! (?:correctly|right|rightly|well|already|before)\b)")
_RESUMED: Final = late(
    r"[;!?]|[,:] ?(?:but|yet|and|so|still) (?:i|we|you)\b|\bbut\b|\bi (?:can|will|promise|guarantee)\b"
)
"""Between ``that`` and the words, what ends the clause: the reply speaks again."""
_PRODUCT: Final = late(
    r"\b(?:fund|product|bond|stock|share|note|plan|strateg(?:y|ie)|investment|portfolio|deposit|polic(?:y|"
    r"ie)|contract|security|account|scheme|one|thing|something|anything|everything|etf|trust|solution|"
    r"opportunity|deal|offer|way|asset|certificate|annuity|structure|vehicle|compan(?:y|ie)|firm)s?$"
)
"""Behind these ``that`` begins a relative clause, which describes."""
_SAYING: Final = (
    r"(?:sa(?:y|ys|id|ying)|t(?:ell|ells|old|elling)|inform\w*|assur(?:es?|ed|ing)|claim\w*|promis(?:es?|ed|"
    r"ing)|convinc\w+|believ(?:es?|ed|ing)|think(?:s|ing)?|thought|swears?|swore|sworn|swearing|hear(?:s|d|"
    r"ing)?|read(?:s|ing)?|stat(?:es?|ed|ing)|writ(?:es?|ing|ten)|wrote|suggest(?:s|ed|ing)?|impl(?:y|ies|"
    r"ied|ying)|pretend\w*|insist\w*|argu(?:es?|ed|ing)|brag\w*|boast\w*|murmur\w*|mutter\w*|whisper\w*|"
    r"hint(?:s|ed|ing)?|maintain(?:s|ed|ing)?|announc(?:es?|ed|ing)|advertis(?:es?|ed|ing)|persuad\w+|"
    r"e-?mail(?:s|ed|ing)?|post(?:s|ed|ing)|text(?:s|ed|ing)|assum(?:es?|ed|ing)|suppos\w+|imagin\w+|"
    r"hop(?:es?|ed|ing)|dream\w*|underst(?:and|ood)|reckon\w*|shout\w*|print(?:s|ed|ing)|report(?:s|ed|"
    r"ing)?|repeat\w*|vow\w*|pledg\w+|add(?:s|ed|ing)|fe(?:els?|lt)|expect\w*|conclud\w+|infer\w*|follow|"
    r"alleg(?:es?|ed|ing)|mention\w*|declar(?:es?|ed|ing)|whistl\w+|sing(?:s|ing)?|chant\w*|tout\w*|"
    r"sell(?:s|ing)? (?:you|people|them) on|represent(?:s|ed|ing)?|display(?:s|ed|ing)?|hold(?:s|ing)?|"
    r"accept(?:s|ed|ing)?|trust(?:s|ed|ing)?|gather(?:s|ed)?|agree|write|ask(?:s|ed|ing)?|wonder\w*|doubt\w*)"
)
_NOTION: Final = (
    r"(?:rumou?rs?|myths?|claims?|ideas?|notions?|beliefs?|statements?|promises?|assurances?|impression|"
    r"assumptions?|premise|stor(?:y|ies)|lines?|suggestions?|hopes?|theor(?:y|ies)|proof|evidence|messages?|"
    r"sentence|phrase|words?|case|grounds?|(?:fairy )?tales?|pitch|views?|opinions?|illusions?|delusions?|"
    r"fantas(?:y|ies)|misconceptions?|gossip|assertions?|allegations?|pledges?|reports?|talk|mistake|lie|"
    r"footing|headlines?|expectations?|passage|news|condition|understanding|pretence|pretense|pretext|basis|"
    r"fears?|possibility|chance|slogan|caption|wording|according to which)"
)
_BELIEVING: Final = (
    r"(?:untrue|false|wrong|incorrect|convinced|confident|persuaded|sure|certain|adamant|possible|plausible|"
    r"likely)"
)
_OBJECT: Final = r"(?: (?!that\b|and\b|but\b|so\b)[a-z'&-]+){0,8}"
_GOVERNED: Final = late(rf".*\b(?:(?P<verb>{_SAYING}|{_BELIEVING})|(?P<notion>{_NOTION}))\b{_OBJECT},? ?$")
"""What holds a clause as somebody's word or thought, up to the ``that`` behind it."""
_OWN_SUBJECT: Final = late(
    r"(?:\b(?:i|we|let me|let us|allow me to|happy to|glad to|pleased to|proud to|delighted to|free to|"
    r"for me to|for us to)|\b(?:i|we)'(?:m|d|ll|ve|re))\b(?P<between>(?: (?!(?:you|he|she|they|it|who|"
    r"people|your)\b)[a-z'-]+){0,6}) $"
)
_PAPERS: Final = late(
    r"\b(?:(?:the|this|its) (?:contract|bank|insurer|issuer|agreement|policy|certificate)|our [a-z]+|"
    r"the (?:team|desk|house))"
    r"(?: [a-z]+ly)? $"
)
"""Who says it for the reply, or binds the product: the bank assures you that."""
_OWN_NOTION: Final = late(r"\b(?:my|our)(?: [a-z]+){0,2} $")
_SURE: Final = late(
    r"\b(?:(?:rest|be|feel|rely on it|count on it|bet|can be|may be|should be|are|am) (?:quite |absolutely |"
    r"perfectly |very |rest |100% )*(?:assured|certain|sure|confident|convinced|positive)|(?:it is|it's|"
    r"is it not|is not it) (?:[a-z]+ ){0,2}(?:certain|clear|true|obvious|sure|evident|undeniable|guaranteed|"
    r"a fact|known|proven)|(?:fact|truth|reality|point|beauty|advantage|news|upshot|bottom line|thing|part|"
    r"plus|result|answer|secret|guarantee|promise) (?:is|was|remains)|as (?:settled|read|given|gospel|fact|"
    r"certain|established)|from (?:me|us)(?:,[a-z ]{1,16},)?|(?:do not|never) (?:come and |ever )?(?:say|"
    r"claim|tell me|complain) (?:i|we) (?:did not|never|have not)[a-z ]{1,16}|\bno (?:doubt|question|secret|"
    r"denying)|(?:i|we) (?:want|would like) you to (?:know|understand|believe|remember)|"
    r"you (?:also )?(?:accept|know|understand|agree|acknowledge)|you (?:should|must|ought to|need to|"
    r"have to|will need to|will have to|ll need to|want to|may|can) (?:also |"
    r"always |please |just |simply |clearly |fully |first )*(?:understand|accept|expect|remember|assume|know|"
    r"appreciate|recogni[sz]e|reali[sz]e|note|bear in mind|keep in mind|be aware|trust|believe|reckon)|"
    r"(?:fair|safe|right|"
    r"correct|accurate|true|no exaggeration|enough|needless|it|me|free) to say|so [a-z]+|case (?:for|"
    r"against)(?: [a-z]+){0,2} is|"
    r"such an? [a-z ]{1,30}|in that|now that|my word|i (?:give|gave) you my [a-z ]{1,12}|the (?:simple |"
    r"plain )?fact)$"
)
_SUBJECT_YOU: Final = late(
    r"\b(?:he|she|they|brother\S*|sister|friend|neighbou?r|who|anyone|someone|people)\b"
)
_FACTIVE: Final = late(
    r"\b(?:prov\w+|show\w*|demonstrat\w*|know\w*|knew|reveal\w*|remember|notic\w+|note|reali[sz]\w*|"
    r"discover\w*|ensur\w*|mean(?:s|t|ing)?|see|seen|found|find|confirm\w*|guarantee(?:s|d)?|"
    r"certif\w+)" + _OBJECT + r",? ?$"
)
_UNREAL: Final = late(
    r"\b(?:not|never|cannot|no|nobody|none|nothing|neither|nor|without(?! (?:[a-z]+ ){0,2}(?:hesitation|"
    r"doubt|reservation|question))|hardly|refus\w+|declin\w+|stop|stopped|lying|if|unless|suppose|supposing|"
    r"imagine|whether|were|the day|rather than|instead of|far from|wherever|whoever|before i|anyone|"
    r"who on earth|where)\b"
)
_DOUBLE: Final = late(r"\bif (?:i|we) (?:were|was|did|had) not $")
"""Denied twice: if I were not sure that."""
_ASKED_FOR: Final = late(
    r"\b(?:ask\w*|want\w*|beg\w*|press\w*|expect\w*|urg\w+|need\w*|like|love|demand\w*|order\w*) (?:me|us|"
    r"him|her|anyone|someone) to\b"
)
_BASE_VERB: Final = late(
    r"(?:so |and |then |now |please |just |do |go and |always )*(?:tell|say|remember|note|believe|trust|"
    r"write|announce)\b"
)
_SAYS_PLAINLY: Final = late(
    r"(?:(?<!\bi )(?<!\bwe )(?<! team )(?<! desk )\b(?:reckons|thinks|believes|swears|hopes|imagines|"
    r"fancies)|\b(?:is|was|were|"
    r"are|been) (?:being )?(?:told|promised|assured)|\bas saying|\bwhat (?:people|they|he|she|"
    r"some) (?:hope for|want to hear|believe|say):|"
    r"\b(?:naive|foolish|wrong|rash|dangerous|mistaken|misguided|error|mistake|illusion|folly)"
    r"(?: of [a-z]+| for you)? to (?:think|believe|assume|suppose|conclude|imagine)(?: that)?)"
    r" ?(?!(?:highly|well|about|of|so)\b)[^,;:.!?\n]*$"
)
"""Others say or think so, without ``that``."""
_IF_TRUE: Final = late(
    r"\bif (?:it were|that were|it was) (?:really |actually )?(?:the case|true)\b[^.;!?]*$"
)


def held_by_others(analysis: Analysis, start: int) -> bool:
    """Say whether an English clause that others say, think or rumour holds the position."""
    norm = analysis.norm
    low, _ = analysis.sentence_span(start)
    if norm[start] > "\u2e80" and norm.find(" that ", low, start) < 0:
        return False
    near = max(low, start - _REACH)
    if _IF_TRUE.search(norm, near, start) or _SAYS_PLAINLY.search(norm, near, start):
        return True
    for match in reversed(list(_THAT.finditer(norm, near, start))):
        if _RESUMED.search(norm, match.end(), start):
            return False
        head = norm[max(low, match.start() - _REACH) : match.start()].rstrip()
        if not head.strip(" -*•>"):
            head = analysis.lead_in(start).rstrip(" :\n")
        if _PRODUCT.search(head):
            continue
        verdict = _governor(head)
        if verdict is not None:
            return verdict
    return False


def _governor(head: str) -> bool | None:
    """Say whether what stands before ``that`` keeps the clause from being the reply's word; None: unclear."""
    clause = head[max(head.rfind(mark) for mark in ",:—(") + 1 :]
    if _SURE.search(head) and not _UNREAL.search(clause) and not _SUBJECT_YOU.search(clause):
        return False
    governed = _GOVERNED.match(head)
    if governed is not None:
        if governed["notion"]:
            return _OWN_NOTION.search(head, 0, governed.start("notion")) is None
        before = head[: governed.start("verb")]
        subject = _OWN_SUBJECT.search(before)
        if subject is not None and _ASKED_FOR.search(before) is None:
            reach = before[max(0, subject.start() - 24) :]
            return _UNREAL.search(reach) is not None and _DOUBLE.search(reach) is None
        if _PAPERS.search(before) is None:
            return _BASE_VERB.match(clause.lstrip()) is None
        return _UNREAL.search(before) is not None
    factive = _FACTIVE.search(head) is not None
    return (_UNREAL.search(clause) or _ASKED_FOR.search(head)) is not None if factive else None
