"""More turns of phrase for `shapes` beside it: moves into and out of positions, and money for them.

Each is a way of dealing that names none of the words of its term: in today and out before the holidays,
a purse that others fill, the reserve drawn on for a purchase.
"""

from typing import Final

from memfin.scoring.offers.phrases import Shape

_SOON: Final = (
    r"(?:月底|月末|周末|周五|下周|节日?|长假|假期|元旦|春节|国庆|五一|收盘|年底|除夕|开市|公布|兑现|财报|"
    r"年报|"
    r"[一两二三几\d]+(?:个)?(?:交易日|天|周|星期|礼拜))(?:之?前|以前|内|以内|后|之后|左右|[一二两三]?天)?"
)
_ENTRY: Final = (
    r"(?:买|进(?![行一展口度步出])|建(?![议设筑材行])|埋伏|潜伏|布局|上车|跟进|入场|介入|抄底|杀入|抢跑|"
    r"上[一二两三半][成仓]|做[个一][^,。;!?\n]{0,6}行情)"
)
_EXIT: Final = (
    r"(?:走(?![势强弱高低])|撤(?!销)|卖|出[来掉清货]|离场|清(?![楚单算])|了结|落袋|抛|砸|兑现|平[掉仓])"
)

_CHEAP: Final = r"(?:跌|低|流入|翻绿|回落|回踩|金叉|下轨|折价)"
_GET: Final = r"(?:买|接|捡|吸|补|加(?![权息])|进(?![行一展口度步出]))"
_DEAR: Final = r"(?:涨|高|流出|翻红|反弹|冲高|死叉|上轨|溢价)"
_GIVE: Final = r"(?:卖|抛|减(?!少)|丢|撤(?!销)|出(?=[,。;!]|货|掉|来)|走(?=[,。;!]|人))"

