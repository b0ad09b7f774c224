"""Parser of constraint texts.

A client's constraint (最大回撤<10%, 不碰军工和烟酒, "Max drawdown under 10%") becomes canonical predicates:
texts of one meaning give equal structs. A text is read clause by clause. Word lists decide whether a clause
states a limit (subject, direction, quantity), names the only things that are allowed, or rules something out.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain
from typing import Final, Literal, NamedTuple

from memfin.scoring import predicates as kinds
from memfin.scoring.predicates import ForbiddenAsset, ForbiddenPractice, Predicate
from memfin.scoring.vocabulary import Mention, class_finder, load_vocabulary, term_finder
from memfin.text.normalize import normalize
from memfin.text.numbers import number_value
from memfin.text.quantities import Quantity, bound, quantities

Ban = ForbiddenPractice | ForbiddenAsset
_Direction = Literal["most", "least"]

_LONGEST: Final = 2_000
"""Characters of a text that are read."""
_MOST_PARTS: Final = 40
"""Sentences of a text, clauses of a sentence and parts of a list that are read."""
# Characters of the name of a thing, of an item of a list, and of a refusal, which is longer in English.
_LONGEST_NAME, _SHORT_NAME, _LONGEST_REFUSAL = 100, 6, 14


def _words(text: str) -> tuple[str, ...]:
    """Return the words between bars; an underscore stands for a blank, where a Latin word begins or ends."""
    return tuple(text.replace("_", " ").split("|"))


def _lists(text: str) -> dict[str, tuple[str, ...]]:
    """Return word lists by their names, which stand in front of the first bar; lists go on behind a bar."""
    lines = text.strip("\n").replace("\n|", "|").splitlines()
    return {name: _words(words) for name, _, words in (line.partition("|") for line in lines)}


_LISTS: Final = _lists("""
negative|不|别|勿|禁|避|拒|没|无|非|零|否|远离|排除|除外|剔除|算了|去掉|杜绝|绕开|pass_|0杠杆|太高|太多|_no_
|_not_|_never_|_avoid|_without_|_none_|_nothing_|_exclu|_refus|_reject|_declin|_prohibit|_banned_|_skip
|_zero_|_nil_|_ineligible_|_off_the_table_|_off_limits_|_keep_me_from_|_stop_me_from_|_out_of_my_
|_outside_the_|_unacceptable_|_too_much_|_too_many_|_too_high_|_too_risky_|_instead_of_|_rather_than_
|_refrain|_a_no_go_|_forb|_away_from_|_clear_of_|_out_|_dislik|免谈|免了
harmless|不限|不错|不变|不动产|要不|特别|级别|个别|分别|区别|别人|别的|非银|非常|是否|无论|不论|不管|无风险
|无所谓|没关系|没问题|没时间|零售|零钱|避险|_no_matter|_no_exception|_not_only_|_without_exception
|_out_of_every|不了解|不懂|不清楚|不知道|没要求|没有要求|_not_know_|_not_understand_|差不多|_non_negotiable
|通过
most|最多|至多|最高|最长|顶多|顶格|上限|限额|封顶|控制|以内|之内|年内|月内|%内|为限|只限|≤|<|不大于|_at_most_
|_max|_cap_|_capped|_ceiling|_limit|_up_to_|_within_|_or_less_|_tops_|_upper_|_or_lower_
least|至少|最少|最低|最短|起码|下限|底线|保底|≥|>=|年起|%起|或以上|及以上|或更多|_at_least_|_min_|_minimum
|_or_more_|_or_longer_|_or_above_|_floor_
over|超|高于|大于|突破|多于|以上|过|触及|达到|_over_|_above_|_exceed|_beyond_|_more_than_|_past_
|_greater_than_|_larger_than_|_bigger_than_|_higher_than_|_longer_than_
under|低于|少于|小于|短于|不足|不满|不到|以下|跌破|_below_|_under_|_less_than_|_smaller_than_|_shorter_than_
|_lower_than_|_before_
single|单一|单个|单只|单项|单资产|单基|任一|任何一|任何基金|每只|每个|每种|每样|每项|每一|哪一|哪只|哪个|一只
|同一|某一|某只|集中度|个仓位|_any_one_|_single_|_individual_|_each_|_every_|_largest_fund|_largest_hold
|_any_fund|_any_issuer|_any_asset|_no_fund_|_no_asset_|_none_|_a_fund_|_one_fund_|_same_fund_|_one_asset_
|_one_investment_|_fund_position|_position_size|_largest_position|_per_asset|_per_fund|_per_position
|_per_holding|_per_stock|_no_sector
drawdown|回撤|亏损|亏本|损失|浮亏|跌幅|缩水|回落|_drawdown|_mdd_|_dd_|_loss|_lose_|_losing_|_peak_to
|_high_water
fall|亏|跌|_fall|_drop|_decline|_dip|_slide|_down_
cash|现金|活钱|活期|备用|应急|流动资金|手头|急用|随时能用|_cash_|_uninvested_|_liquid|_emergency_
|_emergencies_|_rainy_day_
hold|持有|拿|持仓|放|留着|_hold|_held_|_keep_|_kept_|_owned_|_invested_|_remain_
sold|不卖|就卖|卖出|卖掉|换仓|不赎|别动|别卖|不得卖|不能卖|_sell_|_selling_|_sold_|_sales_|_closed_|_exit_
locked|封闭|锁|取不出|赎回|_lock|_withdraw|_redeem|_be_sold_|_tied_up_
fee|费率|费用|管理费|托管费|成本|收费|_fee|_expense_ratio|_ter_|_cost|_charg
only|仅|限于|限公募|限定|只限|全部|必须|须为|须是|一律|唯一|非公募|不是公募|除了|以外|之外|范围|工具|标的
|都是|全是|才考虑|纯|_only_|_exclusively_|_solely_|_just_|_except|_other_than_|_anything_but_|_restrict
|_confined_|_limit|_must_|_or_nothing_|_permitted_|_eligible_|_strictly_|_provided_
public|公募|公开募集|公开发行|_mutual_fund|_public_fund|_public_mutual|_publicly_offered|_publicly_sold
|_fund_product|_retail_fund|_funds_only_|买基金|投基金|配基金
index|指数基金|指数类|被动基金|_index_fund|_passive_fund|_tracker_fund
deposit|存款|定期|大额存单|_deposit|_savings_account|活期
money fund|货币基金|货基|货币市场|_money_market_|_money_fund
bond|债|固收|信用|_bond|_credit|_corporate|_fixed_income_|_rates_|_issuer|_government_|_treasur
|_investment_grade_
graded below|以下|_below_|_worse_than_|_lower_than_|非高|_not_high|_not_a_high|低于
graded above|至少|最低|要求|一律|全高|_or_better_|_or_above_|以上|_at_least_|不低于
graded|投资级|_investment_grade_|高等级|高评级|高信用|高资质|高质量|优质|评级高|评级最好|信用最好|信用好
|信用风险低|_high_grade_|_highly_rated_|_high_rated_|_top_rated_|_high_rating|_high_quality_
|_highest_quality_|_top_quality_|_strong_rating|_strongest_|_strong_compan
mainly|为主|主要|主体|主力|大头|主打|大部分|多数|核心|主仓|底仓|重点|_main_|_mainly_|_mostly_|_primarily_
|_predominantly_|_largely_|_core_|_bulk_|_majority_|_most_of_|_focus|_priority_|_chiefly_|_principally_
|_dominated_
price|费|成本|_fee|_cost|_charge|_expense_ratio|_ter_|_cheap|_inexpensive
low price|低|便宜|省|收费少|_low|_cheap|_small|_reduced_|_minimi|_inexpensive_|_costs_less_
first|优先|先买|先选|先挑|_prefer|_priorit|_first_|_favour|_favor|_when_|_if_|_unless_|_precedence_
cheap fund|便宜的基金|便宜的|_cheap
premium|保费|_premium
duration|久期|_duration
volatility|波动率|年化波动|_volatility
loss|亏|损失|_loss|_lose_|_losing_
trade|单笔|每笔
each time|每期|每次|_each_time_|_per_time_
together|合计|加起来|之和|总和|_together_|_combined_|_plus_
left|留
rest|其余|剩下|剩余|_the_rest_|_remaining_
instalment|定投|每月投|扣款|_regular_invest|_monthly_contribution|_instalment|_per_month_|_a_month_
expenses|生活费|开销|支出|花销|_expenses_|_living_cost|_spending_
budget|总投入|总共投|一共投|总预算|预算|_budget_|_total_investment|总投资
turnover|调仓|次仓|换仓|换手|再平衡|_rebalanc|_turnover
needed|要用|用钱|需要用|_will_need_|_need_the_money_|_need_it_
allowed|不反对|不排斥|不怕|不介意|不拒绝|不排除|_no_problem|_no_objection|_not_opposed|_nothing_against
|_not_mind|不想错过|不错过|不确定|不要求|不是不|经验|_experience_|_no_limit|_no_preference|_no_idea
|_not_sure_|_no_rush
past|以前|之前|曾|去年|前年|上次|被套|吃过亏|踩过|_lost_|_once_|_was_|_were_|_got_
no loss|本金不能亏|不能亏本|不能亏钱|不亏本金|要保本|必须保本|_no_loss_of_capital_|_never_lose_money_
|不要亏本|_not_lose_money_
""")
# Terms that are ruled out by what a constraint asks for, and those ruled out by all that it allows.
_ASKED: Final = _lists("""
short_term_trading|低换手|长期持有|只做长期|长线持有|偏好长期|_low_turnover_|_buy_and_hold_
lock_up_products|随时能取|随时取|随时可取|随时可用|随时能赎|随时可赎|随时赎|随时要能|_daily_liquidity_
|_must_be_liquid_|_stay_liquid_|_withdraw_any_time_|_withdraw_at_any_time_
leverage|自有闲钱|用自己的钱|只用自有|_unlevered_|_unleveraged_|_own_money_only_|_own_funds_only_
""")
_ALLOWED_ALONE: Final = _lists("""
credit_bonds|国债|政金债|利率债|_government_bond|_treasur|_gilt
overseas_market|国内|境内|内地|a股|本土|人民币资产|_domestic|_onshore_|_mainland_|_home_country_
|_home_market_|_at_home_|_a_shares_
unlisted_equity|上市交易|上市的产品|上市产品|_listed_
high_volatility|低波动|波动小|波动平稳|中低波|_low_volatility_|_low_vol_|_fluctuate
leverage|自有资金|自己的钱|自有闲钱|_my_own_money_|_own_cash_|_own_capital_
margin_trading|现金全额|_cash_account_|_fully_funded_
short_term_trading|中长期|长线|长期|_long_term_|_long_haul_|_long_holding
""")

_REPLACED: Final = (
    ("n't", " not"), ("cannot", "can not"), ("under no circumstances", "never"), ("nothing but", "only"),
    ("per cent", "percent"), ("double-digit", "10%"), ("single-digit", "under 10%"), ("single digits", "10%"),
    ("超过半", "超过50%"), ("过半", "超过50%"), ("千万别", "别"), ("客户", ""),
)  # fmt: skip
_BLANK: Final = re.compile(r" (?=[^\x00-\x7f])|(?<=[^\x00-\x7f]) ")
_REWRITTEN: Final = (
    (re.compile(r"(?<![\d.])0\.(\d\d)(?![\d%]| ?(?:%|个|年|percent|year))"), r"\1%"),
    (re.compile(r"(?<![\d.])0\.(\d)(?![\d%]| ?(?:%|个|年|percent|year))"), r"\g<1>0%"),
    (re.compile(r"(?<![\d.])(\d\d) ?(?:bps?\b|basis points?|个?基点|个?bp)"), r"0.\1%"),
    (re.compile(r"(?<=\d) ?y(?:rs?)?\b"), " years"),
    (re.compile(r"((?:久期|duration)[^\d,;]{0,20}\d{1,2}(?:\.\d)?)(?![\d.%年个月]| ?[-ym])"), r"\1 years"),
    (re.compile(r"(定投[^\d,;]{0,12}\d{3,6})(?![\d.,%万千百元块])"), r"\1元"),
)
_SENTENCE_END: Final = re.compile(r"[;。!?\n]|(?<![\da-z])\d[.、)](?!\d)|(?<!max)(?<!min)\.(?=\s|$)")
_CLAUSE_END: Final = re.compile(
    r",(?!\d{3})|但是?|(?<!分)且|同时| but | and (?=no |not |never |max|at most|at least|only |keep |under )"
)
_MARKS: Final = re.compile(r"[^\w%<>=≤≥+*.&/$£€¥]+")
_SHORT_OF: Final = re.compile("不[足满到]")
_ONLY: Final = re.compile(r"(?<![一二两三四五六七八九十几每单某哪多这那\d])只(?!基金|股票|产品|是|会)")
_NONE: Final = re.compile(
    r"(?:暂?无|没有?|未设定?)(?:任何|什么|明确|特别|特殊|其他|具体)*的?(?:约束|限制|要求|禁忌)?(?:条件)?|none|n/a|"
    r"no (?:explicit |specific |particular |stated )?(?:constraint|restriction|limit)s?(?: stated)?"
)
_COUNT: Final = r"(\d{1,3}|[一二两三四五六七八九十]|one|two|three|four|five|six|seven|eight|nine|ten)"
_TIMES: Final = re.compile(rf"\bonce\b|\btwice\b|{_COUNT} ?(?:次|times)")
_PER_YEAR: Final = (("半年", 2.0), ("季", 4.0), ("quarter", 4.0), ("月", 12.0), ("month", 12.0), ("周", 52.0))
_HOLDINGS: Final = re.compile(rf"{_COUNT} ?(?:[只支]|(?:different )?(?:funds|products|holdings|positions)\b)")
_LEVEL: Final = re.compile(r"(?<![a-z0-9])r([1-5])(?![0-9])")
_LETTERS: Final = re.compile(
    r"(?<![a-z0-9])(?:(aaa|aa\+|aa|bbb)(?![a-z0-9+])|(a)(?=级(?!份)|以[上下]|.rated| or better)|rated (a)\b)"
)
_RATINGS: Final[tuple[kinds.Rating, ...]] = ("BBB", "A", "AA", "AA+", "AAA")

# Things that no entry of the vocabulary names: a verb of dealing that is negated, and what it is about.
_LEAD: Final = r"(?:我|就|都|也|请|麻烦|所以|以后|全程|统统|一律|坚决|绝对?|一概|完全|目前|现在|再|这次)*+"
_DEALT: Final = (
    r"(?:投资(?![源管产])|追(?!求)|[再要想碰做炒玩用投]|买入?|考虑|接受|参与|购买|配置?|持有|推荐|给我)"
)
_DEALINGS: Final = re.compile(rf"^{_DEALT}++(?=..)")
_BEHIND: Final = re.compile(
    rf"{_LEAD}(?:(?:[不别勿]|拒绝|避免|禁止){_DEALT}++|拒绝|回避|避[开免]|远离|排除|剔除|禁止)(?:任何|所有)?"
    r"(?P<thing>[^太过这那于得在,][^,]{0,13})"
)
_IN_FRONT: Final = re.compile(
    rf"{_LEAD}[跟和与]?(?P<thing>[^,]{{1,14}}?)(?:相关|有关|沾边|之类|一类|类)?的?{_LEAD}"
    rf"(?:[不别勿]{_DEALT}++|不行|免谈|除外|排除|剔除)[它了的吧]?"
)
_ENGLISH_BEHIND: Final = re.compile(
    r"(?:please |i |we |client )*(?:no|(?:do|will) not|never|avoid|without|exclude|stay away from)"
    r"(?: (?:want|buy|invest|in|into|use|touch|hold|own|trade|any|the|a))* (?!more |less |over |above )"
    r"(?P<thing>[a-z][a-z'&-]*(?: (?:and |or )?[a-z'&-]+){0,3})"
)
_ENGLISH_IN_FRONT: Final = re.compile(
    r"(?P<thing>[a-z][a-z'& -]{2,40}?) (?:is |are )?(?:off limits|off the table|excluded|banned|not allowed)"
)
_WRAPPING: Final = re.compile(
    r"^(?:any|all|the) | (?:please|at all|exposure)$|^[的类]|(?:[的类等]|方面|产品|资产|标的|板块|行业|相关)$"
)
_LIST: Final = re.compile(r"[、/和与及或,]| (?:and|or|nor) ")
_PRONOUNS: Final = _words(
    "它|我|了|做|这些|那些|这种事|单只|一只|什么|自己|方案|them|it|that|this|again|risk"
)
_PREFER: Final = re.compile(r"更?(?:偏好|偏爱|优先(?:考虑|选择)?|喜欢|倾向于?|希望|prefers?|likes?)[: ]*")


class _Clause(NamedTuple):
    """A clause prepared for reading.

    ``flat`` is the text with blanks for its marks, ``bare`` that without harmless words (特别, "no matter").
    """

    text: str
    flat: str
    bare: str
    amounts: list[Quantity]
    mentions: list[Mention]
    negative: bool

    def holds(self, words: Iterable[str]) -> bool:
        """Return whether one of the words stands in the clause."""
        return any(map(self.flat.__contains__, words))

    def has(self, name: str) -> bool:
        """Return whether a word of the named list stands in the clause."""
        return self.holds(_LISTS[name])

    def says(self, words: str) -> bool:
        """Return whether one of the words between bars stands in the clause."""
        return self.holds(_words(words))

    def allows_only(self) -> bool:
        """Return whether the clause says that there is nothing else."""
        return self.has("only") or _ONLY.search(self.text) is not None


def parse_constraint(text: str) -> Predicate | None:
    """Return the canonical predicate of a constraint, or None when it is not understood.

    A text that rules out a thing the vocabulary does not know gives a `ForbiddenAsset` with the text's own
    words. Of a text that holds several constraints it is the first.
    """
    return next(iter(parse_constraints(text)), None)


@lru_cache(maxsize=4096)
def parse_constraints(text: str) -> tuple[Predicate, ...]:
    """Return all predicates of a text: of a list (不碰军工和烟酒), and of several constraints."""
    norm = _prepared(text)
    if _NONE.fullmatch(norm.rstrip("。. ")):
        return (kinds.NoConstraint(),)
    sentences = filter(None, map(str.strip, _SENTENCE_END.split(norm, _MOST_PARTS)))
    found = [predicates for sentence in sentences for predicates in _sentence(sentence)]
    known = [predicates for predicates in found if any(map(_is_known, predicates))]
    return tuple(dict.fromkeys(chain.from_iterable(known or found))) or _wish(norm)


def _is_known(predicate: Predicate) -> bool:
    return not isinstance(predicate, ForbiddenAsset) or load_vocabulary().term(predicate.term) is not None


def unread_constraints(texts: Iterable[str]) -> list[str]:
    """Return the texts, each once, that are not understood: no advice can break them."""
    return list(dict.fromkeys(text for text in texts if text.strip() and not parse_constraints(text)))


@lru_cache(maxsize=4096)
def forbidden(text: str) -> Ban | None:
    """Return the ban of the thing a text names, whether or not the text negates it."""
    norm = _prepared(text)
    if load_vocabulary().term(norm) is not None:
        return _ban(norm)
    clause = _clause(norm)
    if clause.mentions:
        return _ban(max(clause.mentions, key=lambda mention: mention.end - mention.start).ids[0])
    name = _thing(clause)
    if not name and not clause.negative:
        name = _unwrapped(_DEALINGS.sub("", norm.rstrip(" ,.:。"))[:_LONGEST_NAME])
    return None if not name or quantities(name) else _alone(name) or ForbiddenAsset(name)


def _prepared(text: str) -> str:
    norm = _BLANK.sub("", re.sub(" +", " ", normalize(text[:_LONGEST])).strip())
    for wording, meaning in _REPLACED:
        norm = norm.replace(wording, meaning)
    for pattern, form in _REWRITTEN:
        norm = pattern.sub(form, norm)
    return norm.strip()


def _clause(text: str) -> _Clause:
    bare = flat = f" {_MARKS.sub(' ', text)} "
    for word in _LISTS["harmless"]:
        bare = bare.replace(word, " ")
    amounts = _ratios(text, quantities(text))
    denied = _SHORT_OF.sub("", bare)
    negative = any(map(denied.__contains__, _LISTS["negative"])) or any(not each.high for each in amounts)
    clause = _Clause(text, flat, bare, amounts, term_finder(hints=True).find(text), negative)
    return clause._replace(negative=False) if clause.has("allowed") else clause


def _ratios(text: str, amounts: list[Quantity]) -> list[Quantity]:
    """Return the amounts; of a sum out of another (十万里留两万) the share that it is."""
    if len(amounts) > 1 and amounts[0].kind == amounts[1].kind == "money":
        whole, part = amounts[:2]
        if "里" in text[whole.end : part.start]:
            return [part._replace(kind="share", low=part.low / whole.low, high=part.high / whole.low)]
    return amounts


def _sentence(sentence: str) -> list[list[Predicate]]:
    """Read a sentence clause by clause, and as a whole where its clauses state no limit or nothing."""
    parts = [part for each in _CLAUSE_END.split(sentence, _MOST_PARTS) if (part := each.strip(" :"))]
    clauses = _joined(map(_clause, parts))
    current = [clause for clause in clauses if not clause.has("past")] or clauses
    limits = [_limits(clause) if clause in current else [] for clause in clauses]
    found = [limits[at] or _quality(clause) or _bans(clause) for at, clause in enumerate(clauses)]
    if len(clauses) > 1:
        whole = _clause(",".join(clause.text for clause in current))
        found = [[] if any(limits) else _limits(whole), *found]
        if remainder := _remainder(clauses):
            return [remainder]
        found = found if any(found) else [_quality(whole)]
    return found


def _joined(clauses: Iterable[_Clause]) -> list[_Clause]:
    """Return the clauses; refusals (题材来得快,我不参与) and items of lists are part of the one before."""
    joined: list[_Clause] = []
    for clause in clauses:
        last = joined[-1] if joined else clause
        refused = _is_refusal(clause) and not last.negative and not last.has("allowed")
        if joined and (refused or (last.negative and last.mentions and _is_listed(clause))):
            joined[-1] = _clause(f"{last.text},{clause.text}")
        else:
            joined.append(clause)
    return joined


def _is_listed(clause: _Clause) -> bool:
    """Return whether a clause is an item of a list that another one rules out (no gold, silver or oil)."""
    named = sum(mention.end - mention.start for mention in clause.mentions)
    alone = named >= len(clause.text) - 1 or clause.says("或|_or_|_nor_")
    return named > 0 and alone and not clause.negative


def _is_refusal(clause: _Clause) -> bool:
    """Return whether a clause refuses something and does not say what."""
    if not clause.negative or len(clause.text) > _LONGEST_REFUSAL * (4 if clause.text.isascii() else 1):
        return False
    names = clause.mentions or clause.amounts or clause.allows_only() or _thing(clause)
    return not names and not clause.says("太|更|过于|这么|那么|_too_|_so much_")


def _remainder(clauses: list[_Clause]) -> list[Predicate]:
    """Return the cash floor of a text that gives a share for one thing and leaves the rest in cash."""
    rest = any(clause.has("rest") and clause.has("cash") and not clause.amounts for clause in clauses)
    shares = [each.high for clause in clauses for each in clause.amounts if each.kind == "share"]
    return [kinds.CashFloor(share=round(1 - shares[0], 6))] if rest and len(shares) == 1 else []


def _limits(clause: _Clause) -> list[Predicate]:
    """Return the limit that a clause states, if any."""
    zero = clause.mentions and not any(amount.high for amount in clause.amounts) and clause.amounts
    if clause.has("allowed") or zero:
        return []
    found = _counted(clause) or _stated(clause, _SUBJECTS) or _weight(clause) or _stated(clause, _UNSURE)
    return [] if found is None else [found]


def _direction(clause: _Clause) -> _Direction | None:
    """Return whether a clause bounds its quantity from above or below; a negation turns over and under."""
    names = ("over", "under", "most", "least")
    over, under, most, least = (any(map(clause.bare.__contains__, _LISTS[name])) for name in names)
    if most != least:
        return "most" if most else "least"
    turned = clause.negative or clause.says("不足|不满") or clause.bare.startswith(" if ")
    if over != under:
        return "most" if over == turned else "least"
    return None


def _amount(clause: _Clause, kind: str) -> Quantity | None:
    """Return the clause's quantity of a kind: of a pair the larger, of others the one beside a limit word."""
    amounts = [amount for amount in clause.amounts if amount.kind == kind]
    if len(amounts) > 1 and " between " in clause.flat:
        return amounts[-1]
    bounded = [amount for amount in amounts if bound(clause.text, amount) != "exact"]
    return next(iter(bounded or amounts), None)


