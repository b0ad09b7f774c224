"""What turns an advice down: a negation, a verdict against it, leaving a position.

The questions are asked about a span of ``Analysis.norm``; `memfin.scoring.advice.advised` asks them first.
"""

import re
from typing import Final

from memfin.scoring.advice.dealing import SIZED_DEAL, STRONG
from memfin.scoring.attribution.negation import negated
from memfin.scoring.constraints.topics import named, of_another
from memfin.scoring.patterns.bilingual import Bilingual
from memfin.scoring.patterns.expressions import compile_pattern, late
from memfin.scoring.text.language import Analysis

_CLAUSE: Final = r"[^,:;。!?\n]"

_ZERO: Final = frozenset("0零")
VERDICT: Final = Bilingual(
    r"不符|不相符|不适合|不合适|不匹配|不建议|不推荐|不纳入|不考虑|别(?<!分别)(?<!特别)(?:碰|买|投|配|选|"
    r"参与)|禁止|禁令|规避|"
    r"杜绝|划掉|"
    r"划去|筛掉|(?<!会被)淘汰|🚫|"
    r"❌|不在你|不介绍|不会(?:推荐|介绍|建议|配|加(?!息)|用|买)|别碰|不碰|不宜|远离|"
    r"(?<![不没])(?:超出你|超出了?你?[^,。;!?\n]{0,8}的?范围|违反|违背)|冲突|相悖|排除|"
    r"剔除(?<!被剔除)(?<!期剔除)|拒绝|违规|"
    r"违法|非法|骗局|得不偿失|不可取|停掉|叫停|戒掉|改掉|是(?:典型|标准|妥妥|十足)的(?=[追投炒赌题短杠])|"
    r"没有必要|没必要|不参与|不安排|没有?安排|未安排|跳过|略过|绕开|撇开|"
    r"(?:需要?|须|值得|应当?|务必|要)(?:特别|格外|高度|保持)?(?:警惕|提防|当心)|(?:不|没|"
    r"未)会?(?:进(?![场货展步账度])[入你]?|放进|放入|放在|列入|加入|"
    r"写进)的?(?=[^,。]{0,3}(?:组合|方案|清单|名单|计划|范围|账户|仓位|[,。]))|"
    r"别(?<!分别)(?<!特别)(?<!个别)(?:答应|理|信|听|"
    r"进(?![太得])|入|去(?!掉)|点|投(?![得太])|跟(?=[,。;!风进它]|$)|上当|"
    r"接茬|学|沾|掺和|凑热闹)|[把将][^,。;!?\n]{0,8}破了|"
    r"(?<![不没])(?<![不没]突)破了?你?[^,。;!?\n]{0,4}(?:规矩|规则|约定|"
    r"底线|要求)|(?:不|没)(?:合|在|"
    r"符合)[你的]{0,2}[^,。;!?\n]{0,6}(?:规矩|要求|范围|约定|清单)|规矩不(?:让|许|允)|[学使要]不得|"
    r"锁得(?:太|过)|再(?:好|高|香|牛|诱人|漂亮),[^,。;]{0,10}(?:也|都)(?:该|不|轮不|得|没)|"
    r"[,。;]不(?:拿|碰|要|投|买|做|配|看|上|追|跟)(?=[,。;!]|$)|亏手续费|白忙|白折腾|"
    r"走不通|行不通|出局|作废|否决|零票|不(?:敢|能)?(?:同意|赞同|认同|苟同)(?!书|函)|零分|不供执行|(?:开|"
    r"是)个?玩笑|撤回|未通过|挂(?:断|"
    r"掉)?电话|没听见|条款不许|"
    r"并非如此|误会我|"
    r"(?:意见|建议|看法|态度)是(?:不[要行可必做碰投买配]|别|先别|算了)|建议你?(?:不要|别|算了)(?=[,。:;!]|$)|"
    r"建议你?(?:不要?|别)(?:再|去)?[做碰投买配跟追](?!高)|不去(?:挣|赚|碰|要|追|凑)|"
    r"(?:一[只个点]|半[只个点])(?:都|也)?(?:没|不)(?:有)?(?:放|碰|选|买|配|拿|留|进)|"
    r"就(?:免了|算了|不必了|不用了)|(?:亏钱|亏损|吃亏)的(?:主要|最大)?原因|"
    r"[都也里你](?:完全)?用不[着上](?=[,。!;]|$)|"
    r"瞎折腾|受不[了起住]|吃不消|扛不住|另一回事|供你?了解|与[^,。;!?\n]{0,8}(?:无关|"
    r"没有?(?:直接|任何|什么)?关系)|(?:恕|这|我)[^,。;]{0,4}办不到|恕(?:我)?[不难]|"
    r"(?:看着|看上去|听上去|听着|听起来|表面上?|似乎|貌似|乍看)[^。;!?\n]{0,14}?,(?:但|可(?![以能])|"
    r"不过|其实|实际|然而)|"
    r"留给(?:别人|机构|保险|专业|他们)|(?:期限|久期|时间|封闭期?|"
    r"锁定期?)(?:太|过)长|划不来|不划算|不合算|[与跟和同][^,。]{1,14}(?:不合|不搭|相反|背道而驰)|"
    r"(?:都|也|一概|一律)不(?:出现|涉及|包含|选用?|碰|列入)|不是(?:让|叫|要)你|已按你|所以(?:没有|未|不)|"
    r"没(?:有)?给你[选配买放推]|不用(?:去)?碰|不用(?:去)?(?:做|买|参与|跟)(?=[,。;!]|$)|不(?:算|是|"
    r"属于)投资(?!建议|者|决策|标的)|"
    r"所以(?:没有|未|不)|不予|婉拒|谢绝|回绝|推掉|拒掉|(?:没有?|不|未)(?:采纳|照办|照搬|照做)|"
    r"没有?把[^,。;!?\n]{0,8}(?:放|列|加|配|选|纳|写)|"
    r"不作(?!保证|承诺|担保|预测|判断|为|出)|不做推荐",
    r"\b(?:(?:don't|do not|can't|cannot|(?:won't|will not)|never) (?:suggest|recommend|advise|propose|"
    r"favou?r)|"
    r"not (?:suitable|suit|fit|recommend\w*|advis\w*|appropriate|for you)|doesn't (?:fit|suit|"
    r"match)|does not (?:fit|suit|match)|doesn't belong|does not belong|left (?:it|them) out|"
    r"leave (?:it|them) out|unsuitable|"
    r"against your (?:own )?(?:rules?|conditions?|criteria|requirements?|constraints?|limits?|wish\w*|"
    r"profile|policy)|violat\w*|breach\w*|"
    r"conflicts? with|stay away|outside your|(?:is|are) out(?=[,.;])|(?:wouldn't|would not)(?! (?:hurt|"
    r"harm|go amiss|do any harm|"
    r"hesitate|mind|be wrong|be out of place|wait))|"
    r"can't recommend|cannot recommend|"
    r"rules? (?:it|this|them|that) out|ruled out|off the table|off limits|"
    r"break(?:s|ing)? (?:your|the|that|one of your|both) (?:\w+ )?(?:rules?|conditions?|criteria|"
    r"requirements?|limits?|cap|mandate|line)|"
    r"outside (?:what|the(?! (?:exchange|broker\w*|bank\w*|system|regulated))|your)|"
    r"fails? your|beyond (?:what|your)|your (?:own )?(?:rules?|conditions?|criteria|requirements?|mandate|"
    r"list|limits?|policy) (?:says?|"
    r"excludes?|"
    r"forbids?|bars?|do(?:n't| not))|"
    r"not (?:on|in) your|you (?:told (?:me|us)|excluded|said no)|no place (?:in|here)|no reason to|"
    r"(?:leave|left|leaving|kept|keep) (?:[a-z-]+ ){1,2}out|leave (?:it|them|that|those) to |"
    r"neither (?:fits|suits|belongs)|(?:leave|leaving|left|rule|ruling) out|"
    r"(?:leave|left|keep|kept|strike|drop|take) (?:it|them|that|this) (?:off|out|aside|alone|be)|so leave it|"
    r"you asked (?:(?:me|us) )?(?:to (?:stay|avoid|keep|leave|skip)|not|for no)|you (?:ruled|"
    r"wanted no|want no|don't want|"
    r"do not want|prefer not)|off the list|(?:i|we)(?:'d| would) pass|pass on (?:it|this|that)|give (?:it|"
    r"this|"
    r"that) a miss|"
    r"(?:is|are|would be) (?:gambling|a gamble|reckless|folly)|is what (?:day|swing) traders|(?:is|"
    r"are) beyond me|why (?:anyone|anybody) would)\b",
)
_CONTRAST: Final = Bilingual(
    r"不过|但|然而|可是|只是|破(?:个|一次|一回)?例", r"\b(?:but|however|still|yet|though)\b"
)
_LEAVING_BEFORE: Final = compile_pattern(
    rf"(?:防止|规避|杜绝|禁止|不进行|分散(?![到在进投买配放])|减持|卖出|卖掉|清仓|清掉|赎回|退出|降低|"
    rf"减少|压降|了结|换掉|"
    rf"移出|剔除|删去|去掉|(?<!国产)替代|代替|取代|而不是|而非|不是|除了|除(?![权息夕])|扣除|"
    rf"\b(?:dump|unload|liquidate|ditch|get rid of|unwind|ignore|resist|forget|beware of|"
    rf"tempted by|sell|offload|reduce|exit|trim|cut|replace|exclud(?:es?|ed|ing)|screen(?:s|ed|ing)? out|"
    rf"instead of|"
    rf"rather than|out of|rul(?:es|ed|ing) out|forbid(?:s|ding)?|prohibit(?:s|ing)?|bans?|"
    rf"(?:that|which|who|prospectus|mandate|contract|charter) bars)\b){_CLAUSE}{{0,8}}$"
)
_COST_OF_IT: Final = late(r"的?(?:成本|费用|手续费|损耗|摩擦|滑点|冲击)|(?:'s)? (?:costs?|fees?|charges?)\b")
"""What is reduced is the cost of the thing, not the thing: 减少换汇的成本."""
_LEFT_BEFORE: Final = late(r"\b(?:leav\w+|left|keep\w*|kept|rul\w+) (?:[a-z-]+ ){0,3}$")
_LEFT_ALONE: Final = late(
    r"(?:,? (?:and|or) [a-z-]+)?(?: [a-z0-9&-]+){0,2}? (?:out(?! of (?:the|cash|your))|alone|aside)\b"
)
_LEAVING: Final = late(
    rf"^{_CLAUSE}{{0,12}}(?:换成|换为|换到|转为|转到|转入|替换|换掉|换下|丢掉|卖掉|卖出|清掉|清仓|清零|"
    rf"减到|减掉|减仓|"
    rf"降到|降至|赎回|赎出|调出|撤出|退出|还清|还掉|归零|降为零)"
    r"|^[^,.;]{0,24}\b(?:into|for)\b"
)
_TAKEN_UP: Final = late(r"(?:换成|换为|换到|转为|转到|转入|into|to|\bfor)[^,。]{0,10}$")
_OWNED: Final = late(
    r"(?:手[里上头]|持有期|(?<!建议)(?<!可以)(?<![先只就])持有|现有|已有|原有|卡在|套在|你那|"
    r"账上|(?:组合|账户)[里中](?:原来|以前)?的?[那这]|名下的?[那这])[^,。;:]{0,8}$|\b(?:your|you (?:own|hold|"
    r"have)) [^,.;:]{0,16}$"
)
_LEAVES: Final = late(
    r"[^,。;]{0,12}(?:,[^,。;]{0,14}){0,2},[^,。;]{0,10}(?:换成|换到|卖|减|清|赎|撤|退|转成)|\b(?:sell|"
    r"offload|unload|trim|cut|"
    r"swap|exit|"
    r"unwind|get rid)\b"
)
_TO_BE_LEFT: Final = late(
    r"[^,.;!?\n]{0,60} (?:should|must|can|could|ought to|needs? to|has to|have to)(?: now| then| first|"
    r" all)? be "
    r"(?:sold|redeemed|liquidated|unwound|closed out|trimmed|reduced|disposed)\b"
)
_PREFERRED_TO: Final = late(
    r"\b(?:take|prefer|choose|pick|favou?r|rather have|rank|put) [^,.;!?\n]{3,60} (?:over|ahead of|"
    r"in preference to) "
    r"(?:the |an? |any )?$"
)
_MOVED: Final = late(
    r"(?:把|将)[^,。:;]{0,12}$|\b(?:move|switch|shift|rotate|swap|exchange|trade)\b[^,.;]{0,20}$"
)
_NEXT_REJECTS: Final = late(
    rf"^\s*(?:但|不过|然而|所以)?(?:这|它|该|此|前者|这些|这类|以上|我|你|this|it|that|"
    rf"but)[^。!?\n]{{0,30}}?(?:{VERDICT.pattern})|"
    r"^\s*(?:so |please |best to )?(?:stay away|steer clear|keep away|walk away|avoid (?:it|them|this|that)|"
    r"(?:leave|let) (?:it|them|that) (?:alone|be|pass)|skip (?:it|them|this|that)|"
    r"buying (?:it|here|now|in)\b[^.!?]{0,20}\b(?:would be|is|means) (?:chasing|late|too late)|decline\b|"
    r"say no\b)|"
    r"^\s*(?:所以|请|建议你?)*(?:远离|躲开|绕开|婉拒|回绝|拒绝|别碰|别投|别买|别参与|别跟|不跟|"
    r"不碰|不投|"
    r"不参与)(?:它|吧|为好|即可|就好|就行)*[,。!;]"
)
_OPTION: Final = late(
    r"跨式|宽跨|认[沽购]|看[涨跌]|期权|虚值|实值|平值|权利金|备兑|合约|covered|cash-secured|(?:weekly |"
    r"index )?(?:puts?|"
    r"calls?)\b|options?\b|"
    r"call |put |straddle|strangle|credit|iron|premium"
)
WRITING: Final = late(r"卖出?|\b(?:sell|offload|unload|write)\b")
_LURED: Final = late(r"(?:别|不要|勿)[^,。;!?\n]{0,6}(?:被|因|为了|看到|听信|一看|一听)[^,。;!?\n]{0,14},$")
_NO_NAMES: Final = compile_pattern(
    r"具体|哪[一几]?[只家个支款种]|点名|个股|个券|代码|(?:投资|买卖|交易|操作)的?(?:建议|推荐|意见|"
    r"依据|指令)|"
    r"\b(?:which one|particular|specific|individual|investment advice|any single|a given)\b"
)
"""What a disclaimer says that it leaves open: which security, any advice to deal in one."""


