"""Names in a document: persons by their family names, places and organizations by how they end."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from memfin.rag.document import Document
from memfin.rag.systems.builtin.words import vocabulary

_ROLE: Final = (
    r"(?:被?(?:谈话|询问|访谈|讯问|采访|调查|调解|陈述|申请|投诉|举报|当事|证明)人|证人|记录人|姓名|签名)"
)
_AFTER_ROLE: Final = r"[^:：\n]{0,6}[:：][ \t\u3000]*([\u4e00-\u9fff]{2,4})(?=[ \t\u3000,，、。;；(（\n]|$)"
_NAME_OF: Final = r"\s*:\s*([A-Z][\w'.-]+(?: [A-Z][\w'.-]+){0,2})"
_RUN: Final = re.compile(r"[\u4e00-\u9fff]+")
_NO_NAME: Final = re.compile(
    "[了吗呢吧啊嘛么着过的地得不没未无是我你他她它们这那哪谁都也就还把被给让跟请说怎元万千百"
    "个在到去来和与及或向从对为有会要问答年月日时分号次后前里外上下钱款账]"
    "|知道|清楚|确定|明确|忘记|合同|公司|理财|先生|女士|老师|经理"
)
_LABELLED: Final = re.compile(
    rf"{_ROLE}{_AFTER_ROLE}|(?i:interviewee|witness|interviewer|claimant|complainant|name){_NAME_OF}"
)
_INTERVIEWEE: Final = re.compile(
    rf"(?:被(?:谈话|询问|访谈|讯问|采访|调查)人|陈述人|证人|姓名){_AFTER_ROLE}|(?i:interviewee|witness){_NAME_OF}"
)
_PLACE: Final = re.compile(
    r"(?:在|到|去|于|位于|住|来|[:：])((?:(?!的)[\u4e00-\u9fffA-Za-z0-9]|“|”){1,24}"
    r"(?:市|县|区|镇|村|路|街|号|楼|室|厅|店|馆|房|行|站|场|校|院|园|里|心|家|门口|处|户|公司|大厦|广场|小区))"
)
_ORGANIZATION: Final = re.compile(
    r"([\u4e00-\u9fff]{2,24}?(?:有限公司|公司|集团|支行|分行|银行|中心|医院|学校|小学|中学|大学|法院|检察院"
    r"|派出所|公安局|事务所|协会|委员会|证监局|监管局|法庭|仲裁委))"
)
_LEADING: Final = re.compile(
    "^(?:[在到去向从给与和跟由被把是的了我你他她们]|一家|一个|叫|名叫|名为|就是|后来|当时|他们|我们|委托|通过)+"
)
_ENGLISH_NAME: Final = re.compile(
    r"\b(?:Mr|Mrs|Ms|Dr)\.? [A-Z][a-z'-]+(?: [A-Z][\w'-]+)?|\b[A-Z][a-z'-]+(?: (?:of |and |& )?[A-Z][\w'-]+)+"
)
_BEFORE_NAME: Final = "(?:^|(?<=[,。;:、!?是叫和与跟给向找由的让请被问]))"
_AFTER_NAME: Final = "(?=[,。;:、!?(的说在是和与及给把讲]|$)"
_NO_PERSON: Final = re.compile("[市县区镇村路街省州号楼]$")
_SHARE: Final = 0.7
_TWICE: Final = 2


class Names:
    """The names of a document.

    ``interviewee`` are the names of who answers in a record: they go without saying there.
    """

    def __init__(self, document: Document) -> None:
        text = document.text
        self.persons = frozenset((*_labelled(text), *_repeated(text)))
        found = _INTERVIEWEE.search(text)
        self.interviewee: tuple[str, ...] = (found[1] or found[2],) if found else ()
        self._text = text
        marks = "".join(sorted(vocabulary().surnames))
        self._single = re.compile(f"{_BEFORE_NAME}([{marks}][\u4e00-\u9fff]{{1,2}}){_AFTER_NAME}")

    def persons_in(self, text: str) -> Iterator[str]:
        """Yield the persons that a sentence names, in order."""
        found = {name: text.index(name) for name in self.persons if name in text}
        for match in self._single.finditer(text):
            if not _NO_NAME.search(match[1][1:]) and not _NO_PERSON.search(match[1]):
                found.setdefault(match[1], match.start(1))
        longest = [name for name in found if not any(name != other and name in other for other in found)]
        yield from sorted(longest, key=lambda name: (found[name], name))
        yield from _ENGLISH_NAME.findall(text)

    def asked_about(self, question: str) -> tuple[str, ...]:
        """Return the persons of the document that a question names, without who goes without saying."""
        surnames = vocabulary().surnames
        found = [
            name
            for size in (3, 2)
            for place in range(len(question) - size + 1)
            if (name := question[place : place + size])[0] in surnames
            and not _NO_NAME.search(name[1:])
            and not _NO_PERSON.search(name)
            and (name in self.persons or (size > _TWICE and name in self._text))
        ]
        found += [name for name in _ENGLISH_NAME.findall(question) if name in self._text]
        kept = [name for name in found if not any(name != other and name in other for other in found)]
        return tuple(dict.fromkeys(name for name in kept if name not in self.interviewee))


def places_in(text: str) -> list[str]:
    """Return the places that a sentence names."""
    return [match[1] for match in _PLACE.finditer(text)]


def organizations_in(text: str) -> list[str]:
    """Return the organizations that a sentence names."""
    return [_LEADING.sub("", match[1]) for match in _ORGANIZATION.finditer(text)] + _ENGLISH_NAME.findall(
        text
    )


def _labelled(text: str) -> Iterator[str]:
    for match in _LABELLED.finditer(text):
        yield match[1] or match[2]


def _repeated(text: str) -> Iterator[str]:
    """Yield what begins with a family name and stands in the text again and again."""
    surnames = vocabulary().surnames
    counts: Counter[str] = Counter()
    for run in _RUN.findall(text):
        for place, mark in enumerate(run):
            if mark in surnames:
                counts.update(
                    name
                    for size in (2, 3)
                    if len(name := run[place : place + size]) == size and not _NO_NAME.search(name[1:])
                )
    for name, count in counts.items():
        if count < _TWICE or _NO_PERSON.search(name):
            continue
        if len(name) == _TWICE:
            longer = max(
                (counts[each] for each in counts if len(each) > _TWICE and each.startswith(name)), default=0
            )
            if longer >= _SHARE * count:
                continue
        elif count < _SHARE * counts[name[:2]]:
            continue
        yield name