# Subjects with the kind of their quantities, in the order in which they are tried; the last are less certain.
_SUBJECTS: Final = _words(
    "instalment money|premium money|fee share|duration duration|expenses duration|locked duration"
    "|needed duration|volatility share|drawdown share|loss money|hold duration|sold duration|single share"
    "|single money|trade money|cash money|budget money"
)
_UNSURE: Final = ("fall share", "left money")
_AT_LEAST: Final = ("expenses", "hold", "sold", "cash", "left")


def _stated(clause: _Clause, subjects: Iterable[str]) -> Predicate | None:
    """Return the limit of the first subject that the clause names together with a quantity of its kind."""
    for subject in subjects:
        words, _, kind = subject.partition(" ")
        amount = _amount(clause, kind) if clause.has(words) else None
        if amount is not None:
            direction = _direction(clause) or ("least" if words in _AT_LEAST else "most")
            value = round(amount.high if direction == "most" else amount.low, 6)
            found = _limit(subject, clause, value, least=direction == "least")
            if found is not None:
                return found
    return None


def _limit(subject: str, clause: _Clause, value: float, *, least: bool) -> Predicate | None:
    """Return the limit of a subject's quantity, or None where the clause cannot mean it."""
    kept = least or (clause.negative and clause.has("sold"))
    unused = clause.negative and clause.has("needed")
    sector = any("sectors" in mention.ids for mention in class_finder().find(clause.text))
    single = kinds.SingleAssetCap(value, "fund" if clause.says("基金|单基|只基|_fund") else "asset")
    limits: dict[str, Predicate | None] = {
        "instalment money": kinds.MaxInstalment(value, "time" if clause.has("each time") else "month"),
        "premium money": kinds.MaxPremium(value),
        "fee share": kinds.MaxFee(value, "management" if clause.says("管理费|_management fee") else "all"),
        "duration duration": kinds.MaxDuration(value),
        "expenses duration": None if clause.negative else kinds.CashFloor(months=round(value * 12, 6)),
        **dict.fromkeys(("locked duration", "needed duration"), None if unused else kinds.MaxLockUp(value)),
        "volatility share": kinds.MaxVolatility(value),
        **dict.fromkeys(("drawdown share", "fall share"), kinds.MaxDrawdown(value)),
        "loss money": kinds.MaxLoss(value),
        "hold duration": kinds.MinHolding(value) if kept else kinds.MaxLockUp(value),
        "sold duration": kinds.MinHolding(value) if kept else kinds.MaxLockUp(value),
        "single share": None if least else kinds.AssetClassCap("sector", value) if sector else single,
        **dict.fromkeys(("single money", "trade money"), kinds.MaxPosition(value)),
        **dict.fromkeys(("cash money", "left money"), kinds.CashFloor(amount=value) if least else None),
        "budget money": kinds.MaxBudget(value),
    }
    return limits[subject]


