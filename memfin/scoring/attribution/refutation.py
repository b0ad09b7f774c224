"""What a reply denies, exposes or warns of, it does not say itself."""

from typing import Final

from memfin.scoring.attribution.voices import announced
from memfin.scoring.patterns.expressions import compile_pattern, late
from memfin.scoring.text.language import Analysis

_REFUTATION: Final = compile_pattern(
    r"骗局|骗子|诈骗|骗人|欺诈|陷阱|忽悠|套路|虚假|不实|误导|谎言|假的|不合规|违规|违法|非法|不合法|违反|"
    r"被?判(?:了)?刑|获刑|被抓|落网|裁判文书|过拟合|幸存者偏差|(?:是|个|种|的)误会|(?:销售|营销|逼单|催单|推销|诈骗|骗子|典型的?|常见的?)话术|多半(?:是|靠)(?:拟合|假|骗|吹|噱头|幌子|运气|编|巧合)|"
    r"禁止|严禁|警惕|警讯|当心|小心|提防|警觉|防范|留个心眼|"
    r"举报|报警|属于?内幕交易|涉嫌|触犯|坐牢|拒绝|挂断|别理|不要理|编的|别有用心|另有所图|十有八九|引流|"
    r"别(?:轻?信|听信|当真|被(?![^,。;!?\n]{0,12}[吓唬])|上当|理会|轻易|盲目|将|把)|不要相信|"
    r"别当真|不可信|不能信|勿信|不靠谱|站不住脚|经不起推敲|信不得|别上当|上当|"
    r"[这此]件?(?:事|忙|活)[^,。;]{0,4}[做帮办]不[了到]|不成立|不现实|不属实|误区|错误|红旗|不可取|要不得|"
    r"靠不住|"
    r"这[种类样]?的?话[^。;!?\n]{0,8}(?:不(?:会|敢|能)?(?:说|讲)|没法说|说不出|听不[到着])|没影儿?的事|"
    r"子虚乌有|无稽之谈|天方夜谭|"
    r"痴人说梦|(?:毫无|没有?(?:任何)?)(?:依据|根据)|臆想|伪造|得不到的|(?:认定为?|归于|当然|自始|均属?|是|"
    r"属于?)无效|禁用语|销售禁语|胡说|胡扯|瞎扯|瞎编|鬼话|误解|"
    r"骗你(?!不)|没[有这那]+回事|不存在(?!(?:什么|任何)?(?:[取卖赎退拿还]不|违约|被?套|排队|限赎))[^,。;!?\n]{0,24}(?:回事|的事)|"
    r"不能这么(?:讲|说)|(?:退|拉黑|挂断)群|"
    r"退群|"
    r"(?<![没未不])(?:有|存在|带来)(?:很大|较大)?的?法律风险|(?<!不)构成(?:了)?(?:内幕交易|操纵|犯罪)|"
    r"没有(?:哪|任何一)家[^,。;]{0,8}(?:会|能|敢)(?:替|给|为|赔|保证|承诺|兜)|"
    r"连[^,。;]{1,8}都(?:不敢|没法)(?:打包票|保证|承诺|担保)(?![^。!?\n]{0,20}我们?(?:敢|能|可以))|"
    r"属于(?:典型的?|变相的?)?(?:承诺收益|夸大|诱导)|"
    r"(?:规[则定]|法律|监管|条例|办法|法规)[^,。;]{0,6}不(?:被)?允许|"
    r"(?:谁|哪个|有人)[跟和对向]你(?:说|讲|拍胸脯)|(?:省得|免得|别)(?:你|再)?(?:误)?以为|"
    r"\bif (?:any(?:one|body)|some(?:one|body)) (?:says|tells|promises|claims|offers|guarantees)\b|"
    r"\b(?:nobody|no one) can (?:ever )?(?:guarantee|promise|assure)\b|"
    r"\b(?:is|are|be|counts? as|amounts? to) (?:an? (?:criminal |serious |regulatory )?(?:offen[cs]e|crime)|"
    r"insider (?:dealing|trading)|not (?:legal|lawful))\b"
    r"(?! (?:not|to miss|to pass))|"
    r"\bno (?:genuine|honest|legitimate|serious|reputable|regulated|licensed) "
    r"[^.;!?\n]{0,60}\b(?:can|could|may|would|will) "
    r"(?:ever )?(?:guarantee|promise|offer|pledge|assure|ask|claim)|"
    r"\bwhat (?:he|she|they|you)(?:.ve| have)? (?:told you|heard) "
    r"(?:is|would be|counts as) (?:\w+ )?(?:inside|insider|non-?public|material)\b"
    r"(?![^.;!?\n]{0,24}\b(?:so|buy|sell|act|move)\b)|"
    r"\b(?:scams?|fraud\w*|red flags?|beware|illegal|mislead\w*|false|myth|untrue|no such thing|"
    r"does not exist|doesn't exist|prohibited|forbidden|be wary|wary of|warning sign|report it|lying|liars?|"
    r"flatter(?:s|ing)|criminal offen[cs]e|(?:is|are|would be|counts? as|amounts? to) (?:classed as )?"
    r"(?:inside|insider|price-sensitive) (?:information|dealing|trading)"
    r"(?![^.;!?]{0,16}\b(?:so|buy|sell|act|move)\b)|"
    r"lies|refuse|decline|hang up|misconceptions?|break(?:s|ing) the (?:rules?|law)|against the rules?|"
    r"against the law|not allowed|(?:is|are) only (?:worth|as (?:good|strong|sound) as)|"
    r"unlawful|unlicensed|banned)\b"
)
_NO_REFUTATION: Final = late(r"(?:不是|不会|从不|绝不|并非|绝非|没有|并不)(?:什么|任何|一[个种]|在)?$")
_CONTRAST: Final = late(
    r"但|不过|然而|可是|只有|唯独|唯有|真正的|我们|我家|我这|交给我|\b(?:but|only|ours?|we|except)\b"
)
_WARNING_LEAD: Final = late(
    r"挂(?:断|电话|掉)|报警|拉黑|(?:从我|我们?这)[^,。]{0,4}听不到|\b(?:hang up|will not hear (?:it |"
    r"this )?from|do not tell)\b|"
    r"话术|原话|疑点(?!都|已|全)|可疑|破绽|不可以(?!错过|不)|不允许|骗|误区|谣言|套路|陷阱|真相|"
    r"辟谣|警惕|警示|(?<![%你的])红线|违规|禁止|不要|不能|不得|常见说法|错误|反面|"
    r"识别|防范|\b(?:myths?|scams?|red flags?|avoid|never|warning|"
    r"(?:notice|spot|recogni[sz]e) (?:it|one|them|such)|misconceptions?|claims?)\b"
)


