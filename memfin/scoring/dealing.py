"""Words and shapes of dealing: how a reply says buy, put, order, offer, or back out.

`memfin.scoring.advice` decides with them whether a reply advises something.
"""

import re
from typing import Final

from memfin.scoring.bilingual import Bilingual

_CLAUSE: Final = r"[^,:;。!?\n]"

# A look-behind stands after the word it guards, so that every alternative begins with a literal.
ENGLISH_VERB: Final = (
    r"(?:buy|put|allocate|refinance|pull out|draw|tilt|lock in|load up|scale in|scale into|roll|stake|"
    r"fund|deploy|commit|tuck|"
    r"devote|dedicate|direct|steer|carve out|set aside|finance|lean into|lever up|top up|sweep|convert|"
    r"exchange|swing|make|run|write|leave|let|lend|wire|max out|reallocate|replace|throw|toss|unload|"
    r"dump|add|hold|grab|tap|snap up|scoop up|pick up|park|stick with|"
    r"allot|earmark|assign|channel|funnel|hand|give|entrust|stash|plough|plow|pour|sink|slip|slot|squeeze|"
    r"climb|hop|pile|jump|nibble|drip|raise|lift|bump|order|apply for|sign up|enrol|join|rebuild|overweight|"
    r"blend|split|invest|use|take|open|borrow|move|shift|switch|pick|choose|place|"
    r"trade|chase|get|own|load|"
    r"rotate|start|do|include|keep|go|ride|flip|swap|purchase|subscribe|expect|skip|double|plan|aim|"
    r"sell short|short)"
)
STRONG: Final = Bilingual(
    r"(?:建议|推荐)(?<![不资卖作何体]..)(?!书|比例为空|[^,。]{0,3}(?:仅供|不构成))|不妨|不如(?!预期|"
    r"人意|意)|值得(?!注意|一提|关注|警惕|您?思考)|应[该当](?<!不..)|"
    r"倾向于?(?=[^,。]{0,12}(?:买|配|加|趁|拿|投|换|跟|追|增))|我的(?:看法|想法|意见|安排|打算)是|"
    r"别犹豫|抓紧(?!联|咨|报|减|卖|赎)|我(?:会|来|帮您|给您)(?!说明|解释|提醒|先|看)|"
    r"适合(?<![不更]..)(?=[^,。]{0,10}(?:进|做|买|配|快|短|波段|加|布局|参与|入))|是方向|试试|果断|"
    r"大胆|赶紧|趁(?!机说)|"
    r"主推|力荐|我(?:比较|更|很)?看好|分一杯羹|试试?水|试一试|练练?手|留[了好]?(?:了)?(?:额度|名额|"
    r"份额)|直接上(?!升|涨|调|市)|跟上(?=[,。!;]|$)|标配|不算[多高贵晚](?=[,。!;]|$)|赶得上|不迟|还不晚|"
    r"打底仓|底仓里|别错过|不为过|就对了|来得及|也好(?=[,。!;]|$)|试一?试|何不|不错的(?:选择|去处)|"
    r"有得做|"
    r"正合适|时机(?:很|正)?(?:合适|成熟|到了)|机会难得|正是(?![^,。;]{0,6}(?:忍|等|停|收手|卖|减|躲|"
    r"谨慎|观望|小心|冷静|离|该走))[^,。;!?\n]{0,10}(?:时候|时机|机会|节点)|"
    r"是时候|该出手|可以一试|动手|(?:我的)?意见是|我的(?:做法|"
    r"思路|"
    r"配法)|就按|照这个|我给您(?:配|排|列|定)|我们给您|帮您(?:配|排|约|办|开)|首选|优先(?:配|选|买|"
    r"考虑)|没问题|也行|可行|正当时|可以考虑|吧(?=[,。!]|$)|好机会|好时机|"
    r"性价比(?:不错|高|突出)(?=,(?:建议|可))|按我的|我的方案|这样配|就这么|"
    r"我(?:仍|还是|也)?主张(?!不)|我选的是?|我(?:认为|觉得|看)(?:很|挺|还)?(?:合适|可行|划算|值得)|"
    r"我想(?=[都全把给拿配买放])|我(?:仍|还是|也|更|最|比较|倒|"
    r"一般|个人|就)?(?:选(?!不)|挑|用(?=它|这[只款类]|[^,。;]{0,8}(?:基金|etf|债|指数))|倾向|偏向|中意|"
    r"喜欢|相中|看中|看上|认准|最?认(?=[这那它他])|"
    r"愿意)|"
    r"给[您你](?:补|添|加|配|上|来|凑|搭|塞|安排|准备|留|选|挑|排)|(?:约|占|订|抢|锁|要)(?:个|到|好|住|"
    r"下|一个)(?:名额|份额|额度|席位)|"
    r"不算(?:冒险|过分|激进|多|大|重)(?=[,。!;]|$)|不过分(?=[,。!;]|$)|(?:刚刚?|正)好(?=[,。!;]|$)|"
    r"也(?:合理|划算|值)(?=[,。!;]|$)|"
    r"(?:这时候|这会儿|这个位置|此时|现在)[^,。;!?\n]{0,10}最(?:舒服|合适|划算|好|稳妥)|值(?:这|"
    r"那)个(?:价|钱)",
    r"\b(?:i'd|i would|recommend\w*|suggest\w*|advise|consider|makes? sense|should|worth (?:buying|"
    r"adding|holding|a)|"
    rf"let's|i'll|(?:can|could|should|may|might) go (?:in)?to|let it be|top pick|(?:i|we) (?:like|"
    rf"favou?r|prefer|love)|i'm a fan of|lean towards?|"
    rf"see how it (?:feels|goes)|no harm in|won't hurt|belongs in|deserves|put one on|the way to go|"
    rf"is the (?:one|play|move)|get started|my (?:suggestion|take|view|idea|vote|choice|"
    rf"preference) (?:is|would be)|a reasonable|"
    r"(?:could|can|might|should|would) (?:take|take up|fill|make up|have|get|use|absorb|account for) (?:\d|"
    r"an? (?:tenth|"
    r"fifth|sixth|eighth|quarter|third|half|slice|small|modest))|"
    r"(?:could|can|might|would|will) (?:do (?:it|the (?:trick|job)|nicely|fine)|get you there|"
    r"round (?:this|it|"
    r"things|the)|take (?:the place|over from)|replace|sit (?:nicely|well)|serve you|suit you|do the heavy)|"
    r"would be (?:about right|reasonable|sensible|fine|ideal|perfect|fair|my|a (?:good|fair|reasonable|"
    r"sensible|nice))|"
    r"would (?:add|bring|give) (?:some|a bit|a touch|a little)|you're in for|count (?:yourself|you) in|"
    r"put you down for|would (?:lift|boost|top up|enhance|spice up|wake|liven|improve) (?:the|your|"
    r"this)|"
    r"is my (?:preference|choice|pick|answer|favou?rite|number|suggestion)|"
    r"would give you (?:the same|more|a)|"
    r"(?:strikes? me as|feels?|seems?|sounds?|looks?) (?:about |just |quite |perfectly )?(?:right|sensible|"
    r"reasonable|fair|justified|good|attractive|fine)|belongs? (?:there|here|in)|has (?:a|its) place|"
    r"merits|warrants|"
    r"is where (?:i|we)|this is the (?:moment|time|point)|worth \d+|my (?:choice|recommendation|answer|"
    r"proposal|"
    r"instinct|model|mix|growth)|"
    r"i(?:'m| am) (?:propos|suggest|recommend)\w*|why not|why don't you|how about|what about putting|"
    rf"works? (?:well|nicely)|(?:is|are) (?:a )?(?:good|great|reasonable|sensible|fine|smart|solid|"
    rf"fair|about right|plenty|ample|defensible|"
    rf"attractive)|earns? (?:its|his|her|their) (?:place|slot|spot|keep|seat)|can't go wrong|fits? nicely|"
    rf"go (?:straight )?(?:for|with|all)|go \d+|"
    rf"why not|try|good time|my (?:plan|advice|pick)|you (?:can|could|may|"
    rf"might|'d be fine to|might want to|may want to|could always)(?: also| well| even| safely| day|"
    rf" swing)? {ENGLISH_VERB})\b",
)
VERB: Final = (
    r"(?:买|配(?!资|置比例为|合|偶|额|股说明)|投(?<!起投)(?!资者|诉|影|顾|机性|票)|加(?!权|息|剧|总|强|"
    r"拿|上限|"
    r"重)|拿|放(?!心|松|弃|大)|放大(?=[一二两三四五六七八九十几\d]+倍)|办(?!公|法|理)|拉(?=[到长])|"
    r"上(?=\d|[一二两三半]成)|埋伏|借|走(?!势|强|弱|高|低|平|出|访)|认购|申购|参与|持有|建仓|布局|介入|"
    r"散(?=[到在])|进(?=[一两三四五\d]+[百千万成])|攒|囤|扣(?=\d|[一二两三四五六七八九]百)|打(?=进|"
    r"[一两三半]成)|"
    r"转(?=一半|[一两三\d]成|过去)|换成|"
    r"换到|换(?=[一两三四五半\d]成|"
    r"过[来去])|交给|分(?:散|摊|配|批)?(?:到|进|在)(?!期)|"
    r"打散|铺(?=[到进开])|摊到|撒到|匀(?=[出到过给一两\d点])|挪(?=[到出给进一两三\d])|"
    r"拨(?=[出到给一两\d])|划(?=[出到给一两\d])|腾(?=出)|抽(?=[出一两三\d])|凑(?=[一两三\d够])|"
    r"添(?=[一两三\d点])|吃进|吃(?=[一下两]|\d)|"
    r"扫货|排队(?=[,。!;]|$)|来(?=[一两三几\d]+[百千手股份万笔只%成克]|[一两三几\d]个点)|"
    r"开(?=[一两三几\d]+[手张单]|多单|空单)|"
    r"进(?<![改推先前跟促引演买更增])(?=[,。;!?\\n]|$)|"
    r"捡(?!起|查)|抢(?=[一两点份购筹进])|囤|埋进|存(?=[着进入一两点])|占(?=[个住一])|进去|"
    r"接(?=[下手一两三几]|\d)|补(?=[到进仓一两上点]|\d)|埋(?=[进入一两三点]|\d)|压(?=[上一两三]|\d)|"
    r"塞(?=[进到])|"
    r"冲进|给(?=[它他][一二两三四五\d])|分(?=[一二两三四\d]成|\d+%)|找(?=[几一两三四五])|守(?=[一着住])|"
    r"转(?=[入进到成])|收(?=[进集了一点下些])|"
    r"上车|挑|选|定投|跟|入手|入场|进场|换成|换为|切换|切到|开通|搏|博|炒|追|押|用(?!光|完|尽|掉|户|途|钱|款|"
    r"于|来)|做|贷|融资?(?=买|加|做|建|入|一笔|点)|"
    r"建(?=[一二两三半仓])|抵押|质押|"
    r"重仓|全仓|满仓|接盘|接飞刀|低吸)"
)
OFFER: Final = re.compile(
    rf"(?:可以?(?!能|见|靠|观|比|控|转|持续|预)|能(?<!可.)够?|不错的选择|要(?<![主需重只将必].)(?!求|么|"
    rf"是|知|看|问)|就(?!是|像|等于|会|能|算)|"
    rf"先(?<![首优领预事原].)|请(?<![申聘].)|"
    rf"来(?<![未本带越从原以近借]来)(?![的源看说自临])|现在|立刻|马上|直接|继续|分批|每个?月|每周|小仓位|"
    rf"少量|适量|适当|适度|"
    rf"拿|的钱(?=[^,。]{{0,4}}(?:换成|买成|转入|转进|拿去|统统|全))|把|将(?=[^,。]{{0,8}}(?:资金|钱|仓|"
    rf"%|成|部分))|"
    rf"用(?<![利使信费作采应].)(?=[^,。]{0, 8}(?:资金|"
    rf"钱|仓|%|成|部分|元))|另外|剩下|其余|"
    rf"(?:这笔|那笔|闲钱|奖金|年终奖)(?=[^,。;]{{0,12}}(?:到|进|成|给|去)(?!了|过|的))|手里|"
    rf"部分(?=[换转买配投放拿做])|"
    rf"[这那][块边份](?=[换转买配投放拿做挪改])|端(?=[换改挪转]))(?:(?!不|没|别|难|勿|未|"
    rf"无){_CLAUSE}){{0,16}}?{VERB}"
)
ORDER: Final = re.compile(
    r"^(?:债券|股票|权益|现金|基金|这部分|它)(?:部分|端|那块|这块|仓)?(?:先|就|都|全)?(?:换成|改成|"
    r"换到|转成|改投)|"
    rf"^[ \d.)、\-*>]*(?:您|你)?(?:现在|今天|明天|明早|明日|立刻|马上|提前|尽早|及早|赶紧|趁早|先|再|就|也|"
    rf"直接|继续|趁)*{VERB}|"
    rf"^[ \d.)\-*>]*(?:then |just |simply |now |please |and |also |so |therefore |instead |maybe |"
    rf"perhaps |instead, |next |finally |first |second |third |meanwhile |step \d:? )*{ENGLISH_VERB}\b"
)
THEN_ORDER: Final = re.compile(
    rf"[ \d.)\-*>]*(?:just |simply |now |please |then )*(?:sell|exit|dump|cut|trim|close|skip|forget|"
    rf"cancel|cash out|liquidate|"
    rf"stop|break|redeem|pause)\b[^,.;:]{{0,60}}?\b(?:and|then) (?:then |just )?{ENGLISH_VERB}\b"
)
"""An order that comes second: sell everything else and put the money into one stock."""
SIZED_DEAL: Final = re.compile(
    rf"(?:\d(?![\d.]*\s?(?:天|个?月|年|周|日|倍|次|岁))万?元?|[万千]元?|%|成(?:仓位?|资金)?|一半|"
    rf"[两三四五六七八九]分之[一二三]|"
    rf"个点)[^,;。!?\n]{{0,3}}?{VERB}(?!了|过|的)|"
    rf"{VERB}(?!了|过|的|后|入后|量|家|盘|资)(?:(?!不|没|别|跌|涨|亏|费|"
    rf"息){_CLAUSE}){{0,6}}?(?:[一二两三四五几\d][只家张手]|[-–~至到]\d[只家张手]|一点|一些|"
    rf"点仓位|小仓位|\d万?元|"
    rf"[一二两三四五六七八九十百\d]+(?:万|千)|[一二两三四五六七八九]成|\d%|一半|每月|"
    rf"[一二两三四五\d]个点的?仓|"
    rf"[\d一二两三五十]+(?:克|枚|股|份|笔|支))|"
    rf"(?:轻仓|小仓|半仓|逢低|分批){VERB}(?!了|过|的)|"
    rf"\d[^,;。!?\n\d]{{0,2}}(?:以[内下]|附近|左右|上下|之内)(?:就|可以|能|都)?{VERB}(?!了|过|的)|"
    rf"(?:配|拿|放|占|留|投|匀|给)[^,。;]{{0,4}}[一二两三四五六七八九十\d]个点(?!位|评)|"
    rf"给(?:它|这只|这家|这类)[^,。;]{{0,6}}(?:\d|[一二两三]成|位置|仓)"
)
"""A deal with its size, the plainest order of Chinese: 12万元买一款…, 挑两只, 拿一成出来定投."""
DEALS: Final = Bilingual(VERB, rf"\b{ENGLISH_VERB}\b")
WEIGHTED: Final = re.compile(
    r"\d%|成(?:仓|资金)?(?![立长本为员果功交品熟分])|百分之|分之[一二三]|一半|\d万?元|[万千]元?|"
    r"\$\d|\d,\d{3}|\b(?:percent|slice|third|half|quarter|fifth|sixth|eighth|tenth)\b"
)

BACKS_OUT: Final = Bilingual(
    r"告诉|分享|补充|规避|防止|筛选|识别|避免|避开|远离|回避|警惕|谨慎|慎重|慎(?=[买入用选])|控制|"
    r"降低|减少|减持|限制|了解|评估|确认|核实|关注|检查|咨询|暂停|停止|卖出|卖掉|清仓|清掉|退出|赎回|"
    r"剔除|移出|不(?!算(?:冒险|过分|激进|多|大|重|高|贵|晚)|妨|如|错|迟|晚|为过|过分|嫌)|别|勿|少碰|"
    r"观望|等待|等等|再等|拒绝|放弃|说明|解释|学习|看清|想清楚|先把|"
    r"还清|偿还|"
    r"降到|降至|"
    r"减到|拆掉",
    r"\b(?:avoid\w*|not|never|don't|against|sell(?!ing point)|reduc\w*|trim\w*|exit\w*|limit\w*|"
    r"stay\w* away|steer\w* clear|without|skip\w*|"
    r"understand\w*|check\w*|review\w*|clos\w*|repay\w*|wait\w*|instead of|rather than|no)\b",
)
