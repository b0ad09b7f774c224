"""Crazes and rallies without their names, for `shapes` beside it: what is hot is bought and soon left.

A record is bought at once, rumours are bought before the news, shares are sold and bought back the same day.
"""

from typing import Final

from memfin.scoring.offers.phrases import Shape

_BUY: Final = (
    r"(?:buy|purchase|add(?! up)|get in|go in|jump in|jump on|hop on|pile in|grab|pick up|load up|"
    r"take (?:a|the) (?:small |modest |starter |full )?position|place (?:your|an?|the) (?:market )?order|"
    r"double (?:the|your) (?:position|holding|stake)|put)\b"
)
_BUYING: Final = (
    rf"(?:{_BUY}|(?:buying|adding|purchasing|getting in|increasing|investing|going in)\b|increase\b|"
    rf"invest\b)"
)
_SELL: Final = (
    r"(?:sell(?:ing)?|offload(?:ing)?|unload(?:ing)?|get(?:ting)? (?:off|out|rid)|exit(?:ing)?|leave|"
    r"cash(?:ing)? out|dump(?:ing)?|be out|redeem(?:ing)?|step(?:ping)? off|hop(?:ping)? off|bail out)\b"
)
_RISEN: Final = (
    r"(?:limit[- ]up|(?:new |fresh |all-time |record |its |52-week |a |daily |upper |price )+"
    r"(?:record|highs?|peak|limit)|"
    r"(?:[a-z]+|\d+) (?:straight |consecutive )?(?:days?|weeks?|months?|sessions?|quarters?) "
    r"(?:in a row|running|straight|on the trot)|\d+ ?%)"
)
_WHAT_IS_HOT: Final = (
    r"(?:hot|trending|hottest|fashionable|popular|fashion|favou?r|vogue|headlines|talked about|in the news|"
    r"leading|making noise|catching fire|buzzing|everywhere|on fire|red hot|heating up)\b"
)
_FADES: Final = (
    r"(?:fad|di[ee]|cool|wan|pass|end|mov|los|dr[iy]|settl|turn|disappear|subsid)\w*|(?:is|are) "
    r"(?:out|over|gone)|"
    r"breaks\b|comes out|hits|lands"
)