def _names_nothing(analysis: Analysis, verdict: re.Match[str], start: int) -> bool:
    """Say whether a verdict in another clause only declines to name securities (具体哪只我不推荐)."""
    low, high = analysis.clause_span(*verdict.span(1))
    return not low <= start < high and _NO_NAMES.search(analysis.norm, low, high) is not None


_TAKES_OBJECT: Final = late(r"(?:不|别|从不)(?:再|去)?(?:碰|买|投|做|追|配|参与|加|用)")


def _has_its_object(analysis: Analysis, verdict: re.Match[str], start: int, end: int) -> bool:
    """Say whether a refusal in another clause names what it refuses, and that is another thing: 不碰小票."""
    low, high = analysis.clause_span(*verdict.span(1))
    if low <= start < high or _TAKES_OBJECT.match(verdict[1]) is None:
        return False
    norm = analysis.norm
    return of_another(norm[verdict.start(1) : high], named(norm[start:end]))


_BEWARE: Final = late(r"(?:需要?|须|值得|应当?|务必|要)(?:特别|格外|高度|保持)?(?:警惕|提防|当心)")
_HARM: Final = late(
    r"[^,。;!?\n]{0,12}(?:跌|亏|损|回撤|回调|回落|波动|爆仓|强平|平仓|流动性|[卖出赎退撤]不|退市|违约|风险|"
    r"套牢|"
    r"反转|反噬|退潮|放大|缩水|折价|展期|爽约|爆雷)"
)