def _weight(clause: _Clause) -> Predicate | None:
    """Read a limit of an asset class's weight."""
    amount = _amount(clause, "share")
    if amount is None:
        return None
    name, others = _asset_class(clause, amount)
    direction = _direction(clause)
    boundary = clause.says("红线|底线")
    if name == "cash" and (direction != "most" or boundary):
        return kinds.CashFloor(share=round(amount.low, 6))
    if direction is None and (amount.low < amount.high or " between " in clause.flat or boundary):
        direction = "most"
    if name is None or direction is None:
        return None
    value = amount.high if direction == "most" else amount.low
    value = round(1 - value if others else value, 6)
    capped = (direction == "most") is not others
    return kinds.AssetClassCap(name, value) if capped else kinds.AssetClassFloor(name, value)


def _asset_class(clause: _Clause, amount: Quantity) -> tuple[str | None, bool]:
    """Return the class of a weight, and True if the weight is that of everything but the class."""
    found = class_finder().find(clause.text)
    for mention in found:
        if clause.text[: mention.start].endswith(("非", "other than ")):
            return mention.ids[0], True
    if not found:
        assets = (name for name, *_ in (mention.ids for mention in clause.mentions) if _is_asset(name))
        return "cash" if clause.has("cash") else next(assets, None), False
    names = {mention.ids[0] for mention in found}
    parents = {entry.within or entry.id for entry in load_vocabulary().classes if entry.id in names}
    if len(names) > 1 and (len(parents) == 1 or clause.has("together")):
        return parents.pop() if len(parents) == 1 else None, False
    nearest = min(found, key=lambda each: min(abs(each.start - amount.end), abs(amount.start - each.end)))
    if nearest.ids[0] == "equity":
        for mention in clause.mentions:
            covers = mention.start <= nearest.start and mention.end >= nearest.end
            if covers and "stocks" not in mention.ids:
                return mention.ids[0], False
    return nearest.ids[0], False


