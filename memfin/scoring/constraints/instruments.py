"""What names a single holding: an instrument, a fund, a company."""

import re
from functools import cache
from typing import Final

from memfin.scoring.constraints.vocabulary import load_vocabulary
from memfin.scoring.patterns.expressions import late

INSTRUMENT: Final = late(
    r"etf(?!s)|lof|联接|基金[甲乙丙丁戊abcde一二三四五1-9]|甲基金|乙基金|丙基金|丁基金|a基金|b基金|"
    r"c基金|(?:^|\n)[^a-z\n]{0,8}(?:[a-z0-9&-]+ ){1,4}(?:tracker|etf)\b|"
    r"\b(?:the|an?|this|that|your) (?:[a-z-]+ ){0,3}?(?:tracker|etf)\b|"
    r"一只(?<![五三两几四六多]一只)|单只|单一|这只|同一只|某只|那只|第一只|任一|60\d{4}|00\d{4}|"
    r"30\d{4}|68[89]\d{3}|(?<!\d)0\d{4}(?!\d)|51\d{4}|15\d{4}|16\d{4}|one\b|a single\b|"
    r"沪深300|中证(?:[a-z]?\d{2,4}|红利|消费|医疗)|深证100|恒指|上证\d{2,3}|国证\d{4}|创业板|科创50|上证50|"
    r"a500|恒生科技|纳斯达克100?|"
    r"标普500|s&p ?500|"
    r"csi ?300|nasdaq|黄金|比特币|bitcoin|gold\b|白银|"
    r"5[1268]\d{4}|它(?!们)|这家|那家|该公司|this (?:one|fund|stock|etf)|that (?:one|"
    r"fund|stock)|"
    r"每只|各|each\b|(?:公司的?|雇主的?)股票|(?:employer|company)(?:'s)? (?:stock|shares)|"
    r"[买购配选放投持](?:入|有|到|给|些|点|[这一]?[只款])?[“「《][^”」》\n]{2,20}[”」》]|"
    r"[这该此一同某那]款|(?:易方达|富国|华夏|南方|广发|"
    r"嘉实|博时|汇添富|天弘|工银|中欧|兴全|景顺|鹏华|银华|国泰|华安|交银|大成|万家|"
    r"诺安|东方红|睿远|华宝|永赢|华泰柏瑞|招商|建信)(?!银行|证券|基金公司)[\u4e00-\u9fff]{2,10}|"
    r"\b(?:vti|voo|vxus|bnd|vnq|sgov|spy|qqq|vwrl|vwce|schd|tlt|ief|gld|iau|agg|vea|vwo|ivv|swda|cspx)\b|"
    r"(?:政金债?|国债|国开债?|存单|信用债|公司债|短融|地方债)[^,、|]{0,4}指数|"
    r"这[支张]|该产品|这个产品|[债利单金财基数强长合险][a-h](?=占|约|:|\d|各|配|放|买|拿|留)"
)
FUND_INSTRUMENT: Final = late(r"基金|etf|债基|lof|联接|fund\b|tracker\b")
POLICY: Final = late(
    r"年金|终身寿|寿险|分红险|万能险|投连险|两全险|储蓄险|理财险|收益凭证|"
    r"\b(?:annuity|endowment|life policy|structured note)\b"
)
"""What names a single policy or note."""
PRODUCT: Final = late(f"{INSTRUMENT.pattern}|{FUND_INSTRUMENT.pattern}")
"""What names a single holding or a fund."""


@cache
def company() -> re.Pattern[str]:
    """Return a pattern of the names of single companies."""
    names = sorted(map(re.escape, load_vocabulary().companies), key=len, reverse=True)
    return re.compile(rf"(?<![a-z])(?:{'|'.join(names)})(?![a-z])")


@cache
def single(scope: str) -> re.Pattern[str]:
    """Return what may name a single holding to a cap of that scope."""
    named = INSTRUMENT if scope == "asset" else PRODUCT
    policies = f"{POLICY.pattern}|" if scope == "asset" else ""
    return re.compile(f"{policies}{named.pattern}|{company().pattern}")