_SEEN: Final = late(r"\s*(?:一旦|凡是|如果|平时)?(?:看[见到]|碰[上到]|遇[上到]|刷到|听[到说见]|收到|面对)")


def _only_warns(analysis: Analysis, verdict: re.Match[str], start: int) -> bool:
    """Say whether a word of caution tells what may befall what the sentence has proposed, and how much."""
    norm = analysis.norm
    if _BEWARE.match(verdict[1]) is None or _HARM.match(norm, verdict.end(1)) is None:
        return False
    low, _ = analysis.sentence_span(start)
    clause, _ = analysis.clause_span(*verdict.span(1))
    if _SEEN.match(norm, low) is not None:
        return False
    return clause > start and (
        SIZED_DEAL.search(norm, low, clause) is not None or STRONG.search(norm, low, clause) is not None
    )


def turned_down(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the words around a share of the money turn it down: negated, a verdict in or behind it."""
    low, high = analysis.sentence_span(start)
    clause_low, _ = analysis.clause_span(start, end)
    return (
        negated(analysis, start, end)
        or _ruled_out_line(analysis, start, high)
        or _verdict_behind(analysis, start, end)
        or VERDICT.search(analysis.norm, clause_low, start) is not None
        or _next_rejects(analysis, low, high)
    )


_FAR: Final = 240
"""Characters within which a sentence comes to its verdict; longer ones are no prose."""


def _verdict_behind(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the sentence goes on with a verdict against the span."""
    _, high = analysis.sentence_span(start)
    return any(
        not (
            _names_nothing(analysis, match, start)
            or _has_its_object(analysis, match, start, end)
            or _only_warns(analysis, match, start)
        )
        for match in VERDICT.finditer(analysis.norm, end, min(high, end + _FAR))
    )


def _next_rejects(analysis: Analysis, low: int, high: int) -> bool:
    """Say whether the next sentence speaks against what this one proposes."""
    norm = analysis.norm
    following = _NEXT_REJECTS.match(norm[high : high + 60])
    return (
        following is not None
        and _NO_NAMES.search(norm, high, high + following.end() + 8) is None
        and not of_another(norm[high : high + following.end()], named(norm[low:high]))
    )


def rejected(analysis: Analysis, start: int, end: int, *, limit: bool = False) -> bool:
    """Say whether the reply speaks against the span: negates it, calls it unfit, or leaves it behind."""
    norm = analysis.norm
    low, high = analysis.sentence_span(start)
    return (
        (not limit and negated(analysis, start, end))
        or _ruled_out_line(analysis, start, high)
        or _verdict_behind(analysis, start, end)
        or _verdict_before(analysis, low, start)
        or _next_rejects(analysis, low, high)
        or _lured(analysis, low, start, end)
        or (norm[start - 1 : start] in _ZERO and not norm[start - 2 : start - 1].isdigit())
        or _left_behind(norm, low, high, start, end)
    )


def _verdict_before(analysis: Analysis, low: int, start: int) -> bool:
    """Say whether the sentence begins with a verdict that no contrast takes back."""
    last = None
    for match in VERDICT.finditer(analysis.norm, low, start):
        if not _names_nothing(analysis, match, start):
            last = match
    return last is not None and not _CONTRAST.search(analysis.norm, last.end(1), start)


def _lured(analysis: Analysis, low: int, start: int, end: int) -> bool:
    """Say whether the sentence begins with what nobody should let himself be lured by."""
    norm = analysis.norm
    return (
        "," in norm[low:start] and _LURED.search(norm, low, analysis.clause_span(start, end)[0]) is not None
    )


def _left_behind(norm: str, low: int, high: int, start: int, end: int) -> bool:
    """Say whether the sentence leaves, sells or replaces what stands at the span."""
    head, tail = norm[max(low, start - 24) : start], norm[end : min(high, end + 24)]
    if written_option(norm, start, end):
        head = WRITING.sub("", head)
    if _OWNED.search(head) and _LEAVES.search(norm, end, high):
        return True
    if _TO_BE_LEFT.match(norm, end, high) or _PREFERRED_TO.search(norm, low, start):
        return True
    if (_LEAVING_BEFORE.search(head) and not _COST_OF_IT.match(tail)) or (
        _LEFT_ALONE.match(tail) is not None and _LEFT_BEFORE.search(head) is not None
    ):
        return True
    return (
        _MOVED.search(head) is not None
        and _TAKEN_UP.search(head) is None
        and _LEAVING.match(tail) is not None
    )


_CELL_VERDICT: Final = late(
    r"\|\s*(?:(?:都)?(?:否|不[能行选可]?|不可以|不入选|不列入|无关|排除|已?划掉|已?剔除)|no|n/a|never|✗|"
    r"×|✘|x|out|excluded|"
    r"仅?作?(?:对照|参考|了解)|仅供(?:对照|参考|了解))\s*(?:[|,。;(]|$)"
)
"""The cell of a row that turns its thing down."""
_LIST_OF_DONTS: Final = late(
    r"(?:不要|不能|别|不该|不应|禁止|不再|不会)[做碰买投选犯]?(?:的|以下|这些|这几|$|:)|不做(?:的|"
    r"什么|清单|:|$)|负面清单|"
    r"误区|禁忌|雷区|避坑|避雷|红线|排除(?:的|项|清单|:|$)|剔除的?(?:[^,。]{0,4}:|$)|(?:没有?|不)(?:选|列入|"
    r"放进|纳入)的|"
    r"\b(?:under no circumstances|rules out|ruin|red flags?|warning signs?|will not do|avoid|don'ts?|do not|"
    r"never|not to do|myths?|mistakes?|off[- ]limits|ruled out|left out|excluded|"
    r"exclusions)\b"
)


_LAST_SENTENCE: Final = late(r"^.*[.!?。](?=\s*[^.!?。\s])")
"""What a line says before its last sentence, which alone introduces the list below."""


def _ruled_out_line(analysis: Analysis, start: int, high: int) -> bool:
    """Say whether the row or the list that the span stands in is one of what is not to be done."""
    kind = analysis.line_kind(start)
    if kind == "row":
        return _CELL_VERDICT.search(analysis.norm, start, high) is not None
    return kind == "item" and (
        _LIST_OF_DONTS.search(_LAST_SENTENCE.sub("", analysis.lead_in(start).rstrip())) is not None
        or _MISTAKE.match(analysis.norm, analysis.sentence_span(start)[0]) is not None
    )


_MISTAKE: Final = late(r"[ \-*•·>\d.)、]*(?:误区|坑|雷区|错误|谣言|myth|mistake|trap)")


def written_option(norm: str, start: int, end: int) -> bool:
    """Say whether the span names an option: to sell one opens a position, it leaves none."""
    return _OPTION.match(norm, start, end + 1) is not None
