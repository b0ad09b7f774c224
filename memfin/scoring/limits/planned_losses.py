"""What a test or a forecast of the reply's own mix shows that it may lose."""

from typing import Final

from memfin.scoring.limits.borne_losses import FORGIVEN, OTHER_MIX
from memfin.scoring.numbers.quantities import Quantity
from memfin.scoring.patterns.expressions import compile_pattern, late
from memfin.scoring.text import paragraphs
from memfin.scoring.text.language import Analysis
from memfin.scoring.weights.reading import Reading

EXPECTED: Final = compile_pattern(
    r"可能|预计|估计|估算|约|或|最多|最大|极端|压力|会|可达|达到|\b(?:may|might|could|would|can|"
    r"expect\w*|worst|up to|about|around)\b"
)
_TESTED: Final = compile_pattern(
    r"回测|回放|去套|套进|模拟|测算|压力|推演|复盘|历史数据|那[几两]?[年轮次]行情|\b(?:back-?test\w*|"
    r"simulat\w*|stress\w*|in 20\d\d|since 20\d\d)"
)
_OWN_MIX: Final = compile_pattern(
    r"预计最坏|最坏的?(?:一年|情况|情形|情景)|"
    r"这[套个](?:[^,。;]{0,6})?(?:轮动|策略|打法)|"
    r"股债?[一二三四五六七八九对](?:债?[一二三四五六七八九半])?(?:开)?的?(?:配比|组合|比例|搭配|方案|"
    r"过去|历史|近)|这[套个份种]?(?:组合|方案|配置|配比|比例|配法|搭配|"
    r"分法)|上[面述](?:的)?(?:组合|方案|配置|比例)|(?:换|"
    r"调整?|配|挪|改)[完后]|总账户|账户|组合|"
    r"(?:我给|给你|我)[^,。;]{0,6}的?(?:组合|方案|配置|配比|配法)|"
    r"\b(?:the (?:[a-z-]+ ){0,2}|(?:this|my|our) (?:[a-z\d/-]+ ){0,2})(?:mix|plan|portfolio|allocation|split|"
    r"blend|sleeve|basket|lineup|"
    r"proposal)\b|\bback-?test\b|\b(?:i|we)(?:'d| would) (?:run|hold|build|use|choose|pick|go with)\b"
)
STICKS: Final = compile_pattern(
    r"按(?:它|这个|此|计划|这套|上面)|照(?:它|此|这个|做|配)|就这[样么]|执行|接受|承受得|扛|熬|忍|"
    r"(?:还是|仍然?|仍|照样|就)(?:建议|主张|推荐|主推|力推|推|选|看好|用它?|选它?|按|倾向)|用它|"
    r"照这么|这么配|有个数|心里有数|心理准备|有数就|属正常|正常(?:现象|的)|不用(?:怕|慌)|"
    r"别(?:怕|慌)|(?:进场|分批进|建仓|操作分|分[一二三四五六七八九十\d]+(?:批|周|个月))|可以(?:拿|做|配)|"
    r"\b(?:(?:i|we|still|would) recommend|(?:i|we)'d (?:run|go|use|take|stick|still|keep)|"
    r"(?:i|we) would (?:run|go|use|take|"
    r"stick|keep)|as it stands|"
    r"stick with|worth it|accept|live with|"
    r"price of admission|brace|be (?:ready|prepared)|prepare for|expect (?:it|that|something|the same|"
    r"as much)|again|buckle up|stay the course|hang on|sit tight|hold on|do(?:n't| not) panic|start|"
    r"set it up|"
    r"go ahead)\b"
)
OTHER_PLAN: Final = compile_pattern(
    r"所以|于是|为此|改[成为用]|换成|降到|减到|下调|压到|更稳|(?<!有)超(?:出|过|了)|不符|过不了|装不下|"
    r"\b(?:so i|so we|instead|which is why|therefore|too (?:much|deep)|beyond|exceeds?|above your|twice the|"
    r"double the|than you (?:said|can|could|want)|"
    r"over your|lower|trim)\b"
)


def planned_loss(analysis: Analysis, reading: Reading, share: Quantity) -> bool:
    """Say whether a test of the reply's own mix shows the loss, and the reply goes through with the mix."""
    norm = analysis.norm
    low, _ = analysis.sentence_span(share.start)
    before = norm[max(0, low - 80) : share.start]
    if (
        (
            _OWN_MIX.search(before) is None
            and _THIS_MIX.search(norm, share.end, share.end + 60) is None
            and not _follows_plan(analysis, reading, share)
        )
        or OTHER_MIX.search(norm, _behind_plan(reading, low, share.start), share.start)
        or _ILLUSTRATED.search(before)
    ):
        return False
    if not (
        _TESTED.search(before)
        or _TESTED.match(norm, share.end + 1)
        or EXPECTED.search(norm, low, share.start)
        or _POSSIBLE.match(norm, share.end)
        or _LOSS_AHEAD.search(norm, low, share.start)
    ):
        return False
    rest = norm[share.end : share.end + 160]
    # What another paragraph exceeds or replaces is something else.
    here = rest[: paragraphs.end(analysis, share.end) - share.end]
    if OTHER_PLAN.search(here) or FORGIVEN.search(here):
        return False
    return STICKS.search(rest) is not None or has_plan(reading)


_POSSIBLE: Final = late(r"(?:以上|左右|上下|多)?(?:也|都|完全|很|是|有)*可能")
_WHOLE: Final = late(r"净值|组合|账户|整体|总市值")
_THIS_MIX: Final = late(
    r"(?:按|照)(?:照)?(?:这个|这套|此|上述|上面的?)(?:比例|方案|组合|配置|配比)|"
    r"\b(?:go ahead|stick|stay|proceed|carry on|run) with (?:the|this) (?:mix|"
    r"plan|portfolio|allocation|split)\b"
)
_ILLUSTRATED: Final = late(
    r"(?<!测试)(?<!情景)(?<!压力)假[设如]|举例|示例|比如|个股|单只|该板块|\b(?:example|suppose|imagine)\b"
)
_LOSS_AHEAD: Final = compile_pattern(
    r"会|要|可能|得|过|\b(?:will|would|could|can|may|might|shows?|showed|should|expect\w*|ready|"
    r"prepared?|"
    r"fell|lost|dropped|shed|sank|slid|tumbled)\b"
)


def _follows_plan(analysis: Analysis, reading: Reading, share: Quantity) -> bool:
    """Say whether weights are proposed and then, in a clause that names no asset, the loss."""
    low, _ = analysis.sentence_span(share.start)
    clause_low, _ = analysis.clause_span(share.start, share.end)
    if low and analysis.norm[low - 1] != "\n" and _WHOLE.search(analysis.norm, clause_low, share.start):
        low, _ = analysis.sentence_span(low - 1)
    return any(
        weight.role == "target" and low <= weight.start < clause_low for weight in reading.weights
    ) and not any(clause_low <= label.start < share.start for label in reading.labels)


def _behind_plan(reading: Reading, low: int, start: int) -> int:
    """Return where the last of the weights ends that stand between ``low`` and ``start``."""
    return max([low, *(weight.end for weight in reading.weights if low <= weight.start < start)])


def has_plan(reading: Reading) -> bool:
    """Say whether the reply proposes any weight."""
    return any(weight.role == "target" for weight in reading.weights)
