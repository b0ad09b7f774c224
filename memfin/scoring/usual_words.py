"""Rare Chinese words that are read as the usual one of the same meaning.

The patterns know the usual word alone. A word stands here only with what it must stand beside to mean the
same; 客户 is the person spoken to in a reply that says 你 to nobody.
"""

from collections.abc import Iterator
from typing import Final

from ahocorasick_rs import AhoCorasick

from memfin.scoring.patterns import late

_USUAL: Final = {
    # dealing
    "购入": "买入", "购进": "买入", "入手": "买入", "吃进": "买入", "抛掉": "卖掉", "出掉": "卖掉",
    "改为": "换成", "改成": "换成", "改买": "换成", "置换成": "换成", "置换为": "换成", "调换成": "换成",
    "转换成": "换成", "调成": "换成", "转为": "换成", "转成": "换成",
    "定期投入": "定投", "定期定额投资": "定投", "定期定额": "定投",
    "备": "留", "储备": "留", "备好": "留好", "备足": "留足", "备出": "留出", "备着": "留着",
    "准备好": "留好", "准备出": "留出", "准备足": "留足",
    # how many, how much, how soon
    "悉数": "全部", "尽数": "全部", "全数": "全部", "通通": "全部", "统统": "全部", "一股脑": "全部",
    "一股脑儿": "全部", "二分之一": "一半", "半数": "一半", "个": "只", "赶快": "赶紧", "即刻": "立刻",
    **{f"{digit}成": f"{digit}0%" for digit in range(1, 10)},
    # who speaks, and to whom
    "小编": "我", "笔者": "我", "我这边": "我", "咱们": "我们", "我司": "我们", "我方": "我们",
    "本公司": "我们", "你这边的": "你的", "你这边": "你", "你本人": "你", "你家": "你", "你们": "你",
    "你自己的": "你的",
    # advising
    "不主张": "不建议", "不赞成": "不建议", "不提倡": "不建议", "我主张": "我建议", "我倾向": "我建议",
    "我倾向于": "我建议", "我的意见是": "我建议", "我的建议是": "我建议", "劝你": "建议你",
    "提议你": "建议你",
}  # fmt: skip
_SOMETHING: Final = (
    r"(?=[^,。:;!?\n]{0,10}(?:基金|etf|[国短长纯转]?债|指数|存[单款]|股|黄金|金条|货基|它|\d{6}|aa))"
)
_SUM: Final = r"(?=[^,。:;!?\n]{0,3}[0-9一二两三四五六七八九十半]+(?:个月|年|万|千|元|块|成|%))"
_RARE: Final = late(
    r"(购(?<![申认采]购)[入进](?![口货])|吃进(?![去来口嘴肚])|"
    r"入手(?<![转买投存落计收流进纳汇划放加注输写录切拨打归介]入手)"
    r"(?![,。:;!?、\s的点做分看研理判比了学筛整练挑续中里头上数法段]|$)|"
    rf"(?:改[为成]|转[为成]|调成){_SOMETHING}|改买|[置调]换成|置换为|转换成|定期(?:投入|定额(?:投资)?)|"
    rf"(?:储备(?<![汇地术略粮油行]储备)(?<!黄金储备)(?<!国家储备)|"
    rf"备(?<![设装准具配预储后筹完必常]备)[好足出着]?|准备[好足出]){_SUM}|"
    r"(?:悉(?<![熟获知洞]悉)|尽|全(?<![安完健齐俱]全))数(?![字据额量码值学组目列])|"
    r"通通(?<![沟融流互联开贯畅交疏普卡港股]通通)(?![道过知常关胀缩用])|统统|一股脑儿?|"
    r"二分之一|半数(?<![过大多小对近]半数)(?!以[上下]|人|投资者|的?机构)|"
    r"个(?<=[二两三四五六七八九十几0-9]个)"
    r"(?=(?:宽基|指数|债券|股票|货币|混合|主动)?(?:基金(?!公司|经理|账户|组合|类)|etf|债基|货基))|赶快|即刻|"
    r"[1-9](?<![0-9.~-][1-9])(?<![0-9][到至][1-9])成"
    r"(?![0-9一二三四五六七八九半多立长本为员果功交品熟分新都千效色百双群套年批就绩])|"
    r"小编(?![制程])|笔者|我这边|咱们|我司(?![机法空])|我方(?![便面案法向才式])|"
    r"本公司(?<![日基资根]本公司)(?!法)|你这边的?|你本人|你们|你自己的|"
    r"你家(?![里人乡长中属附庭门口楼小老孩父母爸妈先太儿女狗猫])|"
    r"不(?:主张|赞成|提倡)|(?:抛|出(?<![卖付拿超退支突]出))掉|"
    r"我(?:主张|倾向于?|的[意建][见议]是)|(?:劝|提议)你)"
)
_SIGNS: Final = AhoCorasick(
    [word for word in _USUAL if len(word) > 1]
    + [f"备{number}" for number in "123456789一二两三四五六七八九十半"]
    + [f"个{kind}" for kind in ("基金", "宽基", "指数", "债", "股票", "货", "混合", "主动", "etf")]
)
# Who advises in the plural advises like one.
_ADVISES: Final = late(
    r"((?:我们|咱们?|我[司方]|本公司(?<![日基资根]本公司))"
    r"(?=(?:还是|仍|也|更|最|比较|倒|一般|就|都|会|才)?(?:会选|会把|想用|想把|主张|倾向|"
    r"认为|觉得|建议|推荐|选(?!股|择)|挑|认(?!识|购|沽)|看好|中意|偏向|愿意|"
    r"把(?!你)|打算|准备|给你(?:设|划|定))))"
)
_WE: Final = late(r"[我咱]们|咱|我[司方]|本公司")
_CLIENT: Final = late(
    r"(客户(?:(?<![\s\S]客户)|(?<=[\s,。:;!?、“”()*|>#\-.给跟与和请议按照合出过于在对由用把"
    r"因到是但以向比只免离距依帮定条了劝助超喊供]客户))"
    r"(?![们经端服群关层代满流都总数体分]|资[料产金]|投诉|回访|适当性|"
    r"身份|认知|须知|协议|证券|信息|权益|订单|公司))"
)


def usual_words(norm: str) -> Iterator[tuple[int, int, str]]:
    """Yield where a rare word stands, and the usual one; none overlaps another."""
    ours = {match.start(): match.end() for match in _ADVISES.finditer(norm)} if _WE.search(norm) else {}
    for start, end in ours.items():
        yield start, end, "我"
    if _SIGNS.find_matches_as_indexes(norm):
        for match in _RARE.finditer(norm):
            if match.start() not in ours:
                yield (*match.span(), _USUAL[match.group()])
    if "客户" in norm and norm.count("你") == norm.count("你好"):
        for match in _CLIENT.finditer(norm):
            yield (*match.span(), "你")
