"""Names that a text puts in quotation marks or gives with a title or a word that introduces a name.

Chinese names cannot be told from other words by their characters alone. What is found here is what a text
itself marks as a name: “王大力”, 《借条》, 王老师, 名叫王大力, Mr. Wang, and typed entities.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_QUOTED: Final = re.compile(
    '“([^“”\n]{1,60})”|「([^「」\n]{1,60})」|『([^『』\n]{1,60})』|"([^"\n]{1,60})"|‘([^‘’\n]{1,60})’'
    "|(?<![A-Za-z0-9])'([^'\n]{2,60})'(?![A-Za-z0-9])|《([^《》\n]{1,60})》|【([^【】\n]{1,60})】"
)
_INSTITUTION: Final = re.compile(
    "(?:公司|集团|银行|支行|中心|医院|学校|小学|中学|大学|幼儿园|学院|法院|检察院|派出所|公安局|分局|事务所|"
    "酒店|饭店|餐厅|商店|超市|有限合伙|基金|证券|信托|村|镇|街道|小区|合同|协议|借条|收据|承诺书|证明)$"
)
_CHINESE_NAME: Final = re.compile("[\u4e00-\u9fff]{2,6}(?:·[\u4e00-\u9fff]{1,8})?$")
_FOREIGN_NAME: Final = re.compile(r"[A-Z][\w.'-]*(?:\s+(?:[A-Z&][\w.'-]*|of|and|de|van|von)){0,4}$")
_WORDY: Final = re.compile(
    "[了吗呢吧啊嘛么着过的地得不没未无是我你他她它们这那哪谁都也就还把被给让跟请说知道忘记清楚确定明如何怎]"
)
_SURNAMES: Final = (
    "王李张刘陈杨黄赵吴周徐孙马朱胡郭何林罗高郑梁谢宋唐许韩冯邓曹彭曾肖田董袁潘蔡蒋余杜叶程苏魏吕丁任沈姚卢姜"
    "崔钟谭陆汪范金石廖贾夏韦付方白邹孟熊秦邱江尹薛闫段雷侯龙史陶黎贺顾毛郝龚邵万钱严覃武戴莫孔向汤温康施文"
    "牛樊葛邢安齐易乔伍庞颜倪庄聂章鲁岳翟殷詹申欧耿关兰焦俞左柳甘祝包宁尚符舒阮柯纪梅童凌毕单季裴霍涂成苗谷盛"
    "曲翁冉骆蓝路游辛靳管柴蒙鲍华喻祁蒲房滕屈饶解牟艾尤阳时穆农司卓古吉缪简车项连芦麦褚娄窦戚岑景党宫费卜冷晏席卫米柏宗瞿桂全佟应臧闵苟邬边卞姬师和仇栾隋商刁沙荣巫寇桑郎甄丛仲虞敖巩明佘池查麻苑迟邝"
)
_TITLED: Final = re.compile(
    f"(?:([{_SURNAMES}][\u4e00-\u9fff]{{0,2}}?)"
    "(?:先生|女士|小姐|老师|老板|总经理|经理|主任|医生|律师|警官|校长|科长|局长|处长|书记|院长|所长|师傅"
    "|同学|阿姨|某某?|总(?![共计额数和是结体之要会]))"
    ")"
)
_TITLE_SIGN: Final = re.compile("[生士姐师板理任医官长记傅学姨某总]")
_INTRODUCED: Final = re.compile(
    f"(?:名叫|叫做|叫作|名为|名字(?:是|叫)|姓名[::]?(?:是|为)?|一个叫"
    f"|(?<![呼大喊])叫)([{_SURNAMES}][\u4e00-\u9fff]{{1,2}}?)"
    "(?=[的,。、;!?::()\\s是在给把和与]|$)"
)
_MISTER: Final = re.compile(
    r"\b(?:Mr|Mrs|Ms|Miss|Dr|Prof|Professor)\b\.?\s+([A-Z][a-z'-]+(?:\s+[A-Z][a-z'-]+)?)"
    r"|\b(?:named|called)\s+([A-Z][a-z'-]+(?:\s+[A-Z][a-z'-]+)?)"
)
_FEW_WORDS: Final = frozenset("某何任时和应成解项")


class FoundName(NamedTuple):
    """A name at ``text[start:end]``."""

    name: str
    start: int
    end: int


def is_name(words: str) -> bool:
    """Say whether quoted words are a name: short, with no word in them that only sentences have."""
    words = words.strip()
    if _FOREIGN_NAME.match(words):
        return True
    if not _CHINESE_NAME.match(words) and not _INSTITUTION.search(words):
        return False
    return _INSTITUTION.search(words) is not None or _WORDY.search(words) is None


def quotations(text: str) -> Iterator[FoundName]:
    """Yield what stands in quotation marks or title marks in a text, without the marks."""
    for match in _QUOTED.finditer(text):
        group = match.lastindex
        if group is not None:
            yield FoundName(match.group(group), match.start(group), match.end(group))


def find_names(text: str) -> list[FoundName]:
    """Return the names that a `plain` text marks as names, in order."""
    found = [quoted for quoted in quotations(text) if is_name(quoted.name)]
    for match in _TITLED.finditer(text) if _TITLE_SIGN.search(text) else ():
        name = match.group(1)
        if len(name) == 1 and name in _FEW_WORDS:
            continue
        found.append(FoundName(match.group() if len(name) == 1 else name, match.start(), match.end()))
    for pattern in (_INTRODUCED, _MISTER):
        for match in pattern.finditer(text):
            group = match.lastindex
            if group is not None:
                found.append(FoundName(match.group(group), match.start(group), match.end(group)))
    return sorted(found, key=lambda name: name.start)
