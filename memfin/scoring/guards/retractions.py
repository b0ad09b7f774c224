"""Disclosures that a reply takes back: hearsay, what it belittles or denies, and what is only material.

A disclosure counts where the reply tells the user so. What documents, laws and supervisors say is told to the
user as well; what a rumour, a rival or a nervous neighbour says is not.
"""

from bisect import bisect_left
from functools import cache
from typing import Final

from ahocorasick_rs import AhoCorasick, Implementation

from memfin.scoring.attribution.sayings import said_by_others
from memfin.scoring.attribution.that_clauses import held_by_others
from memfin.scoring.attribution.voices import own
from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis, attributed

_REACH: Final = 120
_BEHIND: Final = 100
_TAIL: Final = 4

_INFORMS: Final = late(
    r"合同|说明书|条款|公告|监管|法规|规定|法律|证监会|协会|交易所|年报|季报|披露|揭示书|产品资料|风险提示|"
    r"\b(?:prospectus|documents?|documentation|contract|fact ?sheets?|term ?sheet|terms|regulators?|rules?|"
    r"law|"
    r"small print|fine print|disclosures?|agreement|exchange|report|agenc(?:y|ies)|page \d+|section \d+|"
    r"key information)\b"
)
"""Sources that inform the user: what they say is disclosed."""
_HEARD: Final = late(
    r"(?:谣言|谣传|传言|流言|传闻|论调|讹传|以讹传讹)[^,。;!?\n]{0,6},?(?:说|称|是|讲)[^,。;!?\n]{0,8}$|"
    r"(?:造谣|谣传|误传|瞎传)(?:说|称)?[^,。;!?\n]{0,8}$|"
    r"\bother (?:[a-z]+ )?(?:ro)?(?:chat)?(?:bots?|advis[eo]rs?|sites?|banks?|apps?|"
    r"brokers?) (?:will |always )?"
    r"(?:tell|say|claim|write|print|insist)s?\b[^.;!?\n]{0,20}$|"
    r"(?:散布|散播|鼓吹|兜售|渲染|到处(?:说|讲|喊)|嚷嚷|逢人便说|大谈|老(?:是|爱)(?:说|念叨)|念叨|唠叨|"
    r"唱衰)"
    r"[^,。;!?\n]{0,10}$|"
    r"(?:你|客户|用户|投资者|他|她)[^,。;!?\n]{0,6}(?:问题|疑问|提问|疑惑)(?:就|其实|"
    r"大概)?是[:,]?[^,。;!?\n]{0,6}$|"
    r"\b(?:rumou?rs?|gossip|hearsay|tales?|myths?|scare ?mongers?|doom[- ]?mongers?)\b[^.;!?\n]{0,40}$"
)
_DENIED: Final = late(
    r"(?:意思|本意|原意|想说的|要说的|说的)(?:可|并|绝|其实)*(?:不|非)是(?:说|指)?[^,。;!?\n]{0,6}$|"
    r"(?:并|可|绝)(?:不|非)(?:是)?(?:说|在说|想说|要说)[^,。;!?\n]{0,6}$|"
    r"(?:究竟|到底)(?:是不是|是否|会不会)[^,。;!?\n]{0,8}$|"
    r"(?:要是|如果|若|除非|哪天|谁)[^,。;!?\n]{0,10}(?:证明|说服我|拿出证据)[^,。;!?\n]{0,8}$|"
    r"(?:早年|早些年|从前|过去|以前|当年|那时候?)[,]?[^,。;!?\n]{0,8}(?:可以|能|还能|会|常|才)(?:说|"
    r"讲)[^,。;!?\n]{0,6}$|"
    r"\bwhether or not $|\b(?:far from it|not) (?:being )?(?:true|the case) that $|"
    r"\bif (?:ever )?(?:any(?:one|body)|some(?:one|body)) (?:ever |really |could )*(?:prove[sd]?|shows?|"
    r"convinces?)\b"
    r"[^,;.!?\n]{0,20}$|"
    r"\b(?:once|formerly|decades ago|years ago|in the old days|back then|used to)\b[^.;!?\n]{0,30}\b(?:say|"
    r"said|true)"
    r" (?:that )?$|"
    r"\b(?:forget|ignore|disregard|dismiss|scrap|strike out) (?:what [a-z ]{1,20} about how|the (?:line|"
    r"part|bit|idea|"
    r"warning|sentence|clause|claim|notion)(?: that| about)?) $"
)
_MATERIAL: Final = late(
    r"打字|听写|抄写|默写|朗读|跟读|造句|改错|病句|排版|字体|字号|占位|样例文字|测试文[本字]|录音测试|试音|"
    r"台词|"
    r"译成|译作|译为|英文(?:是|叫|为)|翻译(?:成|练习|题|一下)|填空|对联|绕口令|接龙|语法|主语|谓语|"
    r"(?:练习|模拟|考试|判断|选择|测验)题|判断(?:对错|正误)|"
    r"\b(?:translate|translation|dictation|typing|font|typeface|placeholder|dummy text|sample (?:text|"
    r"sentence)|"
    r"spelling|grammar|worksheet|homework|crossword|hangman|quiz|exam|true or false|proofread\w*|"
    r"punctuation|"
    r"into (?:french|german|spanish|chinese|latin)|pronounc\w+|microphone|sound check|script|"
    r"type (?:in )?(?:this|the|these|following)[^.;!?\n]{0,10}(?:sentence|line|words?|text|phrase))\b"
)
"""The words are material for something else: to be typed, translated, set or judged."""
_TALK: Final = (
    r"(?:的|这|那|此|之类)[^,。;!?\n]{0,4}(?:话|说法|论调|谬论|谣言|传言|言论|调调|观点|老调|套话|陈词滥调|"
    r"提示|"
    r"字样|担心|担忧|顾虑|念头|想法|声音)"
)
_BAD: Final = (
    r"(?:过时|可笑|荒唐|荒谬|不成立|站不住|胡说|胡扯|瞎说|无稽|不对|错了|错误|没有?(?:任何)?(?:根据|道理|"
    r"依据)|"
    r"忽略|跳过|(?:不用|不必|无须|无需|甭|别|不要)(?:管|看(?!到|见|着)|理|信|当真|在意|放在心上|往心里)|"
    r"无视|例行|走过场|"
    r"走形式|谣言|谣传|造谣|讹传|子虚乌有|无中生有|捕风捉影|吓唬|吓人|唬人|危言耸听|(?:跟|和|"
    r"与)你(?:的[^,。]{1,6})?(?:无关|没(?:有)?关系|不相干|扯不上)|"
    r"不适用于?你|(?:我)?(?:就|都|也)*(?:不|懒得)(?:念|啰嗦|多说|重复|提|讲|说|背)了|"
    r"作废|骗人|辟谣|不实|假的|杞人忧天|多虑|多余|想多了|白操心|瞎操心|过虑|我(?:可|才|并)?不(?:这么|"
    r"这样)(?:看|认为|"
    r"想)|不予置评|无可奉告|与事实不符|不(?:是|属)事实|没(?:这|那)回事|哪有(?:的|这)|不可能|掉大牙)"
)
_TEMPERED: Final = r"(?:(?!\b(?:no|not|never|hardly)\b)[^.;!?\n])"
_NOT_SO: Final = late(
    rf"[^,。;!?\n]{{0,4}}{_TALK}(?:(?![不没非未])[^。;!?\n]){{0,20}}?{_BAD}|"
    rf"[^,。;!?\n]{{0,6}}[,?!](?:这|那|此|其实|纯|完全|简直|真|"
    rf"根本)(?:(?![不没非未])[^,。;!?\n]){{0,10}}?{_BAD}|"
    r"[,?。!]*(?:那|这|可|都|真|纯|完全|根本|其实)*(?:是|属)?(?:哪有的事|没有的事|没那回事|没这回事|"
    r"无稽之谈|"
    r"胡说八道|天方夜谭|事实并非如此|不是这样)|"
    r"[^,。;!?\n]{0,4},?(?:对不对|是这个意思吧|是吗)|"
    r"[^.;!?\n]{0,30}[,;:.] ?(?:and |but |so |well, )*(?:which|that|this|it|those|these|all that|"
    r"the (?:idea|claim|"
    r"line|warning|sentence|notion)) (?:is|are|was|were|sounds?)(?: (?!not\b|no\b|never\b|hardly\b|"
    r"far\b)[a-z']+){0,2}? (?:background noise|over|outdated|out of "
    r"date|debunked|nonsense|rubbish|ridiculous|laughable|untrue|wrong|mistaken|false|boilerplate|"
    r"a formality|for form's "
    r"sake|old hat|scaremongering|a myth)\b|"
    rf"[^.;!?\n]{{0,30}}[,;:.] ?{_TEMPERED}{{0,40}}?\b(?:background noise|days are over|no longer (?:true|"
    rf"applies|holds)|"
    r"(?:ignore|skip|disregard|forget) (?:it|that|this)|debunked (?:it|that|this)|how ridiculous|"
    r"eat my hat|"
    r"fretting|"
    r"worrying (?:for no reason|over nothing)|(?:(?:do|does) not|never) (?:apply to|concern|affect) you|"
    r"cannot comment|"
    r"not comment|(?:do|does) not (?:buy|believe|share) (?:it|that|this|a word)|pay no (?:attention|heed)|"
    r"take no notice|"
    r"do not let (?:it|that|this|them))|"
    rf" (?:is|was|are|sounds?|applies|belongs?|holds|counts|comes?|remains?|"
    rf"stands?)\b{_TEMPERED}{{0,40}}?\b(?:nonsense|rubbish|a myth|"
    r"ridiculous|(?:classic |common |beginner'?s |old |big )*(?:mistake|error|fallacy|misconception)|"
    r"(?:only|solely) "
    r"to (?:the other|another|other|someone)|not (?:at all )?to (?:yours|you)|outdated|boilerplate|"
    r"a formality|old hat|"
    r"superstition|wrong|false|untrue|scaremongering|something (?:i|we) (?:cannot|can not|will not|"
    r"would not))"
)
"""What follows dismisses the words."""
_DISMISSED: Final = late(
    r"(?:不必|不用|无需|无须|用不着|别|甭|没必要|犯不着|何必|大可不必)(?:再|太|总|老)*(?:担心|担忧|害怕|怕|"
    r"顾虑|操心|"
    r"纠结|理会|相信|听信)(?:什么|会|说|所谓)?[^,。;!?\n]{0,6}$|"
    r"\b(?:(?:no (?:need|reason|cause) to|need not|(?:do|does) not (?:have|need) to) (?:worry|"
    r"fear|think|believe|"
    r"fret)|(?:do not|never) (?:worry|fret|fear|"
    r"believe|think|"
    r"listen to [a-z ]{1,20}|let [a-z ]{1,24} (?:tell|scare|frighten) you)|stop (?:worrying|fretting))"
    r"(?: about)?(?: (?:the (?:idea|thought|notion|warning|line)|how|claims?|"
    r"talk))?(?: that)? [^,;:.!?\n]{0,14}$"
)
_RISKS: Final = (
    r"(?:亏|赔(?!付)|损失|受损|波动|下跌|跌(?!价准备)|回撤|缩水|大起大落|违约|还不[上起]|爆雷|拖欠|"
    r"卖不[掉出]|赎不|取不出|"
    r"拿不[回出]|变现困难|接盘|落空|意外|变脸|说变就变|拖累)"
)
_RULED_OUT: Final = late(
    r"(?:不会|不可能|绝不(?:会|可能)?|从来?(?:不|没)(?:会|有)?|永远不(?:会)?|不至于|没可能|没有可能|毫无|"
    r"不存在(?:什么|任何)?|"
    r"(?:不用|无需|无须|不必|用不着)(?:再|太|去)?(?:担心|考虑|害怕|怕|顾虑|操心)(?:什么|会)?)"
    r"(?![^,。;!?\n]{0,6}(?:承担|赔|补偿|兜|保证|承诺|担保|告|预|通知|提前))"
    rf"[^,。;!?\n不没未只光一总完永少]{{0,6}}?{_RISKS}|"
    r"\b(?:(?:will|can|could|would|is|are|shall|does|do)(?: definitely| certainly| simply| just)? (?:not|"
    r"never)|cannot|there is no "
    r"(?:way|chance|uncertainty|risk|danger)(?!-))(?: that| ever| possibly| going to)*\b"
    r"(?![^,;.!?\n]{0,24}\b(?:protect|shield|prevent|save|stop|guarantee|promise|cover|reimburse|"
    r"compensate|"
    r"tell|warn|know|"
    r"spare|avoid|keep|rule|exclude|deny|predict|control|if|when|unless|because|always|only|mean|"
    r"say|ensure|"
    r"assure|help|afford|"
    r"be sure|be surprised|forget|worry|all|assume|believe|claim|suppose|conclude|imagine|pretend)\b)"
    r"[^,;.!?\n]{0,30}\b(?:los(?:e|es|ing|t)|falls?|falling|drops?|fluctuat\w+|declin\w+|"
    r"default\w*|fail\w*|"
    r"below|stuck|trapped|swing\w*|"
    r"bankrupt|hard to sell|surpris\w+|uncertain\w*|about)\b"
)
"""A risk is ruled out: 不可能亏本, it can never fall."""
_DOUBTED: Final = late(
    r"[不没无非难谁别]|误以为|以为|\b(?:not|no|nobody|none|never|cannot|n't|if|whether|think(?:s|ing)?|"
    r"believ\w+|"
    r"expect\w*|guarantee|mean)\b"
)
"""In front of it, what denies that it is ruled out: 不代表不会亏."""


