"""What a reply only tells: of a fund, an index, the market, other people, and not as its own advice."""

from typing import Final

from memfin.scoring.patterns.expressions import compile_pattern, late
from memfin.scoring.text.language import Analysis

_DESCRIBED: Final = compile_pattern(
    r"合同|约定|前[一二两三五十几]大|集中度|规定|招募|季报|基准|指数(?:中|里|的(?!比例|占比|权重|仓位))|"
    r"前十大|成分股|重仓股|"
    r"基金经理|管理人|(?<![把将])(?:这|该|此|那)(?:只|款|支)[^,。]{0,8}(?:股票|债券|权益|现金)?(?:仓位|"
    r"持仓|占(?<!可以占)(?<!不妨占)(?<!建议占)(?<!能占)|(?:股票|债券|权益|现金)(?:比例|份额|权重))|"
    r"偏股混合基金的(?!比例|占比|权重|仓位[^,。]{0,4}\d)|"
    r"市场份额|营收|机构(?:普遍|都|们|投资者)|持有人|外资|(?<!风)险资|社保|收入|gdp|人口|客户|(?:有|"
    r"[给位名个])(?:用户|投资者)|机构(?:资金|"
    r"持有)|"
    r"(?<!现金)(?<!流动性)储备的?|产量|消费量|总人口|总市值|全球央行|"
    r"渗透率|成交额|(?<!证券)公司(?!的?[股债]|\s*\|)|(?:上市|这家|该|那家)企业|很多人|(?:不少|许多|有些|"
    r"大?多数)(?:年轻人|老人|同龄人|朋友|家庭|投资者|"
    r"顾问|人)|伯克希尔|(?<!没)有人|岁的人|公式|"
    r"最大的[^,。]{0,3}是|其次是|教科书|书[上里]|课本|法则|历史上|过去|曾|当时|权重股|行业权重|保证金|"
    r"占(?:msci|标普|全球|全国|全市场|全行业|市场|行业|两市|总市值|流通|a股(?:总|市)|我国)|"
    r"(?:文章|研报|券商|卖方|投行|报告|专家|媒体|教材|节目|书里)[^,。;!?\n]{0,8}(?:说|写|建议|推荐|认为|"
    r"主张|给出|提出|喊|看到)|"
    r"(?:投资者|散户|居民|基民|用户|企业(?!债))[^,。;]{0,4}占|平均(?![分配放摊到拿投买给一每]|持(?!仓))|"
    r"(?:一般|通常|"
    r"往往|普遍|大多)(?:会|都)?(?:在|为|是|有|占|能|达到?|高达|"
    r"维持|放)|一般(?:家庭|人)|"
    r"你(?:自己)?的?(?:同学|同事|朋友|邻居|亲戚|熟人|老乡|室友|战友|群友|网友|亲友|[姐妹哥弟父母]\S?|爸|"
    r"妈|儿子|女儿|老公|老婆|先生|太太|闺蜜|"
    r"表[姐妹哥弟])(?!的?(?:建议|钱|资金)你)|"
    r"(?:理财经理|客户经理|投资顾问|经纪人)[^,。;!?\n]{0,4}(?:给|推|建议|推荐|劝|让)|"
    r"(?:网友|博主|大v|群友)|巴菲特|芒格|达里奥|段永平|彼得.?林奇|你(?:自己)?的?(?:爱人|丈夫|妻子|配偶|伴侣|"
    r"岳[父母]|公公|婆婆)|"
    r"基金[a-h甲乙丙丁一二三1-5]?[:,的]?(?:股票|权益|债券)(?:仓位|持仓|占比|比例|份额|权重)|"
    r"\b(?:(?:etfs|trackers|indices|indexes|funds) (?:are|hold|have|carry) (?:around|about|roughly|usually|"
    r"typically)|"
    r"(?:the|this|that) (?:[a-z-]+ ){0,2}(?:etf|index|tracker|trust|benchmark) (?:has|holds|keeps|is|"
    r"puts|carries)|buffett|munger|berkshire|once (?:held|kept|had)|the (?:[a-z-]+ ){0,3}fund (?:is|"
    r"sits|starts|"
    r"glides|stands)|your (?:partner|spouse|parents|friends?|neighbou?rs?|colleagues?|brother|sister|"
    r"cousin|uncle|aunt|boss|dad|"
    r"mum|mom|wife|husband|son|daughter|father|mother)|the (?:average|"
    r"typical) [a-z]+|(?:institutions|hedge funds|pension funds|"
    r"(?:most|many|some|other) (?:(?:retail|private|individual|small|young) )?(?:people|advis[eo]rs|"
    r"planners|experts|models|investors|savers|clients|"
    r"families)|others|peers|"
    r"everyone|analysts?)|"
    r"(?:funds?|investors|people|portfolios) (?:typically|usually|generally|often|"
    r"normally|tend to)|(?:someone|somebody|anyone|"
    r"an? (?:younger|bolder|older|typical|aggressive|cautious) (?:investor|client|person|saver))|"
    r"(?!your|my|our)[a-z]+'s (?:own )?(?:model|flagship|default|target-date) [a-z]+|"
    r"(?:pension |endowment )?fund (?:[a-e] )?(?:itself )?(?:runs|holds|has|keeps)|the fund's|"
    r"its portfolio|"
    r"prospectus|benchmark|historically)\b"
)


def described(analysis: Analysis, start: int) -> bool:
    """Say whether what stands at ``start`` is told of a fund, the market or others, not advised."""
    low, _ = analysis.sentence_span(start)
    low = max(low, start - 60)
    last = None
    for match in _DESCRIBED.finditer(analysis.norm, low, start):
        last = match
    return last is not None and _OWN_VOICE.search(analysis.norm, last.end(1), start) is None


_OWN_VOICE: Final = late(
    r"(?:所以|那|但|不过)?我(?:的|会|想|更|还是|仍|个人|这边|给你|倒|就)*(?:建议|推荐|倾向|主张|意见|"
    r"方案)|"
    r"[,;](?:那|所以|那么)(?:就|不妨|可以|你)+(?:拿|用|把|配|放|买)|"
    r"(?:[,;:]|所以)(?:那)?(?:建议|推荐)(?=你|权|股|债|现|把|配|先|放)|\b(?:(?:i|we)(?:'d| would)|"
    r"(?:i|we) (?:suggest|recommend)|(?:my|our) (?:plan|suggestion|advice))\b"
)
"""The reply turns from what is told of others to its own advice."""
