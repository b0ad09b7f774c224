"""Labelled names are refused before any write; ordinary sentences about money pass."""

from pathlib import Path
from typing import Final

import pytest

from memfin.memory import MemoryStore
from memfin.memory.errors import SensitiveInput
from memfin.memory.sensitive import find_sensitive
from tests.memory.memory_disks import tree
from tests.memory.stored_contexts import ALL
from tests.support import each_case

NAMED: Final = """
我叫李小明
我叫李小明，想了解基金
我叫李小明想买基金
你好，我叫欧阳娜娜。
真实姓名：欧阳娜娜
本人姓名：王伟
本人姓名王伟
姓名：李小明
姓名 李小明
姓名李小明
户名：李小明，开户行招商银行
户名李小明
戶名：陳大文
持卡人：王建国
持卡人是王建国，帮我查一下
收款人: 张三
我的名字是陈小红
我的名字叫陈小红，今年35岁
我叫陈小红今年35岁
本人叫周杰，想做定投
联系人：赵敏
我叫Tom Chen，你好
姓名：John Smith
我叫阿依古丽·买买提
我叫张伟的，账户已开
My name is John Smith
my name is john smith and I want to invest
Hi, my name is Mary-Ann O'Neil.
My full name is Juan de la Cruz
My name's Wei Zhang
Name: John Smith
Account holder: Jane Doe
cardholder name: Jane Doe
Beneficiary: Peter van Dyke
My name is John Q. Smith.
MY NAME IS JOHN SMITH
""".strip().splitlines()

ORDINARY: Final = """
我叫它稳健组合
my name is on the account
my name is not important here
巴菲特认为现金是氧气
张坤管理的易方达蓝筹精选最近回撤很大
姓名和电话我都不想留
姓名不要保存
户名不符怎么办
户名变更要多久
户名是公司的，能开户吗
户名：招商银行股份有限公司
户名：易方达基金管理有限公司
收款人是基金公司还是银行
持卡人是本人还是家属都可以吗
受益人是我女儿，保险怎么配
受益人写法定继承人可以吗
联系人是我爸
委托人是高净值客户时费用如何
投保人和被保险人要一致吗
我叫停了定投
我叫了个单子，还没成交
我叫价3000元一克买金条
我叫方案一的那个组合怎么样
我叫高手帮我看过
我叫客户经理把风险等级调低
我叫万能险的那种产品安全吗
我叫不准这只基金的名字
基金全名是华夏上证50ETF
全名是沪深300指数增强
基金全名：汇添富消费行业混合
产品全名叫南方宝元债券
名字叫金牛的基金靠谱吗
我的组合名字是安心养老
账户名是什么意思
账户名为空怎么办
真名要填吗
真名和昵称有区别吗
姓名 必填吗
姓名：保密
姓名：匿名
姓名：不方便透露
姓名=空
联系人 平安银行客服
收款人 支付宝
收款人：单位
收款人：基金公司
收款人：王先生
联系人：张经理
我叫王女士
付款人为公司账户
受益人：未成年子女
受益人：全体继承人
受益人：应当是我孩子
本人高度关注黄金
本人方便时再联系
本人叫好不叫座的基金也买
本人安徽人，月入一万
本人从事金融行业
本人任职国企，收入稳定
林园说医药是长期赛道
段永平买了苹果
但斌的私募净值跌了
格雷厄姆的安全边际
我是高风险偏好
我是白领，月光族
我是方正证券的客户
贵州茅台和宁德时代哪个好
比亚迪的估值偏高
中国平安的股息率
黄金和白银怎么配
石油基金还能买吗
成本价是多少
金牛座基金有没有
我的名字是否会被保存
我的名字不要出现在报告里
我的姓名是否必填
我全名都写在合同里了
Warren Buffett says be fearful when others are greedy
I follow Peter Lynch and John Bogle
Name: Vanguard Total Stock Market Index Fund
Fund name: Fidelity Contrafund
Name: Growth Portfolio
portfolio name: Steady Income Plan
My name is Not relevant to this
my name is already in your system
my name is spelled wrong on the statement
my name is mentioned twice
my name is still the same
my name is misspelled
is my name stored anywhere?
please remove my name from the list
what is the full name of the index?
The full name is Standard and Poor's 500
full name: Invesco QQQ Trust
The beneficiary is my daughter
Beneficiary: My Spouse
account holder: Same as above
cardholder: The Company
payee: Charles Schwab Bank
the payee name is required
I am a Cautious Investor
I am Long Tesla and Short Bonds
This is Apple Inc speaking of growth
the ticker name is AAPL
name: BTC
name=沪深300
Name: Conservative
in the name of diversification
the name is Bond ETF
{"name": "Bitcoin", "type": "asset"}
{"type": "asset", "name": "贵州茅台"}
{"name": "Gold Price", "type": "theme"}
{"name": "Federal Reserve", "type": "event"}
{"name": "Tesla Motors"}
我叫上家人一起理财
我叫金额不足的提示烦死了
我叫ETF小白
我叫韭菜
我叫小白
我叫Alpha策略的那个模型
受益人是成年人和老人
持卡人是成年人的家属
联系人是常用的手机号
受益人是范围内的亲属
收款人为应付的一方
户名和卡号都对不上，
户名：万家基金
户名：安信证券
户名 方正富邦
我叫于我无关的提醒关掉
姓名栏怎么填
开户人要本人到场吗
开户人年龄限制
委托人和受托人的关系
受益人、投保人如何变更
我的名字叫什么不重要
用户名和密码，都改了
户名和卡号，都不对
用户名：李小明
姓名从未填过
My name is John and I like index funds.
""".strip().splitlines()


@each_case("text", NAMED)
def test_a_labelled_name_is_found(text: str) -> None:
    assert {each.kind for each in find_sensitive(text)} == {"person_name"}
    assert find_sensitive(f"关于养老\n{text}")


@each_case("text", ORDINARY)
def test_an_ordinary_sentence_passes(text: str) -> None:
    assert find_sensitive(text) == ()


def test_the_ordinary_sentences_are_many() -> None:
    assert len(set(ORDINARY)) > 100


def test_a_name_in_a_letter_is_found_where_it_stands() -> None:
    text = "您好！我叫欧阳娜娜，想了解养老基金"
    (found,) = find_sensitive(text)
    assert (found.rule, text[found.start : found.end]) == ("own_name", "欧阳娜娜")


@pytest.mark.parametrize("name", ["我叫李小明", "真实姓名：欧阳娜娜", "My name is John Smith", "户名 王伟"])
def test_a_labelled_name_is_refused_before_any_write(name: str, tmp_path: Path) -> None:
    with MemoryStore(tmp_path) as store:
        store.grant_consent("u1", ALL)
        before = tree(tmp_path)
        for refused in (
            lambda: store.review_profile("u1", {"user_focus_reason": name}),
            lambda: store.start_task("u1", "snapshot", fields={"constraints": ["不用杠杆", name]}),
            lambda: store.save_thread("u1", "snap", name, {}),
            lambda: store.record_feedback("u1", "snapshot:snap", {}, "agree", name),
        ):
            with pytest.raises(
                SensitiveInput, match=r"holds sensitive data \(person_name\), which is never saved"
            ):
                refused()
        assert tree(tmp_path) == before
