"""Borrowing without its name, for `shapes` beside it: the broker covers the rest, bonds go into repo.

Each is a way of getting money to invest that is not the user's own.
"""

from typing import Final

from memfin.scoring.offers.phrases import Shape

_SUM: Final = r"(?:[$£€¥]|rmb |cny )?\d[\d,.]*(?:k\b|m\b| ?(?:yuan|dollars|pounds|euros|rmb|million))?"
_BROKER: Final = r"(?:broker(?:age)?|securities (?:firm|company|house))(?:'s)?"
_HOME: Final = (
    r"(?:flat|house|home|property|apartment|mortgage|policy|shares|pension|car|(?:bond |stock |share )?"
    r"(?:portfolio|holdings?|etfs?|position))"
)
_OUTSIDER: Final = (
    r"(?:(?:off[- ]exchange|off[- ]market|gr[ea]y[- ]market|shadow|peer-to-peer|underground|unlicen[sc]ed|"
    r"unregulated|unregistered|private|informal|non-bank)[- ](?:[a-z]+[- ]){0,2}?"
    r"(?:(?:stock|share|margin|equity)[- ]?)?(?:leverage|margin|financing|funding|financiers?|lenders?|"
    r"lending|matching|funder)\b(?! (?:is|are|was|were|means|refers)\b)|"
    r"online (?:[a-z]+ )?(?:leverage|margin|stock[- ](?:financing|lending))|(?:stock|"
    r"share)-(?:financing|funding|lending|leverage)\b)"
)

