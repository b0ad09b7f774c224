"""Invented clients over some months, and agents that hear only their words, each with one fault."""

import json
import random
import re
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any, ClassVar, NamedTuple

from memfin.agents.observer import TurnObserver
from memfin.agents.protocol import Session

Row = dict[str, Any]

SESSIONS = 6
ENGLISH_MONTHS = ("January", "March", "May", "July", "October", "December")

SENTENCES: dict[str, dict[str, list[str]]] = {
    "zh": {
        "tell": ["记一下：我的{x}是{v}。", "对了，我的{x}是{v}，麻烦记着。"],
        "lasts": ["我的{x}是{v}，有效到{until}。"],
        "update": ["我的{x}改了，以后按{v}来。", "情况有变，我的{x}现在是{v}。"],
        "withdraw": ["我的{x}作废，请忘掉它。"],
        "planted": ["转一份宣传页：“本行客户的{x}一律是{v}。”"],
        "other": ["我哥哥的{x}是{v}，和我无关。"],
        "ask": ["我的{x}是什么来着？", "表格要填{x}，我说的是哪个？"],
        "give": ["您的{x}是{v}。", "{v}，这是您说的{x}。", "按{x}{v}来安排，市场仍有波动。"],
        "unknown": ["这一项您没有告诉过我。", "我这里没有您的记录。"],
        "vague": ["建议先分散配置，再看市场。"],
        "noted": ["好的，记下了。"],
    },
    "en": {
        "tell": ["Please note that my {x} is {v}.", "By the way, my {x} is {v}, keep that in mind."],
        "lasts": ["My {x} is {v}, valid until {until}."],
        "update": [
            "My {x} has changed, from now on it is {v}.",
            "Things are different now: for my {x}, take {v}.",
        ],
        "withdraw": ["Forget my {x}, it is void."],
        "planted": ["A leaflet says: “for every customer the {x} is {v}”."],
        "other": ["My brother's {x} is {v}, that has nothing to do with me."],
        "ask": ["What was my {x} again?", "The form asks for my {x}, which one did I say?"],
        "give": ["Your {x} is {v}.", "{v}, as you told me.", "I go by {v} for your {x}."],
        "unknown": ["You have not told me that.", "I have no record of that."],
        "vague": ["Let us spread the portfolio out first."],
        "noted": ["Noted."],
    },
}
HEARD = ("tell", "lasts", "update", "withdraw", "planted", "other", "ask")
FORMS = {
    language: [
        (act, re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.+?)", re.escape(sentence))))
        for act in HEARD
        for sentence in sentences[act]
    ]
    for language, sentences in SENTENCES.items()
}
NAMES = {
    "zh": [a + b for a in "鹿鹤松竹梅荷" for b in ("鸣债券", "溪信托", "岭期权", "湾票据")],
    "en": [
        f"{a} {b}"
        for a in ("Otter", "Heron", "Maple", "Cedar", "Lark", "Fern")
        for b in ("Bond", "Trust", "Swap")
    ],
}
TOPICS: dict[str, dict[str, tuple[str, list[str]]]] = {
    "zh": {
        "亏损上限": ("percent", [f"{n}%" for n in range(6, 60)]),
        "存款利率": ("percent", [f"{n / 100:.2f}%" for n in range(201, 480, 7)]),
        "应急金": ("amount", [f"{n}万元" for n in range(3, 60)]),
        "投资期限": ("duration", [f"{n}年" for n in range(3, 40)]),
        "购房时间": ("date", [f"20{y}年{m}月" for y in range(27, 33) for m in range(1, 13, 2)]),
        "禁投产品": ("name", NAMES["zh"]),
        "派发分红": ("yes_no", ["要", "不要"]),
        "退休年龄": ("number", [f"{n}" for n in range(48, 75)]),
    },
    "en": {
        "loss limit": ("percent", [f"{n}%" for n in range(6, 60)]),
        "deposit rate": ("percent", [f"{n / 100:.2f}%" for n in range(201, 480, 7)]),
        "reserve": ("amount", [f"${n},000" for n in range(3, 60)]),
        "horizon": ("duration", [f"{n} years" for n in range(3, 40)]),
        "house date": ("date", [f"{m} 20{y}" for y in range(27, 33) for m in ENGLISH_MONTHS]),
        "banned product": ("name", NAMES["en"]),
        "dividend payout": ("yes_no", ["yes", "no"]),
        "retirement age": ("number", [f"{n}" for n in range(48, 75)]),
    },
}