def _counted(clause: _Clause) -> Predicate | None:
    """Read a limit of the domestic risk level, of trades per year, or of the number of holdings."""
    direction = _direction(clause)
    level = _LEVEL.search(clause.text)
    if level is not None:
        above = clause.negative and clause.says("以上|_or above_|_or higher_")
        limited = above or direction == "most" or clause.allows_only()
        return kinds.MaxRiskLevel(int(level[1]) - above) if limited else None
    times = _TIMES.search(clause.text)
    if times is not None and clause.has("turnover") and direction != "least":
        per_year = next((factor for name, factor in _PER_YEAR if name in clause.flat), 1.0)
        count = {"once": 1.0, "twice": 2.0}.get(times[0]) or number_value(times[1]) or 0.0
        return kinds.MaxTurnover(count * per_year)
    holdings = _HOLDINGS.search(clause.text)
    held = int(number_value(holdings[1]) or 0) if holdings is not None else 0
    if held <= 1 or clause.amounts or direction is None:
        return None
    return kinds.MaxHoldings(held) if direction == "most" else kinds.MinHoldings(held)


def _quality(clause: _Clause) -> list[Predicate]:
    """Read what a clause allows: no loss, ratings, cheap funds, a universe, a calm way of investing."""
    if clause.has("no loss") and not clause.amounts:
        return [kinds.MaxDrawdown(0.0)]
    rating = _rating(clause)
    if rating is not None:
        return [rating]
    first = clause.has("first")
    cheap = (clause.has("price") and clause.has("low price")) or (first and clause.has("cheap fund"))
    if cheap and "摊" not in clause.text and not clause.amounts and (first or not clause.negative):
        return [kinds.LowFee()]
    asked = [] if clause.negative else [_ban(name) for name, words in _ASKED.items() if clause.holds(words)]
    return [*asked, *(_universe(clause) if clause.allows_only() else ())][:1]


