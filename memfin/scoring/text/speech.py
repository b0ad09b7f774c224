"""Who speaks: the words by which a reply lays something in somebody else's mouth.

``ATTRIBUTION`` finds a speaker with a verb of saying, ``SPEECH_SIGN`` what every attribution has in it,
``SPEECH_BEGINS`` the colon or comma behind which the words of others reach to the end of the sentence,
and ``THE_USER`` how the user is named as a speaker.
"""

from typing import Final

from memfin.scoring.patterns.expressions import compile_pattern, late

SPEECH_BEGINS: Final = late(r"(?:着|了|过|的|是|道|到|的是|我|你|大家|that)* ?[,:] ?(?![“「『\"'])")
_SPEAKER: Final = (
    r"(?:宣传|海报|广告|传单|销售|推销|客户经理|理财经理|顾问|中介|朋友|亲戚|同事|同学|邻居|网友|闺蜜|熟人|"
    r"老乡|网上|博主|老话|俗话|常言|主播|大v|群里|群友|直播|公众号|视频|有(?:观点|声音|分析|传言)|舆论|坊间|"
    r"群主|大师|股神|客服|荐股|(?<!没)有人|不少人|很多人|许多人|有些人|大家|别人|他们?|她|对方|某些?|老师|"
    r"专家|骗子|机构|平台|截图|聊天|短信|帖子|标题|页面|文案|话术|媒体|研报|(?<![给向对替跟为帮])你)"
)
THE_USER: Final = ("你", "you ", "you'")
_SAID: Final = (
    r"(?:(?<![另再])说(?<!情况说)(?<!角度说)(?<!条件说)(?<!画像说)(?<!例子说)(?!明(?![年天早日晚后]))|称|写|"
    r"宣称|号称|声称|自称|(?<!转)(?<!出)(?<!受)让|叫|劝(?!退)|催|拉着|标榜|表示|告诉|告知|问|"
    r"提到(?![约近]?[0-9一二两三四五六七八九半])|"
    r"转述|原话|承诺|保证|吹|喊|讲|鼓吹|认定|"
    r"断定|断言|咬定|笃定|坚信|深信|吹嘘|教(?=[你他她人])|印着|标着|标注|打着|引用|推荐|(?<!的)要求|会让|"
    r"诱导|担心|希望|想要|想知道|认为|觉得)"
)
# Every attribution has one of these in it; most sentences have none and need no closer look.
SPEECH_SIGN: Final = compile_pattern(
    rf"{_SAID}|所谓|建议(?:你|投资者|大家|散户|客户)|的[做玩打办]法|敢|要你|叫你|催你|(?<![数依根占票])据|"
    rf"\b(?:sa(?:y|id)|swor|swear|claim|"
    rf"promis|ask|mention|wrote|read|told|urg|insist|pressur|tout|call|so-|according|who tell|whoever tell)"
)
VOICE_SIGN: Final = compile_pattern(
    r"[说讲写喊想嚷答刷]|提[议出]|之类|[这那][句类种]|[相深坚迷轻听]信|信了|加上|抛出|断[言定]|宣[称传]|"
    r"声称|标榜|表示|告诉|认[为定]|觉得|念叨|输出|发布|发来|发给|发消息|发微信|发短信|载明|灌输|提到|流传|"
    r"印着|举着|转发|转述|回复|答应|吹|暗示|幻想|妄|梦想|巴望|指望|盼|谣|讹|谎|诡|假装|哄|忽悠|蒙你|"
    r"传[言闻]|以为|误认|[让叫请求逼催等要听着](?:我|咱|顾问|本公司)|真(?!正)|属实|成立|\b(?:that|whether|"
    r"reckons|thinks|believes|swears|hopes|imagines|fancies|told|promised|assured|saying)\b|hope for|"
    r"want to hear|\bif (?:it|that) w|\bto (?:think|believe|assume|suppose|conclude|imagine)\b"
)
"""What every sentence has in which words are laid in the mouth or mind of others, or only supposed."""
ATTRIBUTION: Final = compile_pattern(
    rf"{_SPEAKER}[^,。!?;:\n不未没]{{0,12}}?{_SAID}|(?<!无)所谓|(?:凡是?|但凡|"
    rf"任何)[^,。!?;:\n不未没无难]{{0,8}}?(?:承诺|保证|声称|宣称|敢|说|打着|鼓吹)|(?:如果|若|如果|一旦|遇到|"
    rf"碰到|看到|听到)[^,。!?;:\n我]{{0,8}}?(?:说|承诺|保证|告诉|宣称|宣传|标榜|声称|推荐|要求|让你|喊|要你|"
    rf"叫你|催你|打着)|"
    r"(?:网友|朋友|同事|同学|亲戚|邻居|群友|熟人|博主|有人|别人|大v)[^,。;]{0,4}的(?:做法|玩法|打法|"
    r"办法)(?:就?是|:)[^。;!?\n]*|"
    r"(?:朋友|亲戚|同事|同学|邻居|网友|群友|熟人|博主|主播|大v|客户经理|理财经理|老师|销售|中介|老乡|闺蜜|"
    r"(?<!没)有人)[^,。!?;:\n我的]{0,6}?建议你|"
    r"(?:研报|券商|卖方|分析师|机构|专家|媒体|文章|晨报)[^,。!?;:\n我的]{0,6}?建议(?:投资者|大家|散户|客户)|"
    r"据[^,。]{1,8}(?:称|说|报道)|引用|原话|号称|自称|声称|宣称|\b(?:he|she|"
    r"they|you|salesm[ae]n|sellers?|reps?|brokers?|friend|advert\w*|brochures?|flyers?|leaflets?|posters?|"
    r"ads?|post|headlines?|pitch|newsletters?|someone|anyone who|people|bloggers?|gurus?|influencers?|"
    r"analysts?|callers?|chat|group|scammers?)\b[^.!?;]{0,24}?\b(?:say|says|said|swore|swears?|claim\w*|promis\w*|urg(?:es?|ed|"
    r"ing)|insist\w*|pressur\w*|(?<!need not )ask(?:ed|s)?|mention\w*|wrote|reads?|told|tout\w*|"
    r"(?<!covered )(?<!naked )(?<!buy )(?<!sell )(?<!load )(?<!purchase )(?<!write )call(?:s|"
    r"ed)?(?! (?:options?|spreads?)))\b"
    r"(?! (?:nothing|little)\b(?! (?:on earth|in the|else|can|could|comes|beats|matches|ever)\b))|"
    r"\b(?:any(?:one|body)|somebody|someone|people|those|sellers?) who tells?\b|\bwhoever tells\b|"
    r"\b(?:so-called|according to(?: (?:the|an?|this|that|its|his|her|their) (?:[a-z]+ )?(?:advert|"
    r"advertisement|ad|flyer|brochure|poster|leaflet|salesm[ae]n|seller|caller|broker|blog|post|newsletter|video|pitch|"
    r"headline)(?=,))?)\b"
)