def _is_ruled_out(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the clause rules out the risk that ``[start, end)`` speaks of."""
    norm = analysis.norm
    low, high = analysis.clause_span(start, end)
    match = _RULED_OUT.search(norm, low, min(high, end + _TAIL))
    return match is not None and match.end() > start and _DOUBTED.search(norm, low, match.start()) is None


_CLAIM: Final = late(
    r"\b(?:claims?|says?|thinks?|believes?|argues?|warns?|predicts?|insists?|reckons?|maintains?)\b"
)
_THEY_ERR: Final = late(
    r"[^.;!?\n]{0,60}[.;!] ?(?:they|he|she|those [a-z]+|both|all of them) (?:are|is) (?:quite |"
    r"simply |just |plain |"
    r"completely |all |badly |dead )?(?:wrong|mistaken|lying|off the mark|exaggerating|"
    r"scaremongering)\b(?! to\b)"
)
_TERM: Final = late(
    r"(?:(?:in (?:finance|investing|banking|plain english)|by definition),? )?(?:an? |the (?:term|"
    r"word) )?(?P<term>"
    r"[a-z][a-z -]{3,28}?)(?:: when |,? (?:is|means|refers to|denotes|describes|"
    r"stands for) (?:that |when |how |"
    r"(?:the |an? )(?:[a-z]+ )?(?:failure|inability|process|measure|event|state|term|name|word|"
    r"statistic|gauge|degree|"
    r"tendency|decline|fall|ratio|amount|extent|sensitivity|situation|ease|speed)\b))"
)
_TERMS: Final = late(
    r"^(?:default|credit risk|liquidity risk|interest[- ]rate risk|volatility|drawdown|"
    r"maximum drawdown|arrears|"
    r"insolvency|bankruptcy|downgrade|duration|liquidity|random walk|standard deviation|"
    r"market risk|past performance)$"
)
_HERE: Final = late(r"\b(?:you|your|this|these|here|our|we|it)\b")
_ERRAND: Final = late(
    r"(?:能不能|能否|会不会|是否|什么时候|几天|多久)(?:能)?[^,。;!?\n]{0,3}(?:预?约|积分|排[上到]|订到|"
    r"办[好下完成]|审核|批下|批准|"
    r"联系|到货|接通|赶上|修好|寄到|开通)[^,。;!?\n]{0,10},[^,。;!?\n]{0,4}$"
)
_SPELT: Final = late(
    r"”?(?:这|那)?(?:[几一二三四五六七八九十两0-9]+个)(?:大|小)?字[^。!?\n]{0,16}(?:英文|译|拼音|笔画|"
    r"怎么[念写读])"
)


def _is_another_matter(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the words are a term explained or spelt, an errand, or a claim that is rejected behind."""
    norm = analysis.norm
    low, high = analysis.sentence_span(start)
    if norm[start] > "\u2e80":
        return (
            _ERRAND.search(norm, max(low, start - 40), start) is not None
            or _SPELT.match(norm, end, high) is not None
        )
    if _CLAIM.search(norm, low, start) and _THEY_ERR.match(norm, end, min(len(norm), end + _REACH)):
        return True
    defined = _TERM.match(norm, low, high)
    return (
        defined is not None
        and _TERMS.match(defined["term"]) is not None
        and _HERE.search(norm, low, high) is None
    )


def hearsay(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether ``[start, end)`` is laid in the mouth of somebody for whom the reply does not vouch."""
    return attributed(analysis, start, end) and not own(analysis, start, end)


_INQUIRED: Final = late(
    r"\b(?:(?:please |kindly |just |first )?(?:tell|inform) (?:me|us)|let (?:me|us) know|"
    r"(?:i|we) (?:will |would |still |first |also |do )*(?:need|like|want|have|wish) to (?:know|ask|"
    r"learn|hear|"
    r"find out)|may (?:i|we) (?:know|ask)|(?:please )?(?:share|state|specify|indicate|confirm|fill in|"
    r"note down)(?: with me)?)\b"
    r"[^.;!?\n]{0,90}?\b(?:how (?:long|much|many|far|big|deep|large|soon|often|badly)|whether|which|what)\b"
    r"(?![^;!?\n]{0,60}, (?:but|because|since|as) )[^.;!?\n]{0,60}$"
)
"""The reply wants to know: tell me how long your money can stay locked up."""

_HEARSAY, _DENIAL, _DISMISSAL, _STUFF, _DEBUNKED, _ASIDE, _RULING_OUT, _ASKING = (
    1 << place for place in range(8)
)
_SIGNS: Final[dict[int, str]] = {
    _HEARSAY: (
        "谣|流言|传言|传闻|论调|讹传|误传|瞎传|散布|散播|鼓吹|兜售|渲染|到处|嚷嚷|逢人|大谈|老是|"
        "老爱|念叨|唠叨|唱衰|问题|疑问|提问|疑惑|rumo|gossip|hearsay|tale|myth|monger|other |"
    ),
    _DENIAL: (
        "意思|本意|原意|说的|不说|不是说|非说|非是说|在说|想说|要说|究竟|到底|证明|说服我|拿出证据|"
        "以说|能说|会说|常说|才说|以讲|能讲|会讲|常讲|才讲|whether or not|the case|true|prove|"
        "convince|shows|say|said|forget|ignore|disregard|dismiss|scrap|strike out|"
    ),
    _DISMISSAL: (
        "担心|担忧|害怕|怕|顾虑|操心|纠结|理会|相信|听信|worry|fear|believe|fret|think|listen|tell|"
        "scare|frighten|"
    ),
    _STUFF: (
        "打字|听写|抄写|默写|朗读|跟读|造句|改错|病句|排版|字体|字号|占位|样例文字|测试文|录音测试|"
        "试音|台词|译|英文|填空|对联|绕口令|接龙|语法|主语|谓语|习题|模拟题|考试题|判断题|判断对|"
        "判断正|选择题|测验题|translat|dictation|typing|font|typeface|placeholder|dummy text|sample|"
        "spelling|grammar|worksheet|homework|crossword|hangman|quiz|exam|true or false|proofread|"
        "punctuation|into french|into german|into spanish|into chinese|into latin|pronounc|"
        "microphone|sound check|script|type |"
    ),
    _DEBUNKED: (
        "不念|不啰嗦|懒得|不多说|不重复|不提了|不讲了|不说了|不背了|过时|可笑|荒唐|荒谬|不成立|站不住|胡|瞎|无稽|不对|错了|错误|没根据|没道理|没依据|没有根据|"
        "没有道理|没有依据|任何根据|任何道理|任何依据|忽略|跳过|不用|不必|无须|无需|甭|别管|别看|"
        "别理|别信|别当真|别在意|别放|别往|不要管|不要看|不要理|不要信|不要当真|不要在意|不要放|"
        "不要往|无视|例行|走过场|走形式|谣|讹传|子虚乌有|无中生有|捕风捉影|吓|唬人|危言耸听|无关|"
        "没关系|没有关系|不相干|扯不上|不适用|作废|骗人|不实|假的|杞人忧天|多虑|多余|想多了|白操心|"
        "过虑|不这么|不这样|不予置评|无可奉告|不符|不是事实|不属事实|回事|哪有|不可能|掉大牙|"
        "没有的事|天方夜谭|非如此|不是这样|对不对|是这个意思|是吗|background noise| over|outdated|"
        "out of date|debunked|nonsense|rubbish|ridiculous|laughable|wrong|mistake|true|false|"
        "boilerplate|formality|for form|old hat|scaremongering|myth|no longer|ignore|skip|disregard|"
        "forget|eat my hat|fretting|worrying|apply to|concern|affect|comment|not buy|not believe|"
        "not share|pay no|take no|not let|error|fallacy|misconception|to the other|to another|"
        "to other|to someone|to yours|to you|superstition|something i|something we|"
    ),
    _ASIDE: (
        "能不能|能否|会不会|是否|什么时候|几天|多久|字|claim|say|think|believe|argue|warn|predict|"
        "insist|reckon|maintain|default|credit risk|liquidity|rate risk|volatility|drawdown|arrears|"
        "insolvency|bankruptcy|downgrade|duration|random walk|standard deviation|market risk|"
        "past performance|"
    ),
    _RULING_OUT: (
        "不会|不可能|绝不|从不|从没|从来|永远不|不至于|没可能|没有可能|毫无|不存在|担心|考虑|害怕|怕|"
        "顾虑|操心|not |never|cannot|there is no|"
    ),
    _ASKING: "how |whether |which |what |",
}
"""Words of which one stands where something is taken back, by the way in which it is."""


@cache
def _signs() -> tuple[AhoCorasick, list[int]]:
    """Return an automaton of the signs, and which ways each of them is one of."""
    ways: dict[str, int] = {}
    for way, signs in _SIGNS.items():
        for sign in filter(None, signs.split("|")):
            ways[sign] = ways.get(sign, 0) | way
    return AhoCorasick(list(ways), implementation=Implementation.DFA), list(ways.values())


def _ways(analysis: Analysis, low: int, high: int) -> int:
    """Return the ways of taking something back whose signs stand in ``norm[low:high]``; mostly none."""
    found: list[tuple[int, int]] | None = analysis.notes.get(_signs)
    if found is None:
        automaton, ways = _signs()
        hits = automaton.find_matches_as_indexes(analysis.norm, overlapping=True)
        found = [(start, ways[sign]) for sign, start, _ in hits]
        analysis.notes[_signs] = found
    possible = 0
    for place in range(bisect_left(found, (low, 0)), len(found)):
        start, way = found[place]
        if start >= high:
            break
        possible |= way
    return possible


def taken_back(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the reply does not itself tell the user what it says at ``[start, end)``."""
    norm = analysis.norm
    low, high = analysis.sentence_span(start)
    ways = _ways(analysis, low, max(high, end + _REACH))
    voiced = analysis.voiced(start)
    if not (ways or voiced):
        return False
    near = max(low, start - _REACH)
    taken = (
        (voiced and _heard(analysis, start, end))
        or (ways & _HEARSAY and _HEARD.search(norm, near, start))
        or (ways & _DENIAL and _DENIED.search(norm, near, start))
        or (ways & _DISMISSAL and _DISMISSED.search(norm, near, start))
        or (ways & _STUFF and _MATERIAL.search(norm, near, start))
        or (ways & _DEBUNKED and _NOT_SO.match(norm, end, min(len(norm), end + _BEHIND)))
        or (ways & _ASKING and _INQUIRED.search(norm, near, start))
        or (ways & _ASIDE and _is_another_matter(analysis, start, end))
    )
    return (bool(taken) and not own(analysis, start, end)) or (
        ways & _RULING_OUT != 0 and _is_ruled_out(analysis, start, end)
    )


_THE_USER: Final = late(
    r"\byou(?:'ve| have| had)?(?: also| just| already| once| all)? (?:said|told|mentioned|wrote|asked|"
    r"stated|noted)\b"
)
_REASON: Final = late(r"\b(?:because|since)\b|因为|毕竟")
"""Why the reply does not say so itself: I cannot promise that it rises, because nobody knows."""


def _heard(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether somebody says so who is not the user and does not inform the user."""
    if not (held_by_others(analysis, start) or said_by_others(analysis, start, end)):
        return False
    low, _ = analysis.sentence_span(start)
    norm = analysis.norm
    return not any(pattern.search(norm, low, start) is not None for pattern in (_INFORMS, _THE_USER, _REASON))