def _universe(clause: _Clause) -> list[Predicate]:
    """Return what a clause that allows nothing else is about; the first counts."""
    found: list[Predicate] = []
    if clause.has("index") and not clause.negative:
        found.append(kinds.AllowedUniverse("index_funds"))
    if clause.has("public"):
        found.append(kinds.AllowedUniverse("public_funds"))
    if (clause.negative and not clause.says("以外|之外|_outside_")) or clause.has("mainly"):
        return found
    if clause.has("deposit") and (clause.holds(_ALLOWED_ALONE["credit_bonds"]) or clause.has("money fund")):
        found.append(kinds.AllowedUniverse("liquid" if clause.has("money fund") else "safe"))
    return [*found, *(_ban(name) for name, words in _ALLOWED_ALONE.items() if clause.holds(words))]


def _rating(clause: _Clause) -> kinds.MinRating | None:
    """Read the lowest rating that a clause allows."""
    letters = {next(filter(None, groups)) for groups in _LETTERS.findall(clause.text)}
    rating: kinds.Rating | None = next((each for each in _RATINGS if each.lower() in letters), None)
    if rating is None and clause.has("graded"):
        rating = "BBB" if clause.says("投资级|_investment grade_") else "AA+"
    if rating is None or not (letters or clause.has("bond")):
        return None
    if clause.has("mainly") and not clause.negative:
        return kinds.MinRating(rating, "main")
    bounded = clause.has("graded below" if clause.negative else "graded above")
    return kinds.MinRating(rating) if bounded or clause.allows_only() else None


