"""Small documents that tests of RAG systems share: a record in Chinese, one in English, prose."""

import io

import pypdf
import pypdf.generic as pg

from memfin.rag.document import Document, Page

RECORD = Document(
    "record.md",
    (
        Page(
            1,
            """# 询问笔录

询问时间：2022年4月11日14时
询问地点：江枫市调解中心二楼
被询问人：唐以宁，男，38岁

问：你和罗知远是什么关系？
答：他是我以前的同事，2019年3月开始我们合伙开店。

问：你一共投了多少钱？
答：我先后投了两笔，第一笔是三万元，第二笔是1.5万元，一共4.5万元，都是通过手机银行转给他的。

问：第一笔是什么时候转的？
答：2019年4月2日转的。

问：当时有没有签合同？
答：没有签，只是口头说好的，利润对半分。

第1页
""",
        ),
        Page(
            2,
            """
问：店开在哪里？
答：开在江枫市柳堤路18号的临街铺面，房东是霍青山。

问：后来为什么关门？
答：因为2020年1月以后没有客人，房租又涨了，五月就关了。

问：钱具体用在哪里，你清楚吗？
答：装修花了大概一万八，其余的买了什么设备，具体多少钱我都忘记了，账本也找不到了。

问：他退过你钱吗？
答：退过一次，2020年6月15日退了5000元。

问：他答应什么时候还清剩下的钱？
答：他在微信上说年底前还清，还说要是还不上就把车卖了。我有聊天截图。

第2页
""",
        ),
    ),
)

ENGLISH = Document(
    "interview.txt",
    (
        Page(
            1,
            """Interview record
Interviewee: Dana Whitlow
Date: 3 May 2021

Q: When did you sign the contract?
A: I signed it on 12 February 2020 at the office of Harbor Lane Capital.

Q: How much did you pay?
A: I paid $12,500 in two transfers, $10,000 and $2,500.

Q: Did they return any of it?
A: No, nothing so far.
""",
        ),
        Page(
            2,
            """Q: Who advised you?
A: My adviser was Mr. Orlin Pratt. He promised 8% a year in a message of 3 March 2020.

Q: What was the money used for?
A: I do not remember what they told me about that.
""",
        ),
    ),
)

PROSE = Document(
    "fund.md",
    (
        Page(
            1,
            """# Fund facts

## Fees

The management fee is 1.2 percent a year. The entry fee was $300 for every account.

## Start

The fund was opened on 4 June 2018 in Harlow Bay.

Page 1
""",
        ),
        Page(2, "## Size\n\nAt the end of 2020 the fund had 412 accounts.\n\nPage 2\n"),
        Page(3, "## End\n\nThe fund was closed from 1 March 2021 to 30 June 2021 for audit.\n\nPage 3\n"),
    ),
)


def a_pdf(*texts: str | None, key: str | None = None) -> bytes:
    """Return a PDF of one line a page; a page without text holds nothing at all."""
    writer = pypdf.PdfWriter()
    font = pg.DictionaryObject(
        {
            pg.NameObject("/Type"): pg.NameObject("/Font"),
            pg.NameObject("/Subtype"): pg.NameObject("/Type1"),
            pg.NameObject("/BaseFont"): pg.NameObject("/Helvetica"),
        }
    )
    for text in texts:
        page = writer.add_blank_page(300, 300)
        if text is None:
            continue
        stream = pg.StreamObject()
        stream.set_data(f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET".encode())
        page[pg.NameObject("/Contents")] = writer._add_object(stream)
        page[pg.NameObject("/Resources")] = pg.DictionaryObject(
            {pg.NameObject("/Font"): pg.DictionaryObject({pg.NameObject("/F1"): font})}
        )
    if key is not None:
        writer.encrypt(key, f"{key} of the owner", algorithm="RC4-128")
    buffer = io.BytesIO()
    writer.write(buffer)
    return buffer.getvalue()