def refuted(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the reply denies, exposes or warns of what it says at ``[start, end)``.

    The warning stands in the same sentence, or in the line that introduces the list or heads the table
    of which the span is a part. A warning of others in front of a contrast (别家是骗局，只有我们…) is none.
    """
    return _refuted(analysis, start, end, within=True)


def refuted_around(analysis: Analysis, start: int, end: int) -> bool:
    """Say so of a claim that holds a denial of its own (swings do not exist here), which refutes nothing."""
    return _refuted(analysis, start, end, within=False)


def _refuted(analysis: Analysis, start: int, end: int, *, within: bool) -> bool:
    norm = analysis.norm
    low, high = analysis.sentence_span(start)
    for match in _REFUTATION.finditer(norm, low, max(high, end)):
        if not within and start <= match.start(1) and match.end(1) <= end:
            continue
        if match.start(1) < (announced(analysis, start) or 0) or (
            _NO_REFUTATION.search(norm, low, match.start(1)) and norm.find("就是", match.end(1), high) < 0
        ):
            continue
        if match.start(1) >= end or _CONTRAST.search(norm, match.end(1), end) is None:
            return True
    return (
        _LABELLED.match(norm, low, start) is not None
        or _NEXT_DENIES.match(norm, high) is not None
        or _DENIED_BEHIND.match(norm, high) is not None
        or _WARNING_LEAD.search(analysis.lead_in(start)) is not None
        or _MYTH.fullmatch(analysis.line_before(start)) is not None
    )


_MYTH: Final = late(
    r"[ #*>\-]*(?:(?:常见)?(?:误区|谣言|谎言|骗局|话术|禁语|错误(?:说法)?|反面(?:教材|例子)?|假话)|"
    r"(?:common )?(?:myths?|fiction|false|"
    r"misconceptions?|scams?|lies?))[^。.\n]{0,8}"
)
"""A heading of what is not true."""
_LABELLED: Final = late(
    r"[ #*>\-]*(?:common )?(?:myth|fiction|false|wrong|misconception|untrue|fallacy)s?"
    r"(?: (?:no\. ?)?[0-9]+)?: "
)
"""The sentence is labelled as not true: myth: …."""


_DENIED_BEHIND: Final = late(
    r"[^.!?。\n]{0,40}?(?:\b(?:that|this|it|all of (?:it|this)) (?:was|is)(?: simply| just| plainly|"
    r" of course)? "
    r"(?:wrong|false|untrue|nonsense|invented|a lie|rubbish|not so|not true|a myth|made up|"
    r"fiction)(?=[.,;!])|"
    r"\bi (?:did|said|promised|wrote) (?:nothing of the (?:sort|kind)|no such thing)|"
    r"\bnothing of the (?:sort|kind)\b|\byou will not (?:hear|get) (?:it|that|this) from (?:me|us)\b|"
    r"\byou have not got my word|"
    r"\b(?:that|this) is (?:(?:how|why) (?:you|one) (?:can )?(?:know|tell|recogni[sz]e|spot)[^.!?]{0,24}?|"
    r"(?:a|the|an) (?:[a-z]+ ){0,3}?)(?:fraud|scam|con|red flag|bait|ponzi)\b)|"
    r"\s*(?:该|此|上述|这(?:句|番|种|些)?|那)(?:内容|话|说法|消息|文件|结论)?(?:系|是|纯属|都是|属于)"
    r"[^,。!?\n不没绝非]{0,6}(?:错误|伪造|假的|谣言|无稽|胡说)|\s*[^。!?\n不没]{0,30}(?:予以|一概|矢口)否认|"
    r"\s*这(?:话|句话)要是能(?:当真|信)"
)
"""The next sentence says that it is not so."""
_NEXT_DENIES: Final = late(
    r"\s*(?:nobody|no one|no (?:honest|serious|legitimate|regulated|reputable) [a-z]+) (?:can|could|may|"
    r"would|is able to) "
    r"(?:\w+ )?(?:promise|guarantee|offer|assure|pledge)|"
    r"\s*(?:没有?(?:任何)?人|谁[也都]|任何人)(?:都|也)?(?:不|没)?(?:能|敢|法|可能)+(?:给你)?(?:保证|承诺|"
    r"担保|打包票)|"
    r"[*\s]*who (?:pays|is paying|funds|backs|stands behind) (?:it|this|that|them)\b"
    r"[^.!\n]{0,40}\?(?! (?:we|our|i)\b)|"
    r"\s*(?:这|那)[种样]?[^,。!?\n]{0,6}(?:根本)?(?:不可能|不存在|没有的事|别信|信不得)"
)
"""The next sentence says that nobody can keep such a word."""