MOVES: Final = (
    Shape(
        "short_term_trading",
        ("月", "周", "节", "假", "元旦", "收盘", "天", "国庆", "五一", "交易日"),
        (
            rf"{_ENTRY}[^。;!?\n]{{0,18}}?(?<![到在每])(?<!持有)(?<!拿满){_SOON}[^,。;!?\n]{{0,4}}?"
            rf"(?<!才能)(?<!再)(?<!不)(?<!别){_EXIT}|"
            r"[一二两三四五几\d]个?(?:交易日|天)[^,。;!?\n]{0,6}?(?:吃|赚|抢|搏|拿|"
            r"冲)[^,。;!?\n]{0,4}?\d?个?点"
        ),
        act=True,
    ),
    Shape(
        "short_term_trading",
        ("刚买", "才买", "刚建", "刚申购", "上周买", "前几天买", "上个月买", "刚进", "刚入手", "just bought"),
        (
            r"(?:刚刚?|才|上周|前几天|上个?月)(?:买|建|申购|进|入手)[^。;!?\n]{0,16}?(?:今天|现在|马上|先|"
            r"就|都|全部)"
            r"[^,。;!?\n]{0,4}?(?:赎回|卖|清掉|卖掉|换成|兑现|落袋)"
        ),
        act=True,
    ),
    Shape(
        "short_term_trading",
        ("target", "day", "until", "rebuy", "close", "closed", "end ", "rotate", "unwind"),
        (
            r"\b(?:enter|buy|purchase|get in|step in|go in)(?:ing)?\b[^.;!?\n]{0,40}?\b(?:exit|sell|offload|"
            r"unload|get out|"
            r"step out)(?:ing)?\b"
            r"[^.;!?\n]{0,12}?\b(?:day after|next day|following (?:day|week)|days later)\b|"
            r"\b(?:park|hold|own|keep|sit|ride)\b[^.;!?\n]{0,40}?\buntil\b[^.;!?\n]{0,40}?\b(?:in|"
            r"next) (?:\w+ )?"
            r"(?:days?|weeks?|month)\b[^.;!?\n]{0,6}?(?:then|and) (?:cash out|sell|offload|unload|exit|"
            r"get out|leave|take)|"
            r"\b(?:sell|offload|unload)\b[^.;!?\n]{0,40}?\brebuy\b|"
            r"\b\d(?:\.\d)?% (?:profit )?target and (?:a |"
            r"an )?\d(?:\.\d)?% stop\b|"
            r"\b(?:most|all) (?:trades|positions) (?:will |should )?(?:close|be closed|end) (?:within|"
            r"inside|by)\b|"
            r"\bunwind [^.;!?\n]{0,20}?\b(?:within|in|after) (?:\w+ ){0,2}?(?:days?|weeks?)\b|"
            r"\brotate (?:in)?to [^.;!?\n]{0,40}?\b(?:last|that) (?:week|month)\b"
        ),
        act=True,
    ),
    Shape(
        "market_timing",
        ("清", "仓", "赎", "减", "卖", "撤", "cash", "back in"),
        (
            r"(?:清(?:仓|掉|空|出来)|仓位[^,。;]{0,3}(?:降|减)[到至]|空仓|全部?赎|赎回|减仓|卖掉|撤出来?|"
            r"退出来)[^。;!?\n]{0,18}?"
            r"(?:等|待|到时|跌到|回到|再)[^。;!?\n]{0,14}?(?:买回|满仓|加回|打回|接回|再进|再买|回补|再上|"
            r"捡回|杀回|进场)|"
            r"\b(?:get|go|move|step|stay) (?:in)?to cash\b|\b(?:get|buy|purchase|come|step) back in (?:at|"
            r"when|once|"
            r"after)\b"
        ),
        act=True,
    ),
    Shape(
        "leverage",
        ("倍", " times", "1."),
        (
            r"(?:仓位?|敞口|资金|本金|规模|组合|总量)[^,。;!?\n]{0,3}?(?:放大|抬|提|加|拉|升|做|滚|撑|"
            r"扩)(?:高|大|升)?"
            r"(?:到|至|成|为)?[^,。;!?\n]{0,3}?(?:1\.\d|[2-9](?:\.\d)?|[一两二三四五]|一点[二三四五])倍|"
            r"(?:滚|押|质押|回购)[^,。;!?\n]{0,3}?[一两二三几]?(?:轮|次|圈|道)[^,。;!?\n]{0,5}?1\.\d倍|"
            r"\b(?:1\.\d|two|three|twice|2|3) ?(?:x|times) (?:through|via|using|with) (?:repo|margin|"
            r"futures|a loan)"
        ),
        act=True,
    ),
    Shape(
        "leverage",
        ("先拿", "先要", "先支", "先挪", "再还", "拆借", "周转", "息"),
        (
            r"(?:找|跟|向|问|管|从)(?![你我])[^,。;!?\n]{1,6}?先?(?:拿|要|支|挪|凑|匀|拆|转)"
            r"[一二两三四五六七八九十百\d]+[来多]?万[^。;!?\n]{0,16}?(?:再还|还上|归还|还清|还给)|"
            r"(?:按|照)[^,。;]{0,5}(?:给|付)(?:他|她|对方|人家)?利?息[^。;!?\n]{0,10}?(?:拿过来|借过来|凑|"
            r"一起)"
        ),
        act=True,
    ),
    Shape(
        "off_market_financing",
        ("万", "资金", "倍"),
        (
            r"你(?:自己)?(?:出|拿|投|打)[一二两三四五六七八九十百\d]+万[^。;!?\n]{0,6}?"
            r"(?:平台|对方|他们?|公司|金主|机构|那边)[^,。;!?\n]{0,3}?(?:配|出|给|垫|补|放|"
            r"借)[一二两三四五六七八九十百\d]+万|"
            r"(?:平台|对方|他们?|公司|金主|机构|那边)[^,。;!?\n]{0,3}?(?:配|出|给|垫|补|"
            r"放)[一二两三四五六七八九十百\d]+万"
            r"[^。;!?\n]{0,6}?你(?:自己)?(?:出|拿|投|打)[一二两三四五六七八九十百\d]+万"
        ),
        act=True,
    ),
    Shape(
        "reserve_use",
        ("应急", "备用", "救急", "保命", "养老", "年金", "退休金", "公积金", "学费", "首付", "emergency"),
        (
            r"(?:(?:应急|备用|救急|保命|养老)[金钱款资]|企业年金|退休金|公积金|学费|首付款?)"
            r"[^。;!?\n]{0,10}?(?:挪|抽|拿出|取出|动用|腾|划出|匀|借出|领|提|"
            r"先用|转)"
            r"[^。;!?\n]{0,16}?(?:买|投|加仓|补仓|进|配|申购|建)|(?:动用|挪用|挪一下|抽出|拿出|"
            r"挪出)[^,。;!?\n]{0,8}?"
            r"(?:应急|备用|保命)[金钱款资]|"
            r"\b(?:use|dip into|draw on|tap|invest|borrow from)\b[^.;!?\n]{0,24}?\b(?:emergency|rainy-day) "
            r"(?:fund|money|cash|savings|pot)"
        ),
        act=True,
    ),
    Shape(
        "theme_speculation",
        ("埋伏", "概念", "题材", "风口", "催化"),
        (
            r"(?:元宇宙|量子|低空|可控核聚变|脑机|商业航天|固态电池|人形机器人|短剧|谷子|鸿蒙|数字货币|算力|"
            r"信创|"
            r"卫星互联网|新质|雄安|自贸|出海|国企改革|中特估|重组)[^。;!?\n]{0,24}?(?:埋伏|搏一?把|博一?把|"
            r"赌一?把|"
            r"炒一?[把波]|跟一?[把手波]|蹭一?[把波下])"
        ),
        act=True,
    ),
    Shape(
        "single_small_cap",
        ("流通盘", "总股本", "流通股"),
        (r"(?:流通盘|总股本|流通股本?)[^,。;!?\n]{0,4}?(?:才|只有?|仅|不到|不足|就)[^,。;!?\n]{0,8}"),
        act=False,
    ),
    Shape(
        "low_rated_credit",
        ("平台", "民企", "房企", "地产"),
        (
            r"(?:地级市|网红|弱|偏远|西部|东北|三四线|县城|贫困|新区|园区|开发区)[^,。;!?\n]{0,4}?(?:平台|"
            r"城投)债?|"
            r"(?:民企|房企|地产)[^,。;!?\n]{0,5}?(?:票据|债|票面)"
        ),
        act=False,
    ),
    Shape(
        "high_volatility",
        ("振幅", "上下", "起落", "涨跌", "波动", "腰斩"),
        (
            r"(?:振幅|上下|起落|涨跌|波动)[^,。;!?\n]{0,5}?(?:[三四五六七八九]成|[3-9]\d%|"
            r"[三四五六七八九]个点|翻倍|"
            r"腰斩)[^,。;!?\n]{0,5}?(?:平常|正常|常态|家常便饭|不稀奇|不算什么|都见过|没什么|也?值)"
        ),
        act=False,
    ),
    Shape(
        "margin_trading",
        ("融资", "融"),
        (r"(?<![再募股投])融资?[一二两三四五六七八九十\d]+(?:\.\d)?(?:%|成|万|倍)(?!亿)"),
        act=True,
    ),
    Shape(
        "bottom_fishing",
        ("跌",),
        (r"跌\d+%(?:就)?[买补加接][^。;!?\n]{0,8}?跌\d+%(?:就)?[买补加接]"),
        act=True,
    ),
    Shape(
        "theme_speculation",
        ("会",),
        (
            r"(?:大会|发布会|展会|峰会|展览)[^。;!?\n]{0,12}?(?:提前|先)(?:买|进|埋伏|布局)[^。;!?\n]{0,14}?"
            r"(?:开完|开幕|结束|会后)[^,。;!?\n]{0,3}?(?:卖|走|撤|清|出)"
        ),
        act=True,
    ),
    Shape(
        "short_term_trading",
        ("点", "%", "拿着", "放着"),
        (
            r"跌[^,。;!?\n]{0,4}(?:点|%)[^,。;!?\n]{0,3}(?:买|进|接|吸|"
            r"捡)[^。;!?\n]{0,8}?涨[^,。;!?\n]{0,4}(?:点|%)"
            r"[^,。;!?\n]{0,3}(?:卖|出|走|抛)|"
            r"先(?:拿着|放着|买着)[^。;!?\n]{0,14}?(?:[一两二三几\d]+个?[月周]|"
            r"半个?月)[^,。;!?\n]{0,3}后?就?(?:切|换|卖|撤|出)"
        ),
        act=True,
    ),
    Shape(
        "theme_speculation",
        ("哪个", "谁"),
        (
            r"(?:哪[个只条]|谁)[^,。;!?\n]{0,4}(?:先)?(?:启动|动|热|火|强|涨停)[^,。;!?\n]{0,2}就?(?:跟|追|"
            r"上|买|打|做)"
        ),
        act=True,
    ),
    Shape(
        "theme_speculation",
        ("一出", "落地", "兑现"),
        (
            r"(?:公告|消息|利好|预期|政策|结果|文件|名单)[^,。;!?\n]{0,3}(?:一出|落地|出来|"
            r"兑现)[^,。;!?\n]{0,2}就?(?:跑|走|卖|撤|清|出货)"
        ),
        act=True,
    ),
    Shape(
        "short_term_trading",
        ("卖", "抛", "减", "丢", "撤", "走", "周期"),
        (
            rf"{_CHEAP}[^,。;!?\n]{{0,6}}?{_GET}[^。;!?\n]{{0,10}}?{_DEAR}[^,。;!?\n]{{0,6}}?{_GIVE}|"
            rf"{_DEAR}[^,。;!?\n]{{0,6}}?{_GIVE}[^。;!?\n]{{0,10}}?{_CHEAP}[^,。;!?\n]{{0,6}}?{_GET}|"
            r"(?:以|按)[一二两三四五几\d到至~-]+个?(?:交易日|天|周)为(?:一个)?周期|"
            r"(?:吃完|赚[到够]|捞[到完]|蹭完|做完|吃到)[^,。;!?\n]{0,8}?就(?:走|撤|卖|跑|清|出)"
        ),
        act=True,
    ),
    Shape(
        "leverage",
        ("倍的", "还上", "归还", "还掉", "还就是", "还回去", "% of assets", "% invested", "% long"),
        (
            r"(?:上|用|选|买|配)[两三双]倍的(?!价|时|收)|\b1[1-9]\d% (?:of assets|invested|long|exposure)|"
            r"(?:额度|向银行|贷(?![款]?[余利])|借|信用)[^。;!?\n]{0,24}?(?:支用|提用|买(?![房车])|"
            r"投(?!资者)|补仓?|加仓|建仓|垫)"
            r"[^。;!?\n]{0,16}?(?:再|就|慢慢|及时|年底|年后)(?:还上|归还|还掉|还清|还就是|还回去)"
        ),
        act=True,
    ),
    Shape(
        "private_lending",
        ("给他", "给她", "给对方", "给人家"),
        (
            r"给(?:他|她|对方|人家)(?:先)?(?:拆|转|打|垫|凑|周转|借|拿|"
            r"挪)[一二两三四五六七八九十百\d]+[来多]?万"
        ),
        act=True,
    ),
    Shape(
        "bottom_fishing",
        ("跌",),
        (
            r"跌(?:了|去|掉)?(?:快|近|超|过)?(?:[2-9]\d%|[三四五六七八]成|一半|腰斩)[^。;!?\n]{0,16}?(?:捡|"
            r"抄(?!袭)|"
            r"左侧|接(?=[一两三四五]|货|盘|点|\d))"
        ),
        act=True,
    ),
    Shape(
        "low_rated_credit",
        ("弱", "差"),
        (r"(?:往|向|挑|选)[^,。;!?\n]{0,3}(?:弱|差)(?:一?点|一些|些)?的?(?:区域|资质|主体|省份|平台)"),
        act=False,
    ),
    Shape(
        "short_term_trading",
        (
            "buy ",
            "purchase ",
            "grab",
            "get in",
            "go in",
            "enter ",
            "go long",
            "pick ",
            "in at",
            "in on",
            "in by",
            "load up",
            "step in",
            "short ",
            "fade ",
        ),
        (
            r"\b(?:buy|purchase|grab|get in|go in|enter|go long|short|fade|pick (?:(?:it|them|this|"
            r"some) )?up|"
            r"in at|in on|in by|load up|step in)\b"
            r"[^.!?\n]{0,60}?\b(?:be (?:out|flat|gone)|out|flat|sell|offload|close|exit|hand (?:it|"
            r"them) back|get rid|cover|dump|"
            r"unload|flatten|be done)\b[^.!?\n]{0,24}?\b(?:noon|lunch(?:time)?|midday|afternoon|"
            r"(?:the )?(?:close|"
            r"bell)|evening|"
            r"dinner|(?:boxing|new year's|christmas|results?|earnings) (?:day|eve)?|monday|tuesday|"
            r"wednesday|thursday|"
            r"friday|\d{1,2}(?:st|nd|rd|th)|first week|month-end|next (?:day|morning|week)|"
            r"the day after|(?:within|inside|in) (?:the |a |one |two |three )?(?:fortnight|weeks?|days?))\b"
        ),
        act=True,
    ),
    Shape(
        "short_term_trading",
        ("点", "午", "盘", "周", "开"),
        (
            r"(?:[上下]午|早上|早盘|午后|尾盘|开盘|低开|"
            r"[一二三四五六七八九十\d]+点[半\d一二三四五十]*分?|周[一二三四五])[^。;!?\n]{0,8}?"
            r"(?:买|进(?!行|一步|展)|吸|接|抄|捡|抢|杀入|吃)[^。;!?\n]{0,16}?"
            r"(?:[上下]午|午后|中午|尾盘|收盘|[一二三四五六七八九十\d]+点[半\d一二三四五十]*分?|"
            r"周[一二三四五]|拉回|反弹|冲高|冲上去|翻红)"
            r"[^。;!?\n,]{0,6}?(?:卖|出(?!现)|走|抛|砸|倒|清|丢|甩|了结|落袋|平)"
        ),
        act=True,
    ),
)