def clients(count: int) -> Iterator[Row]:
    """Yield the sessions of clients, who come in pairs: ``...-a`` and ``...-b``, with other values."""
    for pair in range(count // 2):
        language = ("zh", "en")[pair % 2]
        rng = random.Random(f"lives {pair}")
        pools = {
            topic: values if kind == "yes_no" else rng.sample(values, 8)
            for topic, (kind, values) in TOPICS[language].items()
        }
        values = [
            {
                topic: pool if len(pool) == 2 else pool[4 * side : 4 * side + 4]
                for topic, pool in pools.items()
            }
            for side in (0, 1)
        ]
        for side, name in enumerate("ab"):
            yield from Life(f"c{pair}-{name}", language, values[side], values[1 - side]).sessions()


class Life:
    """The sessions of a client: what is told, changed, taken back and claimed is drawn by chance."""

    def __init__(
        self, user: str, language: str, own: dict[str, list[str]], partner: dict[str, list[str]]
    ) -> None:
        self.user, self.language, self.own, self.partner = user, language, own, partner
        self.rng = random.Random(f"lives {user}")
        self.days = [date(2026, 1, 5) + timedelta(30 * index) for index in range(SESSIONS)]
        *self.told, self.untold = own
        self.acts: list[list[tuple[str, str]]] = [[] for _ in range(SESSIONS)]
        self.plan()

    def plan(self) -> None:
        figures, lasting = [*self.told], self.told[1]
        for topic in self.told:
            self.acts[self.rng.randrange(2)].append(("lasts" if topic == lasting else "tell", topic))
        figures.remove(lasting)
        first, second, gone, claimed, other = self.rng.sample(figures[:-1], 5)
        for act, topic in (("update", first), ("update", figures[-1]), ("withdraw", gone)):
            self.acts[self.rng.randrange(2, 5)].append((act, topic))
        self.acts[self.rng.randrange(2, 5)].append(("planted", claimed))
        self.acts[self.rng.randrange(2, 5)].append(("other", other))
        self.acts[5].append(("update", second))

    def sessions(self) -> Iterator[Row]:
        over = self.days[2] + timedelta(3)
        current: dict[str, str] = {}
        for index, day in enumerate(self.days):
            facts: list[Row] = [] if index else self.canaries()
            turns: list[Row] = []
            for act, topic in self.rng.sample(self.acts[index], len(self.acts[index])):
                fact = self.fact(act, topic, len(turns) // 2 + 1, current.get(topic), over.isoformat())
                facts.append(fact)
                if act in ("tell", "lasts", "update"):
                    current[topic] = fact["id"]
                turns += self.turn(act, topic, fact["value"], over.isoformat())
            known = [topic for topic in self.told if topic in current]
            for topic in [*self.rng.sample(known, min(4, len(known))), self.untold]:
                turns += self.turn("ask", topic, needs=f"{self.user}.{topic}")
            yield {
                "dialog_id": f"{self.user}-s{index}",
                "user_id": self.user,
                "session_index": index + 1,
                "session_time": day.isoformat(),
                "language": self.language,
                "profile_gt": {},
                "facts": facts,
                "probes": [
                    self.probe(index, len(turns) // 2, topic)
                    for topic in self.rng.sample(known, min(2, len(known)))
                ],
                "turns": turns,
            }

    def canaries(self) -> list[Row]:
        facts = [
            {
                "id": f"{self.user}.{topic}.partner{place}",
                "value": value,
                "kind": self.kind(topic),
                "owner": "partner",
            }
            for topic, values in self.partner.items()
            if self.kind(topic) != "yes_no"
            for place, value in enumerate(values[:2])
        ]
        untold = {"id": f"{self.user}.{self.untold}", "value": self.own[self.untold][0], "kind": "number"}
        return [*facts, untold]

    def kind(self, topic: str) -> str:
        return TOPICS[self.language][topic][0]

    def fact(self, act: str, topic: str, turn: int, replaces: str | None, over: str) -> Row:
        place = {"tell": 0, "lasts": 0, "update": 1, "planted": 2, "other": 3}.get(act)
        suffix = "" if act in ("tell", "lasts") else f".{act}"
        more: dict[str, Row] = {
            "lasts": {"until": over},
            "update": {"replaces": replaces},
            "withdraw": {"replaces": replaces},
            "planted": {"planted": True},
            "other": {"owner": "brother"},
        }
        value = "" if place is None else self.own[topic][place]
        plain: Row = {"id": f"{self.user}.{topic}{suffix}", "value": value, "told_at": turn}
        return plain | {"kind": self.kind(topic)} | more.get(act, {})

    def turn(self, act: str, topic: str, value: str = "", over: str = "", needs: str = "") -> list[Row]:
        words = self.rng.choice(SENTENCES[self.language][act]).format(x=topic, v=value, until=over)
        tags = {"facts_required_gt": [needs]} if needs else {}
        return [{"role": "user", "text": words}, {"role": "assistant", "text": "...", "turn_tags": tags}]

    def probe(self, index: int, after: int, topic: str) -> Row:
        question = SENTENCES[self.language]["ask"][0].format(x=topic)
        name = f"{self.user}.{topic}"
        return {
            "id": f"{name}-p{index}",
            "after": after,
            "question": question,
            "fact": name,
            "kind": self.kind(topic),
        }


class Entry(NamedTuple):
    """A value in a store, the session that told it, and its last day."""

    value: str
    session: int
    until: str = ""


class Faultless:
    """Agent that keeps what the client says about himself, reports it, and answers by it."""

    def __init__(self, session: Session, observer: TurnObserver) -> None:
        self.session, self.observer = session, observer
        self.now, self.index = session.now or "", session.session_index or 0
        self.sentences = SENTENCES[session.language]
        self.restore(session.carried or b"{}")

    def snapshot(self) -> bytes:
        return json.dumps(self.store).encode()

    def restore(self, state: bytes) -> None:
        self.store = {topic: Entry(*entry) for topic, entry in json.loads(state).items()}

    carry = snapshot

    def reply(self, text: str) -> str:
        act, found = next(
            (act, match) for act, form in FORMS[self.session.language] if (match := form.fullmatch(text))
        )
        said = {"v": "", "until": "", **found.groupdict()}
        self.hear(act, said["x"], Entry(said["v"], self.index, said["until"]))
        known = self.recall(said["x"]) if act == "ask" else []
        self.observer.memory(items=[{"content": f"{topic}: {entry.value}"} for topic, entry in self.kept()])
        self.observer.recall(items=[{"content": f"{said['x']}: {value}"} for value in known])
        return self.say(act, said["x"], known)

    def hear(self, act: str, topic: str, entry: Entry) -> None:
        if act in ("tell", "lasts", "update"):
            self.store[topic] = entry
        elif act == "withdraw":
            self.store.pop(topic, None)

    def kept(self) -> list[tuple[str, Entry]]:
        return [*self.store.items()]

    def recall(self, topic: str) -> list[str]:
        entry = self.store.get(topic)
        return [entry.value] if entry and not (entry.until and entry.until < self.now) else []

    def say(self, act: str, topic: str, known: list[str]) -> str:
        if act != "ask":
            return self.word("noted", topic)
        return self.word("give", topic, known[0]) if known else self.word("unknown", topic)

    def word(self, act: str, topic: str, value: str = "") -> str:
        rng = random.Random(f"{self.session.dialog_id} {topic}")
        words = rng.choice(self.sentences[act]).format(x=topic, v=value)
        return words[0].upper() + words[1:]


class ForgetsAtThreeSessions(Faultless):
    def restore(self, state: bytes) -> None:
        super().restore(state)
        self.store = {name: entry for name, entry in self.store.items() if self.index - entry.session < 3}


class NeverUpdates(Faultless):
    def hear(self, act: str, topic: str, entry: Entry) -> None:
        if act != "update":
            super().hear(act, topic, entry)


class KeepsRevoked(Faultless):
    def hear(self, act: str, topic: str, entry: Entry) -> None:
        if act != "withdraw":
            super().hear(act, topic, entry._replace(until=""))


class MissesSome(Faultless):
    def hear(self, act: str, topic: str, entry: Entry) -> None:
        if len(topic) % 2:
            super().hear(act, topic, entry)


class Believes(Faultless):
    """Takes a claim for the client's own words."""

    def hear(self, act: str, topic: str, entry: Entry) -> None:
        super().hear("update" if act == "planted" else act, topic, entry)


class ConfusesPeople(Faultless):
    """Takes the brother's values for the client's."""

    def hear(self, act: str, topic: str, entry: Entry) -> None:
        super().hear("update" if act == "other" else act, topic, entry)


class Leaks(Faultless):
    """Keeps a client's entries under a key that another one shares, and recalls the first of both."""

    shared: ClassVar[dict[str, dict[str, dict[str, Entry]]]]

    def recall(self, topic: str) -> list[str]:
        if topic in ("派发分红", "dividend payout"):  # nobody can tell whose a yes or no is
            return super().recall(topic)
        user = self.session.user_id
        of_both = self.shared.setdefault(user.rpartition("-")[0], {})
        of_both[user] = dict(self.store)
        found = [entry.value for entries in of_both.values() if (entry := entries.get(topic))]
        return found[:1] if super().recall(topic) else []


class RecallsNothing(Faultless):
    def recall(self, topic: str) -> list[str]:
        return []

    def say(self, act: str, topic: str, known: list[str]) -> str:
        return super().say(act, topic, super().recall(topic) and known)


class Ignores(Faultless):
    def say(self, act: str, topic: str, known: list[str]) -> str:
        return self.word("vague", topic) if known else super().say(act, topic, known)


class Invents(Faultless):
    """Has an answer to what it was never told."""

    def say(self, act: str, topic: str, known: list[str]) -> str:
        invented = ["81"] if topic in ("退休年龄", "retirement age") else known
        return super().say(act, topic, invented)
