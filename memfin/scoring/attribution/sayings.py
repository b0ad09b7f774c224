"""Chinese words of saying and thinking: whose words follow them.

Chinese has no word like ``that``: the verb stands in front with whoever says it, and what is said goes on
to the end of the clause.
"""

import re
from typing import Final

from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis

_REACH: Final = 80
"""Characters in front of a word in which what holds it begins."""
_ON: Final = r"[^,。;!?:\n]{0,16}$"
"""What stands between a verb and the words that it holds."""
_THOUGHT: Final = late(
    r"(?:误以为|(?<![可足难得加予用所借])以为(?!然|主|基)|误认为|幻想|妄想|梦想|巴望|指望|盼着|盼望|传言|"
    r"谣传|传闻|讹传|谎称|吹嘘|妄称|诡称|谎言|假装|哄骗你?|忽悠你?|蒙你|(?:轻|听|迷)信了?|信了|"
    rf"鼓吹)(?:说|着|了|过|的是|有)?{_ON}"
)
"""What is thought, hoped or lied is not the case."""
_SAYS: Final = (
    r"(?:(?<!老实)(?<!坦白)(?<!实话)(?<!坦率地)(?<!句话)(?<!可以)(?<!应该)(?<!一般来)(?<!简单)(?<!总的来)"
    r"(?<!夸张地)(?<!责任地)(?<!不得不)(?<!不好)(?<!难)(?<!好)(?<!不用)(?<!客观地)(?<!按理)(?<!照理)(?<!再)[说讲答](?!明|到底|白了|实话|"
    r"实在|句公道)|告诉[^,。;!?\n]{1,6}?|"
    r"宣称|声称|断言|断定|表示|写上?|加上|喊|抛出|宣传|标榜|相信|认定|认为|觉得|坚信|深信|念叨|发了|刷(?:屏|"
    r"着)?|提议|提出|输出|发布|发来|载明|灌输|提到(?![约近]?[0-9一二两三四五六七八九半])|流传|写着|印着|"
    r"举着|转发|转述|发(?:消息|微信|短信)|发给|"
    r"回复|答应|吹|嚷嚷|暗示)"
)
_TOLD: Final = late(
    rf"(?P<before>[^,。;!?:\n]{{0,24}}?){_SAYS}(?:着|了|过|道|的是|出来|一声)*(?:一?句|这[句样]?|"
    rf"什么)?(?:(?<!答应)(?<!讲),|:)?[^,。;!?:\n]{{0,16}}$"
)
_WHO_SAYS_SO: Final = late(r"[^,。;!?\n]{0,10}的(?:[,人]|都|同行|说法|这种|那种|大多|多半)")
"""Behind the words, that it is those who say them which the sentence speaks of: 喊…的,都…"""
_KIND_OF_TALK: Final = late(r"[^,。;!?\n]{0,10}(?:之类的?|这类|这种|那种|一类的?)(?:话|说法|承诺|宣传|口号)")
_OTHERS: Final = late(
    r"(?:(?:[位名些家](?<!仓位)(?<!单位)(?<!点位)|个(?![月年天点百]))[^,。;!?:\n]{1,10}|别?人|业务员|对方|同行|同事|同学|[邻朋亲]\S|"
    r"骗子|经理|主播|"
    r"[大老小][王李张刘陈赵周吴叔姨哥姐爷]|[他她谁某]|平台|公司|机构|卖家|群[里主友]|太太|先生|女士|[爸妈]|"
    r"老[公婆板]|儿子|女儿|传单|海报|广告|截图|阿姨|叔叔|大[爷妈]|老人|坐席|前台|"
    r"[^,。;!?:\n]{1,6}(?<!以)上(?=[^,。;!?:\n]{0,2}$)|新手|股民|网[上友]|客户|不少|很多|许多|有的|有人|"
    r"销售|顾问|"
    r"中介|推销|前任|主管)[^,。;!?:\n]{0,14}$"
)
_OWN: Final = late(
    r"(?:我们?|本人|咱们?|我司|本公司)(?!的?(?:客户|同学|同事|朋友|亲戚|邻居|老|表|堂|[爸妈]|前任|主管|领导|"
    r"同行))"
)
_ASKS_ME: Final = late(
    rf"从我(?:嘴里|口中|这里?)(?:听|得)到{_ON}|那句{_ON}|"
    r"(?:想?听|等着?|让|要|叫|请|求|逼|盼着?|希望|指望|非要|巴不得|催)(?:我们?|咱们?|顾问|"
    r"本公司)[^,。;!?\n]{0,12}(?:说|讲|写|加|确认|承诺|保证|签|答应|"
    rf"担保)(?:一?句|上|在|了)?{_ON}"
)
_REFUSED: Final = late(
    r"(?:不会|不能|不敢|不该|不可以?|没法|无法|不肯|拒绝|从不|从未|从没|绝不|没有?|不愿意?|不得|不曾|未曾|"
    r"什么时候|何时|哪里|凭什么|怎么(?:敢|能|会|可能)|要是|如果|若|谁|哪怕|即使)[^,。;!?:\n]{0,16}$"
)


def said_by_others(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether a Chinese reply lays ``[start, end)`` in the mouth of others, or only supposes it."""
    return _told(analysis, start, end) or _supposed(analysis, start, end)


def _told(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether a Chinese verb in front lays the position in the mouth or mind of others, or refuses it."""
    norm = analysis.norm
    low, _ = analysis.sentence_span(start)
    if norm[start] <= "\u2e80" and norm[low : low + 1] < "\u4e00":
        return False
    low = max(low, start - _REACH)
    if (
        _THOUGHT.search(norm, low, start)
        or _ASKS_ME.search(norm, low, start)
        or _KIND_OF_TALK.match(norm, end) is not None
    ):
        return True
    told: re.Match[str] | None = _TOLD.search(norm, low, start)
    if told is None or _RAISED_TO.match(norm, max(low, start - 3), end):
        return False
    if _WHO_SAYS_SO.match(norm, end) and _OWN.search(norm, low, start) is None:
        return True
    before = norm[low : told.end("before")]
    others = _OTHERS.search(before)
    mine = max((match.start() for match in _OWN.finditer(before)), default=-1)
    if mine >= 0 and (others is None or mine > others.start()):
        return _REFUSED.search(before) is not None
    return others is not None or _REFUSED.search(before) is not None


_RAISED_TO: Final = late(r".?提到[约近]?[0-9一二两三四五六七八九半]|..提到(?=[0-9一二两三四五六七八九半])")
"""A share is raised to something, which nobody says: 可以提到七成."""
_SUPPOSED: Final = late(r"(?:假设|如果|要是|若)(?:说|真的?)?[^,。;!?\n]{0,16}$")
_REALLY: Final = late(
    r"(?:如果|要是|若)真(?:的|能|是|像)?(?![^,。;!?\n]{0,4}(?:遇|碰|跌|亏|降|涨|发生|出现|要|有|急|到|"
    r"赶上))[^,。;!?\n]{0,16}$"
)
_IS_TRUE: Final = late(r"[^。;!?\n]{0,14}?(?:是真的?|成立|属实|成真|当真)[^,。;!?\n]{0,4},")


def _supposed(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the words are only supposed to be true: 假设…是真的,…."""
    norm = analysis.norm
    low = max(analysis.sentence_span(start)[0], start - _REACH)
    if _REALLY.search(norm, low, start) is not None:
        return True
    return _IS_TRUE.match(norm, end) is not None and _SUPPOSED.search(norm, low, start) is not None
