"""The turns of phrase of `memfin.scoring.offers.shapes`: patterns, with the words they cannot do without."""

from typing import Final, NamedTuple

_COUNT: Final = r"(?:[一两二三四五六七八九十几\d]+|若干)(?:来|多)?[家只支]"
_CLAUSE: Final = r"[^,:;。!?\n]"
_LINE: Final = r"[^。;!?\n]"


class Shape(NamedTuple):
    """A turn of phrase of a term; ``act`` when it is a way of dealing, ``signs`` without which it is none."""

    term: str
    signs: tuple[str, ...]
    pattern: str
    act: bool


SHAPES: Final = (
    Shape(
        "individual_stocks",
        ("家", "只", "支", "小龙", "巨头", "大行", "桶油"),
        (
            r"[两三四五六七八](?:小龙|巨头|大行|桶油)(?!的?(?:产品|存款|理财))|"
            r"[一二两三四五\d]家[^,。;:的!?\n]{1,8}?(?:各|占|放|给|配)?(?:[一二两三半]成|\d+%|"
            r"[一二两三四五六七八九\d]+个点)|"
            rf"(?:{_COUNT}|[那这有某]家)(?!基金|etf|债){_CLAUSE}{{0,10}}?(?:公司(?![债型])|企业(?!债)|"
            rf"龙头(?!etf|基金|指数)|厂商|白马|蓝筹|银行(?![a-z理])|"
            rf"[一-龥](?<![基混偏债股招个持参控炒])股(?![票份权息东债指本]|基金|型))(?!的?(?:同类|产品|"
            rf"债|理财|基金|指数|存款|etf))"
        ),
        act=False,
    ),
    Shape(
        "individual_stocks",
        ("compan", "ers", "ors", "stocks", "banks", "shares", "names", "firms", "business", "utilit", "ises"),
        (
            r"\b(?:one|two|three|four|five|six|seven|eight|ten|a (?:handful|couple|few|pair|trio|basket) of|"
            r"half a dozen|a few|(?:my|our) favou?rite) (?:(?!funds?\b|etfs?\b|index\b|of\b)[a-z'-]+ ){0,3}?"
            r"(?:companies|stocks|banks|names|firms|makers|producers|miners|utilities|retailers|"
            r"insurers|businesses|corporations|operators|manufacturers|franchises|chains|"
            r"lenders|brewers|airlines|carmakers|drugmakers|chipmakers|builders)\b"
            r"(?! (?:funds?|etfs?|index|indices))"
        ),
        act=False,
    ),
    Shape(
        "individual_stocks",
        ("-stock", "portfolio of", "the one ", "the only "),
        (
            r"\b(?:two|three|four|five|six|seven|eight|ten|\d+)-stock\b|"
            r"\bportfolio of (?:[a-z]+ )?(?:stocks|shares|"
            r"banks|companies)\b|\bthe (?:one|only) (?:company|stock|share|name) (?:i|we)(?:'d| would)"
        ),
        act=False,
    ),
    Shape(
        "individual_stocks",
        ("buy ", "purchase ", "pick up", "grab ", "order ", "position in", "weakness", "dips", "on any"),
        (
            r"\b(?:add|buy|purchase|accumulate) (?!(?:the|a|to|it|more|some|gold|bonds?|gilts?|index|tracker|"
            r"stocks|shares)\b)[a-z.&-]+"
            r"(?: (?!funds?\b|etfs?\b|index\b|tracker\b)[a-z.&-]+)? on (?:weakness|dips|any (?:dip|"
            r"pullback|weakness))|"
            r"\b(?:buy|purchase|pick up|grab|order) (?:\d+ (?:shares? (?:of|in) |units of )?|a (?:starter |"
            r"small |"
            r"full )?position in |a few |some )?[a-z.&-]+(?: [a-z.&-]+)?,? (?:at|under|below|around) \$?\d"
        ),
        act=True,
    ),
    Shape(
        "hk_us_stocks",
        ("港", "hk"),
        (
            r"(?<![\d.])0\d{4}(?![\d.])(?=[^。!?\n]{0,24}(?:港|hk))|(?<!\d)\d{4,5}\.hk\b|\bhk\$ ?\d|"
            r"\d ?港[元币](?:以[内下]|附近|左右|上下)?[^,。;!?\n]{0,6}(?:买|接|吸|扫|挂|建|捡|收|抄)"
        ),
        act=False,
    ),
    Shape(
        "leverage",
        ("x ", "倍", "leverag", "double", "triple", "gear", "twice", "three-times", "two-times"),
        (
            r"(?<![\d.])[23](?:\.\d)?x (?!earnings|sales|book|as |more|the |revenue|cash|ebit|free|in )|"
            r"\b(?:double|triple|twice|two-times|three-times)[- ](?:leveraged|long|inverse|exposure|"
            r"the (?:daily|"
            r"move))|\bgear(?:ed (?:fund|etf|product)| (?:the|your) [a-z])|"
            r"[两二三23]倍(?:做[多空]|反向|看[多空]|杠杆|多头|纳|标普|恒|的?[^,。;]{0,4}(?:etf|产品))"
        ),
        act=False,
    ),
    Shape(
        "leverage",
        ("仓", "敞口", "exposure", "of capital", "invested", "margin"),
        (
            r"(?:总?仓位?|持仓|敞口)[^,。;!?\n]{0,8}?1[1-9]\d%|\bexposure\b[^.;!?\n]{0,24}?\b1[1-9]\d%|"
            r"\b1[1-9]\d% (?:exposure|invested|long|of (?:your |the )?capital)|"
            r"\b(?:use|using|with|add|apply) (?:about |only |just )?\d+% margin\b"
        ),
        act=True,
    ),
    Shape(
        "leverage",
        (
            "借",
            "贷",
            "套",
            "融",
            "刷",
            "周转",
            "信用卡",
            "花呗",
            "白条",
            "倍",
            "凑",
            "匀",
            "挪",
        ),
        (
            r"(?:借(?<![出网民间拆租]借)|贷(?<![房车还商公借信按]贷)|"
            r"套(?<![一两二三四五六七八九十几这那每整半全\d]套)|融(?<!金融)|刷)(?:它|个|出来?|来|一笔|"
            r"上|点|到)?"
            r"[一二两三四五六七八九十百\d]+(?:多|来|几)?[万千](?!亿)|(?:做|办|走)(?:个|一笔|一次)?二押|"
            r"(?:贷|借|融|套)[^。;!?\n]{0,20}?[拿用](?:这|那)[笔些]?(?:钱|款|资金)[^,。;]{0,4}?(?:买|"
            r"投|配|补|加|进)|(?:亲戚|亲友|朋友|父母|家里|家人|同事|邻居|老乡|网友|老人|丈人|岳父|兄弟|"
            r"[姐哥妹弟][姐哥妹弟]|"
            r"同学|熟人|闺蜜)(?:那边|那里|"
            r"那儿|手里|处)?[^,。;!?\n]{0,4}?(?:周转|借(?![给条])|挪|凑|匀)(?:来|到|个|出)?"
            r"(?:[一二两三四五六七八九十\d几]+[来多]?万|点|些|一笔)|"
            r"\d(?:\.\d)?倍的?(?:购买力|资金|额度|敞口|头寸|仓位|本金)|"
            r"(?:贷(?<![房车还商公信按]贷)(?!款(?:结构|增速|数据|总量|规模|投放|需求|占比|质量))|"
            r"借(?<![出网民间拆租]借)|"
            r"融(?<!金融)|套(?<![一两几这那每整]套)|透支)出?"
            r"[^。;!?\n不别勿没]{0,24}?(?:取出来?|[拿用]来|[拿用]去|用于|转手|全[数部])[^,。;!?\n]{0,6}?"
            r"(?:投(?!资者)|买|加[到仓进]|补仓|配(?![偶])|入市|抄底|申购)|"
            r"(?:信用卡|花呗|白条)[^,。;!?\n]{0,6}?(?:周转|垫|顶|凑|过渡|刷出|套出)|"
            r"(?:找|跟|向|问|管)(?![你我])[^,。;!?\n]{1,5}?先?(?:拿|要|支|挪|凑|"
            r"匀)[一二两三四五六七八九十百\d]+万|"
            r"(?:向|跟|找|问|管)[^,。;!?\n]{1,6}?(?:周转|拆借|挪借|借(?=[一两点些个\d二三四五六七八九十]))|"
            r"(?:保单|信用卡|房子|房产|存单|黄金)(?:质押|抵押|贷款|分期|借款)(?!利率|合同|余额|年限|人)"
        ),
        act=True,
    ),
    Shape(
        "leverage",
        ("loan", "overdraft", "mortgage", "borrow", "credit"),
        (
            r"\b(?:take|draw|get|arrange|use|tap|raise|apply for)(?: out| down| up)? (?:a|an|your|the|some) "
            r"(?:[$£€¥]?[a-z\d,.-]+ ){0,4}?(?:loan|overdraft|credit line|mortgage|advance)\b|"
            r"(?<!that )(?<!who )(?<!which )(?<!firms )(?<!companies )\bborrow (?:\$?\d|some|against|a |"
            r"from|at |the )"
        ),
        act=False,
    ),
    Shape(
        "derivatives",
        ("contract", "futures", " put", " call", "多", "空", "合约", "多单", "空单", "认购", "认沽"),
        (
            r"\b(?:go )?(?:long|short|buy|purchase|sell|offload|unload) (?:(?:\d+|one|two|three|four|five|a|"
            r"the) )?(?:[a-z&-]+ ){0,3}?"
            r"(?:contracts?|futures)\b|\b(?:sell|offload|unload|write|buy|purchase) (?:(?:one|an?|two|three|"
            r"\d+|weekly|monthly|"
            r"some) )?(?:[a-z-]+ )?(?:puts?|calls?)\b(?! (?:it|off|your|the|in|to|on hold))|"
            r"做?[多空][一两三几\d]+[手张]|买(?:入|进|点|些|张|几张)?(?:虚值|实值|平值|近月|"
            r"远月)?认[购沽](?:期权|合约)?(?=[,。;!?\n]|$)|[开挂下接](?:[一两三几\d]+[手张])?[多空]单|"
            r"[一两三几\d]+[手张](?:[^,。;!?\n]{0,6})?(?:合约|多单|空单)"
        ),
        act=True,
    ),
    Shape(
        "active_funds",
        ("manager", "picker", " by ", "经理", "老将", "名将", "选股"),
        (
            r"\b(?:stock[- ]pickers?|whose manager|star manager|active manager|"
            r"the (?:[a-z]+ )?manager (?:behind|of|at|who))\b|"
            r"\bfund (?:run|managed|steered|led) by [a-z]+ [a-z]+|"
            r"(?:经理|老将|名将|老手|高手)[^,。;!?\n]{0,4}(?:掌舵|操刀|执掌|主理|亲自|打理|坐镇|领衔|"
            r"管着?的)|这位(?:基金)?经理|经理[^,。;!?\n]{0,2}管了|"
            r"选股(?:功力|能力|眼光|水平)[^,。;]{0,6}(?:深|强|好|高|毒|一流|过硬|出色)"
        ),
        act=False,
    ),
    Shape(
        "leverage",
        ("贷", "呗", "额度", "白条"),
        (
            r"(?:信用贷|消费贷|经营贷|抵押贷|网商贷|微粒贷|现金贷|装修贷|贷款|借呗|花呗|白条|"
            r"授信)[^。;!?\n不别勿没还]{0,14}?"
            r"(?:转[进入到]|打[进入到]|投[进入到]|放[进入到]|挪[进入到]|拿去|用来|"
            r"支(?=[一二两三四五六七八九十\d]+[万千])|提(?=[一二两三四五六七八九十\d]+[万千]))"
        ),
        act=True,
    ),
    Shape(
        "margin_trading",
        ("融",),
        (
            r"融(?<!金融)(?:它|个|出|来|进|入|一笔|上|点|到)?[一二两三四五六七八九十百\d]+(?:多|来|"
            r"几)?[万千](?!亿)"
            r"(?![^。;!?\n]{0,12}?(?:就亏|亏了|赔))"
        ),
        act=True,
    ),
    Shape(
        "ipo_subscription",
        ("上市", "listed"),
        (
            r"上市(?:才|刚|仅|还)?(?:不到|不足|不满|只有|"
            r"满)?[一二两三四五六七八九十几\d][、到至-]?[一二两三四五六七八九十几\d]?"
            r"个?(?:多|半)?(?:月|周|星期|天)(?:的|左右|出头)?[^,。;!?\n]{0,4}?(?:公司|股|票|标的|企业|里|,)|"
            r"\blisted (?:only |just |barely )?(?:a few|some|two|three|four|five|six|\d+) (?:days|weeks|"
            r"months) ago\b"
        ),
        act=False,
    ),
    Shape(
        "bottom_fishing",
        ("成本", "跌", "、", "cost", "average", "falls", "drop"),
        (
            r"\d+(?:\.\d+)?(?:元|块)?[、和]\d+(?:\.\d+)?(?:元|块)?(?:[、和]\d+(?:\.\d+)?(?:元|"
            r"块)?)?[^,。;!?\n]{0,10}?(?:各|分别)(?:投|买|补|加|接|进)|"
            r"(?:平均|持仓|单位)?成本(?:价)?[^,。;!?\n]{0,4}?(?:能|可以?|就|会)?(?:降到|降至|"
            r"拉到|摊到|降下来|摊下来|拉下来|压到|压低)|"
            r"(?:跌到|回到|到)\d+(?:\.\d+)?[元块]?[^,。;!?\n]{0,3}?(?:投|买|加|补|"
            r"接)[^。;!?\n]{0,20}?(?:跌到|回到|到)\d+(?:\.\d+)?[元块]?[^,。;!?\n]{0,3}?(?:投|买|加|补|接)|"
            r"(?:亏|跌|套)得?最[多狠惨深][^。;!?\n]{0,14}?(?:加[仓码]?|补[仓一]?)(?:上|一笔|[一两三]成|\d)|"
            r"(?:越[亏跌]越(?<![人者们派]越.越)|一路)[加补买](?!钱)|"
            r"(?:每|再)跌(?:掉|去|了)?(?:一成|半成|两成|\d+(?:\.\d+)?(?:%|个点|块|元|"
            r"毛))[^。;!?\n]{0,6}?就?(?:补|加|买|接|投|进)|"
            r"\b(?:every|each|another) (?:time it (?:falls|slips|sinks|declines|drops|dips)|\d+% (?:fall|"
            r"slip|sink|drop|dip|"
            r"decline|lower|down))"
        ),
        act=True,
    ),
    Shape(
        "chasing_rallies",
        ("新高", "new high"),
        (
            r"(?:创|刷|破|站上)[^,。;!?\n]{0,4}新高[^。;!?\n]{0,12}?(?:就|再|便|"
            r"都)[^,。;!?\n]{0,4}?(?:加一?[笔仓点]|加码|买|追)|"
            r"\b(?:each|every|with each|on every) new high\b[^.;!?\n]{0,30}\b(?:add|buy|purchase|top up)\b"
        ),
        act=True,
    ),
    Shape(
        "theme_speculation",
        ("热度", "会前", "消息", "theme", "story", "craze", "hype", "wave", "mania"),
        (
            r"\b(?:play|ride|catch|surf|chase|trade) (?:the |this )?(?:[a-z-]+ ){0,3}(?:theme|story|craze|"
            r"hype|wave|mania)\b|热度[^,。;!?\n]{0,4}?(?:降|退|散|过)[^,。;!?\n]{0,3}?(?:就|便|再)?(?:撤|走|"
            r"退|卖|离)|"
            r"(?:发布会|大会|会议|会|节)前(?:买|进(?!行)|埋伏|布局|"
            r"潜伏)[^。;!?\n]{0,8}?(?:会后|节后|之后|后)(?:兑现|卖|走|出)"
        ),
        act=True,
    ),
    Shape(
        "low_rated_credit",
        ("平台", "资质", "评级"),
        (
            r"(?:区?县|乡镇|镇)(?:一级|级|里|域)?的?(?:融资)?平台(?:债)?|(?:资质|"
            r"评级)[^,。;!?\n]{0,4}?(?:放宽|降)(?:一|到|低)|放低资质"
        ),
        act=False,
    ),
    Shape(
        "lock_up_products",
        ("开放", "redeem", "redemption", "dealing"),
        (
            r"(?:[一半]年|每年|每个?季度?|每半年|[两三]个?年)(?:只|仅|才)?(?:开放|开门)[一两\d](?:次|回|天)|"
            r"\b(?:quarterly|annual|yearly|monthly|once-a-year|semi-annual) (?:redemptions?|"
            r"dealing|exits?|liquidity|windows?)\b"
        ),
        act=False,
    ),
    Shape(
        "overseas_market",
        ("全球", "换", "美元", "欧元", "日元", "英镑", "美金", "外币", "瑞郎", "澳元"),
        (
            r"全球[^,。;:!?\n]{0,6}?(?:etf|基金|指数|联接|股票|债)|"
            r"换(?:成|点|些|一[些点笔]|出)?[^,。;!?\n]{0,5}?(?:美元|欧元|日元|英镑|港币|外币|"
            r"美金|瑞郎|澳元|加元)(?!再换)|(?:美元|欧元|日元|英镑|瑞郎|加元|澳元|新元|港币|美金)(?:计价|"
            r"的)?[^,。;!?\n]{0,3}?(?:存|定存|理财|基金|债|现金|活期|货币基金)"
        ),
        act=False,
    ),
    Shape(
        "theme_speculation",
        ("线", "方向", "概念", "板块", "赛道", "题材"),
        (
            r"(?:[这那]条线|[这那]个方向|概念|板块|题材|赛道)[^,。;!?\n]{0,4}?(?:刚刚?(?:启动|"
            r"起来|冒头|发酵|起步|热)|正热|正火|很热|热度|火得|爆火|升温)"
        ),
        act=False,
    ),
    Shape(
        "p2p",
        ("平台",),
        (
            r"(?:线上|网上|互联网|[那这]家|某个?|小程序|app)[^,。;!?\n]{0,6}平台[^,。;!?\n]{0,8}"
            r"(?:年化|利率|收益|利息|的?标|\d+(?:\.\d+)?(?:%|个点))"
        ),
        act=False,
    ),
    Shape(
        "private_funds",
        ("万", "million", "$", "£"),
        (
            r"(?<!私募的)(?<!私募的认购)(?<!基金的认购)(?<!基金的)(?:起投|起购|起步|门槛|最低|认购一份|每份|"
            r"一份)[^,。;!?\n]{0,6}(?:100|200|300|"
            r"500|一百|两百|三百|五百)万|"
            r"(?:100|200|300|500|一百|两百|三百|五百)万(?:元)?(?:起投|起购|起步|起(?=[,。;])|的?门槛|一份)|"
            r"\b(?:minimum|ticket|entry|buy-in|commitment) (?:investment |size |"
            r"subscription )?(?:is|of|starts at|from) "
            r"(?:[$£€]?(?:one|\d+(?:\.\d+)?) ?(?:million|m\b)|[$£€]\d{3}(?:,000|k)\b)"
        ),
        act=False,
    ),
)