def _bans(clause: _Clause) -> list[Predicate]:
    """Return what a clause rules out, each part of a list by itself; with a share it is a limit instead."""
    if not clause.negative or any(each.kind == "share" and each.high for each in clause.amounts):
        return []
    name = _thing(clause)
    parts = [part for each in _LIST.split(name, _MOST_PARTS) if (part := _unwrapped(each))]
    found: list[Predicate] = [_ban(_narrowest(group)) for group in _groups(clause)]
    short = len(parts) > 1 and not name.isascii() and all(len(part) <= _SHORT_NAME for part in parts)
    for part in parts if short or not found else ():
        own = _alone(part) or (ForbiddenAsset(part) if len(part) > 1 else None)
        if own is not None and not term_finder(hints=True).find(part):
            found.append(own)
    return list(dict.fromkeys(found))


def _groups(clause: _Clause) -> Iterator[list[Mention]]:
    """Yield the mentions of a clause, those of one part of a list together."""
    group: list[Mention] = []
    first = clause.text.find(" without ") if clause.allows_only() else -1
    for mention in clause.mentions:
        if mention.start < first:
            continue
        if group and _LIST.search(clause.text, group[-1].end, mention.start):
            yield group
            group = []
        group.append(mention)
    if group:
        yield group


def _narrowest(group: list[Mention]) -> str:
    """Return the id of the mention that says most: no broader term than another, and the longest."""
    closure = load_vocabulary().closure
    names = {mention.ids[0] for mention in group}
    narrow = [mention for mention in group if not (closure(mention.ids[0]) - {mention.ids[0]}) & names]
    return max(reversed(narrow), key=lambda mention: mention.end - mention.start).ids[0]


