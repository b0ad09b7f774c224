"""Whether a reply pitches a product by its name: English names are known by their capitals alone."""

from typing import Final
from unicodedata import normalize

from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis

_NEAR: Final = 140
_PART: Final = r"(?:[A-Z][a-z]+(?:-[A-Z][a-z]+)?|[A-Z]{1,4}|[0-9]{2,4})"
_KIND: Final = (
    r"(?:Fund|Trust|Growth|Income|Leaders?|Opportunit(?:y|ies)|Plus|Select|Bond|Bonds|Winners|Global|Tech|"
    r"Technology|Energy|Portfolio|Plan|Note|Notes|ETF|Multi-Asset|Premier|Premium|Apex|Horizons?|Companies|"
    r"Dividends?|Stars?|Value|Balanced|Retirement|Healthcare|Health|Robotics|Infrastructure|Credit|Yield|"
    r"Return|Returns|Alpha|Capital|Advantage|Equity|Equities|Markets|Strategy|Core|Flex|Prime|Innovation|"
    r"Innovators|Disruptors?|Sustainable|Saver|Dynamic|Momentum|Pioneers?|Titans?|Champions?|Frontier|Asia|"
    r"Biotech|Digital|Future|Gilt|Convertible|Annuity|Property|Series|Edge|Elite|Ultra|Max|Peak|Summit|"
    r"King|Kings|Infinity|Total|Semiconductors?|Secure|Smart|Quant|Macro|Absolute|Solar|Climate|Green|Cloud|"
    r"Cyber|Robot|Emerging|Focus|"
    r"Builder|Accelerator|Compounder|Builder|Navigator|Explorer|Nordic|Europe|America|Japan|Medical|Water)"
)
_NAME: Final = late(
    rf"\b(?!(?:The|Our|My|This|That|Your|Their|Buy|Take|Get|Just|Put|Add|Pick|If|For|In|On|At|A|An|I|Shall|And|"
    rf"But|So|It|S|MSCI|FTSE|US|UK|EU|Bank|Federal|Treasury|Premium|Vanguard) )"
    rf"{_PART} (?:(?:{_PART}|&|of|the) ){{0,3}}?{_KIND}\b(?! (?:[Ii]ndex|[Tt]racker)\b)"
)
_SELLS: Final = late(
    r"\b(?:up|returned|gained|made|earned|pays?|paying|yields?|yielding|rose|climbed|grew) (?:about |over |"
    r"by |nearly |almost |more than |a (?:handsome|juicy|fat|steady|tidy) )?[0-9.]+ ?%|"
    r"[0-9.]+ ?% (?:last year|a year|since|in (?:one|two|three|four|five|a)|over (?:one|two|three|four|"
    r"five))|"
    r"\b(?:five|four|5|4)[- ]stars?\b|"
    r"\b(?:doubled|tripled|best-?seller|bestselling|number one|no\. ?1|top of|top quartile|first quartile|"
    r"first in (?:its|the)|everyone|everybody|raves?|hot ?cakes|no question|flying|trust me|be done with it|"
    r"client favou?rite|cannot go wrong|marvellous|fantastic|brilliant|superb|cracking|gem|winner|"
    r"(?:all|most of) (?:my|our) clients|shall i|tell me how much|send you the|send the form|sign "
    r"(?:you )?up|apply (?:by|before|now|today)|fee is waived|before (?:friday|monday|midnight|noon|"
    r"it is gone|it closes)|"
    r"pouring in|on the spot|while the [a-z]+ lasts|full of orders|sign here|hottest|say the word|"
    r"only sensible|i can open it|one (?:phone )?call and|(?:closes|closing) its (?:books|doors)|"
    r"[0-9.]+ ?% this year|while it is (?:still )?cheap|happy (?:clients|customers)|odd one out|"
    r"before (?:everybody|everyone|anyone)|of the month|ends (?:tonight|today|soon|tomorrow)|"
    r"say yes|waiting list|selling out|so should you|if you answer|paperwork|(?:places|slots|units) left|"
    r"joy to own|everybody wants|everyone wants|genius|glad you did|(?:is|stays) open until|"
    r"get your money in|(?:customers|clients) own|joining them|filled in the form|you will love|thank me)\b"
)
_WEIGHS: Final = late(
    r"\b(?:between|the (?:first|second|former|latter|cheaper)|either|versus|pays less|instead|fell|falls?|"
    r"lost|dropped|compare|check|charges?|expense ratio|costs|example|exercise|research|suits?|decide|"
    r"your (?:own )?decision|not a recommendation|no recommendation|for reference|tracker|index fund|"
    r"drawdown|factsheet|prospectus|questionnaire)\b"
)


def no_pitch(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether nobody sells a named product around ``[start, end)``, or the reply weighs it as well."""
    norm, text = analysis.norm, analysis.text
    if _WEIGHS.search(norm) is not None or _SELLS.search(norm) is None:
        return True
    low, high = analysis.original_span(start, end)
    return _NAME.search(normalize("NFKC", text[max(0, low - _NEAR) : high + _NEAR])) is None