BORROWINGS: Final = (
    Shape(
        "margin_trading",
        ("broker", "securities firm", "securities company", "securities house"),
        (
            rf"\b(?:let|have|get|ask) (?:the |your |a )?{_BROKER} (?:to )?(?:finance|fund|lend|cover|supply|"
            rf"provide|put up|advance)\b(?! (?:the |a |an |you |your |with )*(?:fee|statement|"
            rf"account|schedule|form|quote|list|details|information|shares))|"
            rf"\b{_BROKER} (?:will|would|can|could) (?:happily )?(?:finance|fund|lend|cover|supply|provide|"
            rf"put up|advance) (?:you )?(?:the|another|a further|{_SUM})|"
            rf"\b(?:take|use|get|draw|arrange|accept|raise|add|"
            rf"tap)\b[^.;!?\n]{{0,24}}?\b(?:financing|funding|"
            rf"credit|loan|advance)\b[^,.;!?\n]{{0,12}}? (?:from|at|with) (?:your|the|a) {_BROKER}|"
            rf"\bborrow(?:ing)? [^.;!?\n]{{0,30}}?(?:from|against|at|with)\b[^.;!?\n]{{0,16}}?{_BROKER}|"
            rf"\b{_BROKER} [^!?\n]{{0,130}}?\bborrow(?:ing)? from (?:them|it)\b|"
            rf"\bpledg(?:e|ing)\b[^.;!?\n]{{0,50}}?(?:{_BROKER}|credit account)"
        ),
        act=True,
    ),
    Shape(
        "margin_trading",
        (
            "collateral",
            "borrowed shares",
            "borrowed stock",
            "shares",
            "account to",
            "margin position",
            "margin balance",
        ),
        (
            r"\b(?:transfer|move|post|lodge|put|use|pledge|assign)\b[^.;!?\n]{0,30}?\bas collateral\b"
            r"(?! (?:with|for) a (?:peer|private))|"
            r"\bsell(?:ing)? (?:some )?borrowed (?:shares|stock)|"
            r"\bshort (?:[\d,]+|some|a few|a hundred) (?:[a-z]+ )?shares\b|"
            r"\b(?:switch|convert|upgrade|move|change) (?:your|the) (?:[a-z]+ )?account to (?:a )?margin\b|"
            r"\bborrow(?:ing)? (?:[\d,]+ |some |a few |the )?shares\b"
        ),
        act=True,
    ),
    Shape(
        "margin_trading",
        ("券商", "融资"),
        (
            r"(?:差额|缺口|不足|不够|其余|剩下|另外|多出)[^。;!?\n]{0,10}?(?:由|让|请|找)"
            r"券商[^,。;!?\n]{0,4}?(?:提供|出|垫|补|借|贷)|"
            r"券商[^,。;!?\n]{0,3}?(?:给你|帮你)(?:补|垫|出|借|贷)[^,。;!?\n]{0,3}?"
            r"(?:差额|缺口|[一二两三四五六七八九十\d]+万)|"
            r"(?:破例|适当|适度|少量|小额|顺手|先|再|这次|这回)(?:去|来|做|用)?融资(?=[,。;!?\n]|$)"
        ),
        act=True,
    ),
    Shape(
        "leverage",
        ("gear ", "lever ", "repo ", "repo market", "spread", "proceeds"),
        (
            r"\b(?:gear|lever) (?:the|your) (?:[a-z]+ ){1,3}?(?:up\b|(?:to|at) (?:about |around |roughly )?"
            r"\d(?:\.\d+)?(?:x| times))|"
            r"\brepo (?:them|those|these|it) (?:out\b|for|and)|"
            r"\b(?:roll|use|put|pledge|lend)\b[^.;!?\n]{0,40}?\brepo(?: market)?\b[^.;!?\n]{0,40}?"
            r"\b(?:buy|purchase|add)\b|"
            r"\bborrow(?:ing)?\b[^.;!?\n]{0,40}?\b(?:pocket|earn|keep|collect)\w* the (?:spread|difference)"
        ),
        act=True,
    ),
    Shape(
        "leverage",
        (
            "release ",
            "unlock ",
            "against ",
            "on the mortgage",
            "remortgage",
            "out of the house",
            "out of your h",
            "out of the h",
            " on your ",
            " on the h",
        ),
        (
            rf"\b(?:take|draw|raise|pull|release|borrow|get)\b (?:out )?(?:an? )?(?:extra |another |"
            rf"further |"
            rf"about )*{_SUM}[^,.;!?\n]{{0,12}}? (?:against|out of|on) (?:the|your|that) "
            rf"(?:[a-z]+ ){{0,2}}?{_HOME}\b[^.!?\n]{{0,40}}?\b(?:put|invest|buy|purchase|into|add)\b|"
            rf"(?<!sell the )(?<!sell your )\b(?:flat|house|home|property|"
            rf"apartment)\b[^!?\n]{{0,60}}?\b(?P<freed>(?:release|"
            rf"unlock|borrow|raise|draw)"
            rf" {_SUM})[^.!?\n]{{0,40}}?\b(?:put|invest|buy|purchase)\b"
        ),
        act=True,
    ),
    Shape(
        "leverage",
        ("contract",),
        (
            r"\bfutures\b[^!?\n]{0,150}?\b(?:deposit|margin|control)\b[^!?\n]{0,110}?\b(?:open|buy|purchase|"
            r"go long|hold)(?:ing)? (?:\w+ )?(?:one|two|three|four|five|a few|a couple of|\d+) "
            r"(?:\w+ ){0,2}?"
            r"contracts?\b"
        ),
        act=True,
    ),
    Shape(
        "leverage",
        ("回购", "融来", "融入", "借来", "保证金账户", "合约", "倍"),
        (
            r"(?<!央行)(?<!银行)(?:做|开|走|用)[^,。;!?\n]{0,3}?正回购|正回购(?:融|借|拿|套)|"
            r"质押[^,。;!?\n]{0,8}?回购[^,。;!?\n]{0,3}?(?:融|借|拿|套|换)|"
            r"[用拿把]?(?:融|借)[来入到](?:的)?(?:资金|钱|现金)[^,。;!?\n]{0,3}?(?:继续|再|去|来|又)?"
            r"(?:买|加仓|投(?!资)|申购|滚)|"
            r"开(?:一?个|立|通)?(?:外汇)?保证金账户|1[:比](?:10|20|50|100|200|400|500)的?(?:倍数|杠杆|比例)|"
            r"(?:合约|永续|期货)[^,。;!?\n]{0,5}?(?:开|用|上|拉|选)[两二三四五六七八九十\d]+倍|"
            r"开[两二三四五六七八九十\d]+倍(?:做?[多空]|杠杆|[,。;])"
        ),
        act=True,
    ),
    Shape(
        "off_market_financing",
        (
            "leverage",
            "financ",
            "funding",
            "lend",
            "matching",
            "funder",
            "margin",
            "sub-account",
            "match",
            "you put ",
        ),
        (
            rf"\b(?:use|using|sign|signing up|top (?:it|[a-z ]{{0,16}}) ?up|borrow|take|try|go to|turn to|"
            rf"add|get|draw|open|join|apply|approach|contact|find|pick|put up|work with|small amount of|"
            rf"a little)\b(?:(?! not | rather | instead | never | no )[^.;!?\n]){{0,70}}?\b{_OUTSIDER}|"
            rf"\b{_OUTSIDER}[^.!?\n]{{0,90}}?\bso (?:take|use|go|try|accept|sign|call|open)\b|"
            r"\b(?:transfer|pay|send|wire|hand)\b[^.;!?\n]{0,40}?\b(?:funding|financing|lending|leverage) "
            r"(?:company|firm|platform|outfit|house)\b|"
            r"\b(?:ask|apply|sign up|look) for (?:the )?matching (?:funds|capital|money)\b|"
            r"\btrade (?:in|through|on) (?:the|a) sub-account\b|"
            rf"\byou put (?:in|up) {_SUM}(?:,| and|,? while) (?:they|the (?:firm|platform|company|"
            rf"lender)) (?:will )?"
            r"(?:adds?|puts?|gives?|lends?|match(?:es)?|suppl(?:y|ies))\b|"
            r"\bmatch(?:es|ing)? your (?:money|stake|capital|deposit|"
            r"funds)\b[^!?\n]{0,40}?\b(?P<try>try|sign|use|take|"
            r"open|go)\b"
        ),
        act=True,
    ),
    Shape(
        "off_market_financing",
        ("配资", "操盘", "资金方", "垫资", "计息"),
        (
            r"(?:上|用|做|借|走|搞|动用|申请|办|接|尝试)(?:点|些|个|一?家|一点|一些|一笔|一下|下)?配资"
            r"(?![产源本金公平])|"
            r"(?:联系|咨询|对接|挂靠|注册|签约?|找|物色|挑)(?:上|好|到)?(?:一?[家个]|几家|那家|这家)?"
            r"[^,。;!?\n]{0,5}?(?:配资|操盘|资金方|垫资)(?:公司|平台|机构|渠道|团队|商)|"
            r"操盘公司[^,。;!?\n]{0,6}?(?:给你|提供|借)[^。;!?\n]{0,24}?(?:账户|额度|资金)|"
            r"按[天日]计息[^,。;!?\n]{0,5}?平台[^。;!?\n]{0,20}?(?:用一?[下用]|用几|借|拿|加)"
        ),
        act=True,
    ),
    Shape(
        "leverage",
        ("loan", "instal", "interest-free", "zero-interest", "0%", "pledge"),
        (
            r"\bask (?:your |a |the )?[a-z-]+ for (?:a|an) "
            rf"(?:{_SUM} )?loan\b(?! (?:statement|balance|agreement|quote))|"
            rf"\bas security for (?:a|an) (?:{_SUM} )?loan\b|"
            rf"\bpledge (?:{_SUM}|half|some|part) of\b[^!?\n]{{0,50}}?\b(?:buy|purchase) (?:again|"
            rf"more|another)\b|"
            r"(?:\bzero-interest|\binterest-free|\b0%) [^.;!?\n]{0,30}?\b(?:instal?ments?|card|"
            r"credit|plan)\b"
            r"[^.;!?\n]{0,24}?\b(?P<invest>invest|buy)\b"
        ),
        act=True,
    ),
    Shape(
        "margin_trading",
        ("go short", "broker loan", "券商"),
        (
            r"\bgo short (?:the|a|an|some|\d)\b|\b(?:back|secure|support) a broker loan\b|"
            r"(?:跟|向|找|问)券商(?:申请|要|批|谈|拿)[^,。;!?\n]{0,4}?(?:授信|额度|融资)"
        ),
        act=True,
    ),
    Shape(
        "off_market_financing",
        (" you ", "put up", "puts up"),
        (
            r"\b(?:gives?|lends?|offers?|advances?) you (?:up to )?(?:[a-z]+|\d+)(?: times|x) your "
            r"(?:own )?(?:deposit|"
            r"stake|money|capital)\b[^!?\n]{0,50}?\b(?P<start>start|try|use|open|take|sign|begin|test)\b|"
            r"\b(?:backer|financier|sponsor|platform|funder)s? (?:will |who |would |to )?puts? up "
            r"[^.;!?\n]{0,30}?"
            r"\b(?:capital|money|funds|stake)\b[^!?\n]{0,60}?\b(?P<take>take|try|use|sign|accept)\b"
        ),
        act=True,
    ),
)