def _thing(clause: _Clause) -> str:
    """Return the words of a clause for the thing it rules out, "" if there are none."""
    if not clause.negative:
        return ""
    english = clause.text.isascii()
    patterns = (_ENGLISH_BEHIND, _ENGLISH_IN_FRONT) if english else (_BEHIND, _IN_FRONT)
    found = patterns[0].fullmatch(clause.text) or patterns[1].fullmatch(clause.text)
    name = _unwrapped(found["thing"]) if found else ""
    return "" if name in _PRONOUNS or name.startswith(("其他", "除")) or quantities(name) else name


def _unwrapped(text: str) -> str:
    text = text.strip()
    while (shorter := _WRAPPING.sub("", text).strip()) != text and shorter:
        text = shorter
    return text


@lru_cache(maxsize=1024)
def _alone(name: str) -> Ban | None:
    """Return the ban of the term that a constraint means when it names nothing else."""
    return next((_ban(term.id) for term in load_vocabulary().terms if name in term.alone), None)


def _is_asset(name: str) -> bool:
    term = load_vocabulary().term(name)
    return term is None or term.kind == "asset"


def _ban(name: str) -> Ban:
    return ForbiddenAsset(name) if _is_asset(name) else ForbiddenPractice(name)


def _wish(norm: str) -> tuple[Predicate, ...]:
    match = _PREFER.match(norm)
    wish = norm[match.end() :].strip() if match else ""
    if ("业绩" in norm and "季" in norm) or "quarterly" in norm:
        wish = "quarterly_performance"
    return (kinds.Preferred(wish),) if wish else ()