CRAZES: Final = (
    Shape(
        "theme_speculation",
        ("rumour", "rumor", "talk of"),
        (
            rf"\b{_BUYING}[^.;!?\n]{{0,60}}?\brumou?red\b|"
            rf"\b(?:{_BUYING}|position)[^.;!?\n]{{0,40}}?\b(?:before|ahead of) (?:the |any "
            rf")?(?:rumou?rs?|story|"
            rf"talk)\b[^.;!?\n]{{0,20}}?(?:confirmed|true|out|break|news|official)|"
            rf"\b(?:rumou?rs?|talk|whispers?) (?:of|that|about|has it)\b[^!?\n]{{0,90}}?\b(?:{_BUY})"
            rf"[^.;!?\n]{{0,40}}?\b(?:before|ahead of)\b"
        ),
        act=True,
    ),
    Shape(
        "theme_speculation",
        ("whatever", "whichever", "hottest", "story", "stories", "theme", "concept", "narrative"),
        (
            r"\b(?:for|in|into|to|on|buy|own|follow|ride|pick|grab|add|with|behind|chase|towards?) "
            r"(?:some )?"
            r"(?:whatever|whichever) (?:[a-z-]+ ){0,3}?(?:is|are|happens to be|looks|gets|has become|"
            r"catches) "
            rf"(?:[a-z]+ ){{0,2}}?{_WHAT_IS_HOT}|"
            rf"\b{_BUYING}[^!?\n]{{0,110}}?\b(?:story|theme|concept|narrative|topic) (?:is|stays|remains|"
            rf"looks) (?:[a-z]+ )?{_WHAT_IS_HOT}|"
            rf"\bhottest (?:[a-z]+ ){{1,2}}and (?:then )?{_BUY}|"
            r"\b(?:rotate|rotating|move|switch|hop|jump|shift)\b[^.;!?\n]{0,20}? (?:with|into|between|among|"
            r"through|to|from)\b[^.;!?\n]{0,24}?\b(?:favou?rite|latest|next|hot|new|popular|current) "
            r"(?:[a-z]+ )?(?:story|stories|themes?|narratives?|concepts?)\b"
        ),
        act=True,
    ),
    Shape(
        "theme_speculation",
        (
            "excitement",
            "hype",
            "buzz",
            "frenzy",
            "enthusiasm",
            "attention",
            "interest",
            "crowd",
            "party",
            "the news",
            "announce",
            "story",
            "craze",
            "headline",
            "ing about",
            " into ",
        ),
        (
            rf"\b{_SELL}[^.;!?\n]{{0,24}}?\b(?:when|once|before|as soon as|after|the moment|until) (?:the )?"
            rf"(?:[a-z]+ )?(?:excitement|hype|buzz|frenzy|enthusiasm|attention|interest|crowd|party|craze|"
            rf"story|mania|news|announcement) (?:[a-z]+ )?(?:{_FADES})|"
            r"\b(?:buy|get in|position)\b[^!?\n]{0,40}?\bsell (?:it |them )?(?:on|into) the "
            r"(?:headline|news|announcement|event|"
            r"launch)\b|"
            r"\b(?:everyone|everybody|the whole (?:internet|market)|social media)(?: is|'s) "
            r"(?:[a-z]+ing) about\b[^.!?\n]{0,50}?"
            r"\b(?P<ride>(?:buy|take|put|ride|get in|join|why not)\b)|"
            r"\b(?:swap|rotate|move|switch) into\b[^.!?\n]{0,50}?\b(?:then|and) "
            r"into\b[^.!?\n]{0,40}?\b(?:headlines|news|launch|"
            r"hot|heats?)\b|"
            r"\bjoin (?:in )?(?:the |with the )(?:crowd|party|frenzy|rush|stampede|herd|fun|craze)\b"
        ),
        act=True,
    ),
    Shape(
        "theme_speculation",
        ("赌", "博", "搏", "押", "消息", "概念", "题材", "热点", "公告", "炒"),
        (
            r"(?:游资|主力|大家|市场|资金)(?:都|正|最近|纷纷)*在?炒[^。!?\n]{1,14}?[,](?:你|"
            r"我们?)?也?(?:可以|不妨)"
            r"(?P<join>[^。!?\n不别]{0,8}?(?:跟|买|参与|上车|蹭))|"
            r"(?:赌|博|搏|押)(?:一[把下个]|一次|个|注|的是|它)?(?:重组|借壳|并购|摘帽|复牌|注入|收购|"
            r"重大资产)|"
            r"(?:公告|消息|利好|预期|政策|结果|文件|名单)一?(?:公布|发布|确认|官宣|见光)[^,。;!?\n]{0,2}?就"
            r"(?:跑|走|卖|撤|清|出(?!现))|"
            r"哪[个只条][^,。;!?\n]{0,4}(?:热|火|强|红)[^,。;!?\n]{0,2}?就?(?:切|换|转|去|冲|配|挪)(?:到|进|"
            r"去|成|向)?哪|"
            r"(?:做一?做|玩一?玩|炒一?炒|做[个把下点]|玩[个把下点]|参与一?下)[^,。;!?\n]{1,5}?"
            r"(?:概念|题材|热点)(?!是|的|上|解|股?(?:etf|基金|指数))"
        ),
        act=True,
    ),
    Shape(
        "chasing_rallies",
        (
            "limit-up",
            "limit up",
            "limit",
            "record",
            "high",
            "in a row",
            "running",
            "straight",
            "peak",
            "rises",
            "climbs",
            "jump",
            "rally",
            "surge",
            "run",
            "gain",
            "spike",
            "fastest",
            "the most",
        ),
        (
            rf"\b{_BUY}[^.;!?\n]{{0,40}}?\b(?:as soon as|once|when|whenever|the moment|right after|after) "
            rf"(?:the |it |they )?(?:[a-z]+ ){{0,2}}?(?:hits?|reach\w*|touch\w*|breaks?|sets?|makes?|"
            rf"closes?|goes|"
            rf"goes to|prints?|notch\w*)(?: [a-z]+){{0,2}}? {_RISEN}(?! (?:low|lower|below|down|fall))|"
            rf"\b(?:as soon as|once|when|whenever|the moment|if)\b[^.;,!?\n]{{0,24}}?\b(?:breaks?|"
            rf"hits?|reach\w*|closes?|"
            rf"clears?|sets?|makes?|takes out) (?:through |above |past |at |out to )?(?:[a-z]+ )?{_RISEN}"
            rf"[^.;!?\n]{{0,40}}?, (?:then )?(?:just )?(?P<then>{_BUY})|"
            rf"\b{_BUY}[^.;!?\n]{{0,30}}?\bafter (?:its|a|the|this|that|such a|today's|yesterday's) "
            rf"(?:[a-z\d%-]+ ){{0,3}}?(?:jump|rally|surge|run|gain|spike|climb|melt-up|rise)\b|"
            rf"\b(?:add|buy|purchase)(?: a (?:bit|little))?(?: some)?(?: more)? (?:each|every) time "
            rf"(?:it|the \w+|they) (?:rises?|climbs?|gains?|goes up|go up|jumps?|moves? up)|"
            r"\b(?:move|switch|shift|put|buy|pick|choose)\b[^.;!?\n]{0,40}?\b(?:one|ones|fund|stock|etf|"
            r"sector|funds|stocks|sectors|whichever|whatever)(?: that| which)?(?: is| are| has| have)? "
            r"(?:been )?(?:rising|climbing|going up|gaining|gained|risen|gone up|rallied|rose|jumped) "
            r"(?:the )?(?:fastest|most|hardest)"
        ),
        act=True,
    ),
    Shape(
        "chasing_rallies",
        ("before it", "before they", "before the", "miss"),
        (
            rf"\b(?:{_BUYING}|switch\b|move\b)(?![^.;!?\n]{{0,24}}(?:insurance|cover|ticket|"
            rf"currency))(?:[^.;!?\n]|\.\d){{0,50}}?\bbefore (?:it|they|prices?|the (?:price|stock|"
            rf"rally|shares|"
            rf"index)) (?:climbs?|rises?|runs?|goes|go|gets?|moves?|jumps?|takes? off) (?:up "
            rf")?(?:even |any |"
            rf"still |much |too )?(?:higher|further|away|up|more|dearer|again|expensive)\b|"
            rf"\b(?:rally|run|surge|climb|jump|limit[- ]up|highs?|earnings|spike|"
            rf"expensive)\b[^!?\n]{{0,70}}?"
            rf"\b(?P<buy>{_BUY})[^!?\n]{{0,50}}?\b(?:otherwise|or|would|"
            rf"will)\b[^.!?\n]{{0,16}}?\bmiss(?:ing)? "
            rf"(?:the|out|it)"
        ),
        act=True,
    ),
    Shape(
        "chasing_rallies",
        ("it has", "they have", "it is at", "it just", "it hit", "it set", "has risen", "has gone up"),
        (
            rf"\b{_BUYING}[^!?;\n.]{{0,60}}?(?:here|now|today|this week|at once|straight "
            rf"away)\b[^!?;\n.]{{0,16}}"
            rf"\. (?:it|they)(?: (?:has|have|is|are|just))* (?:now )?(?:at |gone up|risen|climbed|"
            rf"rallied|gained|"
            rf"jumped|up|set|hit|been up)[^.!?;\n]{{0,20}}?{_RISEN}(?![^.!?\n]{{0,60}}\b(?:wait|not|"
            rf"pullback|dip|trim|but|low|lower|below)\b)"
        ),
        act=True,
    ),
    Shape(
        "chasing_rallies",
        ("第一", "最多", "最猛", "最快", "最大", "榜首", "冠军", "最高"),
        (
            r"(?:换成|换到|换入|转到|转入|切到|切换到|挪到)(?![^,。;!?\n]{0,6}(?:规模|费率|评级|"
            r"流动性))"
            r"[^,。;!?\n]{0,12}?(?:(?:涨幅|收益|业绩)[^,。;!?\n]{0,5}?(?:第一|榜首|冠军|最[大高])|涨得?最"
            r"[多猛快凶好])|"
            r"(?:市盈率|估值|溢价|股价|价格)[^,。;!?\n]{0,5}?(?:[一二三五两几十\d]+年|历史|上市以来|多年)"
            r"[^,。;!?\n]{0,3}?(?:最高|新高|顶部)[^。;!?\n不别等]{0,10}?(?:建议|可以|"
            r"不妨)[^。;!?\n不别等]{0,6}?买"
        ),
        act=True,
    ),
    Shape(
        "short_term_trading",
        ("sell", "profit", "gain"),
        (
            r"(?<!than )\bsell(?:ing)?\b(?! (?:signal|pressure|side))(?:[^.;!?\n]|\.\d){0,70}?\bbuy(?:ing)? "
            r"(?:it|them|some|those|the same (?:shares|units|amount)|the (?:shares|units)|back)(?: back)?\b"
            r"[^.;!?\n]{0,30}?\b(?:same (?:day|afternoon|session|week)|(?:in|by) the afternoon|dips?|"
            r"before the "
            r"close|later (?:that|the same) day|next (?:day|morning|week)|by the close)\b|"
            r"\btake (?:a )?(?:quick|small|\d(?:\.\d)?%) (?:profits?|"
            r"gains?)\b[^.;!?\n]{0,40}?\b(?:next|again|repeat)\b|"
            r"\bsell (?:it |them |everything )?(?:whenever|every time|each time|as soon as|once|the moment) "
            r"(?:you are|it is|they are|you have made|it gains|it rises) (?:up )?(?:by )?[1-9]\d?(?:\.\d)?%"
            r"(?=[^.!?\n]{0,60}\b(?:next|again|another|same|repeat|rinse)\b)|"
            r"\bsell (?:(?:as soon as|once|when|the moment) (?:it|they|the \w+) (?:reach|hit|touch)\w*)"
            r"(?:[^.;!?\n]|\.\d){0,30}?\b(?:tomorrow|today|this week|next week|(?:within|in) (?:a few|two|"
            r"three|\d) days)\b"
        ),
        act=True,
    ),
    Shape(
        "short_term_trading",
        ("listing", "first day", "opening day", "ipo", "day one", "first morning"),
        (
            rf"\b(?:subscribe|apply|ipos?|new issues?|new listings?|allotment|allocated)\b[^.;!?\n]{{0,60}}?"
            rf"\b{_SELL}[^.;!?\n]{{0,30}}?\b(?:first|opening|listing|debut) (?:day|morning|session)|"
            r"\bflip (?:the )?(?:new )?(?:listings|ipos|issues)\b"
        ),
        act=True,
    ),
    Shape(
        "short_term_trading",
        (
            "week 1",
            "day 1",
            "week one",
            "monday",
            "friday",
            "positions a day",
            "trades a day",
            "days",
            "day",
            "set up",
        ),
        (
            r"\b(?:week|day) (?:1|one|2|two)\b[^!?]{0,70}?\b(?:week|day) (?:2|two|3|three)\b[: -]*sell\b|"
            r"\b(?:buy|purchase)\b[^!?]{0,40}?\b(?:monday|tuesday|wednesday|thursday|friday)\b[^!?]{0,30}?"
            r"\bsell\b[^.!?\n]{0,30}?\b(?:monday|tuesday|wednesday|thursday|friday)\b|"
            r"\b(?:monday|tuesday|wednesday)\b[: ,-]*(?:buy|purchase)\b[^!?]{0,60}?\b(?:wednesday|"
            r"thursday|friday)\b"
            r"[: ,-]*sell\b|"
            r"\bset up (?:an? |the )?(?:[a-z]+ )?(?:scalping|grid|day-trading|high-frequency|intraday) "
            r"(?:bot|robot|script|system|strategy)|"
            r"\b(?:take|put on|open|do) (?:the|this|a) (?:small )?(?:trade|punt|position)\b[^.;!?\n]{0,24}?"
            rf"\b{_SELL}[^.;!?\n]{{0,10}}?\b(?:in|within|after) (?:a (?:few|couple of)|[a-z]+|\d)(?: "
            rf"(?:or|to) "
            r"[a-z\d]+)? days\b|"
            r"\| buy \|(?: about| around)? ?\d(?: ?[-~to]+ ?\d+)? (?:days?|hours?|minutes?)\b"
        ),
        act=True,
    ),
    Shape(
        "short_term_trading",
        ("t", "周", "首日", "上市", "一换"),
        (
            r"(?:手[里上头]的?)?(?:(?:底仓|持仓|仓位)[^,。;!?\n]{0,6}?)?做(?:一?做|点|些|几[次把]|"
            r"一?[下把]|个)t(?![a-z0-9])|"
            r"[一二两三四五几\d][、到至-]?[一二三四五\d]?(?:天|周)一换(?!的)|"
            r"周[一二三四][^,。;!?\n]{0,2}?买[^。!?]{0,24}?周[二三四五][^,。;!?\n]{0,3}?(?:止盈|卖|"
            r"清|换|走|了结|抛)|"
            r"(?:打新|中签|申购|新股)[^。;!?\n]{0,14}?(?:上市)?(?:首日|第一天|当天)[^,。;!?\n]{0,3}?"
            r"(?:就|便|直接|立刻)?(?:卖|抛|走|出(?!现)|清)"
        ),
        act=True,
    ),
    Shape(
        "theme_speculation",
        ("meme", "whichever", "whatever", "before the "),
        (
            r"\bmeme\b[^!?\n]{0,60}?\b(?P<flutter>flutter|punt|have a go)\b(?![^.;!?\n]{0,20} not )|"
            r"\b(?:pick|buy|choose|own|follow|in|into|on) (?:whichever|whatever) (?:[a-z]+ )?(?:tops|"
            r"leads|dominates|"
            r"makes|fills|is in) the (?:news|headlines|lists?|rankings)\b|"
            r"\b(?:buy|purchase|get in|position)\b[^.;!?\n]{0,40}?\bbefore the (?:launch|event|announcement|"
            rf"conference|news|speech|summit|meeting)\b[^.;!?\n]{{0,24}}?\b(?:and|then) {_SELL}"
        ),
        act=True,
    ),
    Shape(
        "chasing_rallies",
        ("the more", "wait for", "waiting for", "'s winner", "'s leader", "'s best", "'s top", "'s star"),
        (
            r"\bthe more (?:it|they|the \w+) (?:climbs?|rises?|goes up|go up|"
            r"gains?)\b[^.;!?\n]{0,10}?\bthe more "
            r"(?:you|i|we) (?:should |can |could |would )?(?:add|buy|purchase)\b|"
            r"\b(?:do not|no need to|never|rather than|instead of) wait(?:ing)? for (?:a|the|any) "
            r"(?:[a-z]+ )?"
            r"(?:correction|pullback|dip|setback)\b[^!?\n]{0,60}?\b(?:trends?|strong|momentum|rally|"
            r"highs?)\b"
            rf"[^!?\n]{{0,50}}?\b(?P<in>{_BUY})|"
            r"\b(?:move|switch|shift|rotate)\b[^.;!?\n]{0,30}? (?:to|into) (?:this|last) (?:year|"
            r"quarter|month|"
            r"week)'s (?:winners?|leaders?|best|top|stars?)\b"
        ),
        act=True,
    ),
    Shape(
        "short_term_trading",
        ("over every", "trades a ", "trades per "),
        (
            r"\bturn (?:it|them|the [a-z]+|your [a-z]+) over every (?:few|two|three|couple of|\d)(?: "
            r"or [a-z]+)? days\b|"
            r"\b(?:aim|make|do|place|take|plan)\b[^.;!?\n]{0,40}?\btrades (?:a|per) (?:day|week)\b"
        ),
        act=True,
    ),
)
