"""Write ``memfin/data/datasets/clients.jsonl``, the shipped clients with sessions (dataset v1.2).

``python tools/make_clients.py`` takes the people and the sentences of ``tools/clients/LANGUAGE.toml`` and
plans each client's months by a random generator seeded with the client's id: the same files give the same
bytes. ``--out FILE`` writes elsewhere. tests/dataset/test_clients_dataset.py checks the result by logic of
its own.
"""

import argparse
import json
import random
import tomllib
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

SENTENCES: Final = Path(__file__).parent / "clients"
OUT: Final = Path(__file__).parents[1] / "memfin" / "data" / "datasets" / "clients.jsonl"

COUNTS: Final = (4, 3, 5, 8, 4, 6, 3, 5, 7, 4)
"""Sessions of the clients, in turn."""

LISTS: Final = {"constraints": "constraints_gt", "preferences": "preferences_gt"}
RUBRIC: Final = {"信息依据", "风险收益平衡", "与画像匹配", "方案比较维度", "可执行步骤", "边界声明"}
CLAIMS: Final = ("50%", "48%", "55%", "65%", "75%")
MAX_PAIRS: Final = 6

Row = dict[str, Any]


class Told(NamedTuple):
    """A fact that a client has told: its id and value, the session and turn pair, its last day."""

    id: str
    value: str
    session: int
    turn: int
    until: date | None = None


class Client:
    """The sessions of one client, written one after another."""

    def __init__(self, number: int, language: str, words: Row, person: Row, others: Sequence[Row]) -> None:
        self.random = random.Random(f"memfin {person['id']}")  # noqa: S311
        self.language, self.words, self.person, self.others = language, words, person, others
        self.slots: Row = words["slots"]
        self.values: dict[str, list[str]] = {**person["facts"], "partner": [person["partner"][1]]}
        self.count = COUNTS[number % len(COUNTS)]
        self.days = self._days()
        self.tells, self.changes = self._plan()
        self.claim = self.random.choice(
            [each for each in CLAIMS if all(each not in known for known in self.values.values())]
        )
        self.claimed_in = self.random.randint(1, self.count)
        self.claimed = False
        self.active: dict[str, Told] = {}
        self.gone: dict[str, Told] = {}
        self.asked: dict[str, int] = {}
        self.probed: dict[str, int] = {}
        self.questions = self.random.sample(words["chat"]["questions"], len(words["chat"]["questions"]))
        self.used: set[str] = set()
        self.heard = ""
        self.session = 0
        self.pairs: list[Row] = []
        self.facts: list[Row] = []

    def _days(self) -> list[date]:
        """Return the dates of the sessions: some close together, some months apart."""
        days = [date(2025, 1, 6) + timedelta(self.random.randrange(150))]
        for _ in range(1, self.count):
            first, last = self.random.choice(((3, 9), (12, 40), (20, 60), (45, 110)))
            days.append(days[-1] + timedelta(self.random.randint(first, last)))
        return days

    def _plan(self) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
        """Decide the sessions in which each slot is told, and those in which it is changed or taken back."""
        rest = [slot for slot in self.values if slot != "pot"]
        self.random.shuffle(rest)
        tells: dict[int, list[str]] = {1: ["pot"]}
        changes: dict[int, list[str]] = {}
        for place, slot in enumerate(rest):
            told = 1 + place * (self.count - 1) // len(rest)
            tells.setdefault(told, []).append(slot)
            dropped = slot == "inheritance" or (slot == "house" and len(self.values[slot]) == 1)
            if dropped or len(self.values[slot]) > 1:
                changes.setdefault(self.random.randint(told + 1, self.count), []).append(slot)
        return tells, changes

    def rows(self) -> Iterator[Row]:
        """Yield the lines of the dataset."""
        for session in range(1, self.count + 1):
            self.session, self.pairs, self.facts = session, [], []
            self._open()
            self._tell_all()
            for slot in self.changes.get(session, ()):
                self._change(slot)
            if session == self.claimed_in:
                self._claim()
            self._ask_some()
            if session == 1:
                self.facts.extend(self._canaries())
            yield self._row()

    def _pick(self, texts: Sequence[str], **names: str) -> str:
        """Return one of the sentences, if possible one that the client's sessions have not yet."""
        names.setdefault("rel", self.person["partner"][0])
        fresh = [each for each in texts if each not in self.used] or texts
        self.used.add(text := self.random.choice(fresh))
        return text.format(**names)

    def _say(self, user: str, *replies: str, needs: Sequence[str] = (), keys: Sequence[str] = ()) -> None:
        """Add a turn pair; a reply may end with its tags behind an @."""
        said = [reply.partition("@") for reply in replies]
        tags = [tag for _, _, given in said for tag in given.split(",") if tag]
        marks: Row = {
            "memory_required_keys_gt": [*keys],
            "risk_disclosure_required_gt": [*dict.fromkeys(tag for tag in tags if tag not in RUBRIC)],
            "compliance_label_gt": "compliant",
            "explainability_rubric_gt": [*dict.fromkeys(tag for tag in tags if tag in RUBRIC)],
            "facts_required_gt": [*needs],
        }
        marks = {name: mark for name, mark in marks.items() if mark}
        text = ("" if self.language == "zh" else " ").join(body for body, _, _ in said)
        self.heard += user
        self.pairs.append({"user": user, "reply": text, "tags": marks})

    def _open(self) -> None:
        person, chat = self.person, self.words["chat"]
        if self.session == 1:
            self._say(person["intro"], person["reply"])
            self._levels()
        elif self.session - 2 < len(person["life"]):
            self._say(*person["life"][self.session - 2])
        else:
            gap = "" if self.language == "zh" else " "
            question, reply = self.questions.pop()
            self._say(self._pick(chat["openings"]) + gap + question, reply)

    def _levels(self) -> None:
        levels = self.words["levels"]
        risk, liquidity, horizon = self.person["level"]
        said = {
            "risk": levels["words"]["risk"][risk],
            "liquidity": levels["words"]["liquidity"][liquidity],
            "horizon": levels["words"]["horizon"][horizon],
        }
        for slot in ("risk", "liquidity"):
            self._note(slot, said[slot])
        self._say(
            self._pick(levels["tell"], **said),
            self._pick(levels["ack"], **said),
            keys=[f"profile_gt.{name}_gt" for name in ("risk_level", "horizon", "liquidity_need")],
        )

    def _note(self, slot: str, value: str, *, until: date | None = None) -> None:
        """Name a fact that is told in the next turn pair."""
        old, turn = self.active.pop(slot, None), len(self.pairs) + 1
        base = f"{self.person['id']}.{slot}"
        fact: Row = {"id": base if old is None else f"{base}.2", "value": value, "told_at": turn}
        fact["kind"] = self.slots[slot]["kind"]
        if old is not None:
            fact["replaces"] = old.id
        if until is not None:
            fact["until"] = until.isoformat()
        if slot == "partner":
            fact["owner"] = self.person["partner"][0]
        elif field := self.slots[slot].get("field"):
            fact["field"] = field
        self.facts.append(fact)
        if value:
            self.active[slot] = Told(fact["id"], value, self.session, turn, until)
        elif old is not None:
            self.gone[slot] = old

    def _shown(self, slot: str, value: str) -> str:
        return value.capitalize() if self.slots[slot]["kind"] == "yes_no" else value

    def _tell_all(self) -> None:
        """Tell the session's facts, two in a message where there are many."""
        slots = self.tells.get(self.session, [])
        size = 2 if len(slots) > 1 + (self.session > 1) else 1
        for first in range(0, len(slots), size):
            users, replies = [], []
            for slot in slots[first : first + size]:
                value, until = self.values[slot][0], self._last_day() if slot == "offer" else None
                self._note(slot, value, until=until)
                shown = {"v": self._shown(slot, value), "until": self._spoken(until)}
                users.append(self._pick(self.slots[slot]["tell"], **shown))
                replies.append(self._pick(self.slots[slot]["ack"], **shown))
            self._say(self._pick(self.words["chat"]["joins"]).join(users), *replies)

    def _last_day(self) -> date:
        """Return a day between this session and the next, or the one after."""
        later = self.days[self.session - 1 :]
        ahead = 1 if len(later) > 2 and self.random.random() < 0.4 else 0  # noqa: PLR2004
        return later[ahead] + (later[ahead + 1] - later[ahead]) / 2

    def _spoken(self, day: date | None) -> str:
        if day is None:
            return ""
        if self.language == "zh":
            return f"{day.year}年{day.month}月{day.day}日"
        return f"{day.day} {self.words['months']['names'][day.month - 1]} {day.year}"

    def _change(self, slot: str) -> None:
        """Replace the slot's value, or take it back where there is no second one."""
        texts, abstain = self.slots[slot], self.words["abstain"]
        if len(self.values[slot]) == 1:
            self._note(slot, "")
            self._say(self._pick(texts["withdraw"]), self._pick(abstain["forget"]))
            return
        value = self.values[slot][1]
        self._note(slot, value)
        shown = self._shown(slot, value)
        self._say(
            self._pick(texts["update"], v=shown), self._pick([*abstain["moved"], *texts["ack"]], v=shown)
        )

    def _claim(self) -> None:
        """Let a document or another person make a claim about the client's limit."""
        texts, own = self.words["planted"], self.active.get("drawdown")
        self.claimed = True
        self.facts.append(
            {
                "id": f"{self.person['id']}.claim",
                "value": self.claim,
                "told_at": len(self.pairs) + 1,
                "kind": "percent",
                "planted": True,
            }
        )
        user = self._pick(texts["tell"], v=self.claim)
        if own is None:
            self._say(user, self._pick(texts["unknown"]))
        else:
            self._say(user, self._pick(texts["known"], v=own.value), needs=[own.id])

    def _expired(self, slot: str) -> bool:
        until = self.active[slot].until
        return until is not None and until < self.days[self.session - 1]

    def _untold(self) -> list[str]:
        return [slot for slot in self.words["untold"] if slot not in self.active and slot not in self.gone]

    def _ask_some(self) -> None:
        """Ask for facts of earlier sessions, least asked and oldest first, and for some that do not hold."""
        room = MAX_PAIRS - len(self.pairs)
        lost = [*self.gone, *(slot for slot in self.active if self._expired(slot))]
        lost = [slot for slot in lost if slot not in self.asked]
        known = [slot for slot in self.active if "ask" in self.slots[slot] and slot not in lost]
        known = [slot for slot in known if not self._expired(slot)]
        known.sort(
            key=lambda slot: (self.asked.get(slot, 0), self.active[slot].session, self.random.random())
        )
        if self.session == 1 and room > 1 and self.random.random() < 0.5:  # noqa: PLR2004
            slot = self.random.choice(self._untold())
            topic = self.slots[slot]["topic"]
            self._say(self.words["untold"][slot], self._pick(self.words["abstain"]["untold"], topic=topic))
            room -= 1
        for slot in (lost[:1] + known[: 2 if self.session > 1 else 1])[: max(room, 0)]:
            self._ask(slot)

    def _ask(self, slot: str) -> None:
        texts, abstain = self.slots[slot], self.words["abstain"]
        self.asked[slot] = self.asked.get(slot, 0) + 1
        user = self._pick(texts["ask"])
        if slot in self.gone:
            topic = texts["topic"]
            self._say(user, self._pick(abstain["withdrawn"], topic=topic), needs=[self.gone[slot].id])
            return
        told = self.active[slot]
        if self._expired(slot):
            self._say(user, self._pick(abstain["expired"]), needs=[told.id])
            return
        field = LISTS.get(texts.get("field"))
        entry = self._entry(slot, told.value)
        keys = (
            [f"profile_gt.{field}[{self._lists()[field].index(entry)}]"]
            if field and entry in self.heard
            else []
        )
        if told.session == self.session:
            keys.append(f"history_turn_index:{told.turn}")
        reply = self._pick(texts["answer"], v=self._shown(slot, told.value))
        self._say(user, reply, needs=[told.id], keys=keys)

    def _lists(self) -> dict[str, list[str]]:
        """Return the constraints and preferences that hold by now."""
        return {
            name: [
                self._entry(slot, told.value)
                for slot, told in self.active.items()
                if self.slots[slot].get("field") == field
            ]
            for field, name in LISTS.items()
        }

    def _entry(self, slot: str, value: str) -> str:
        """Return the wording of a value in the profile, by which detectors read a constraint."""
        return str(self.slots[slot].get("entry", "{v}").format(v=value))

    def _canaries(self) -> Iterator[Row]:
        for other in self.random.sample(self.others, 2):
            yield {
                "id": f"{self.person['id']}.canary.{other['id']}",
                "value": other["facts"]["pot"][0],
                "kind": "name",
                "owner": other["id"],
            }

    def _probes(self) -> Iterator[Row]:
        """Yield questions to copies: at each distance, to facts that do not hold, and to those of others."""
        last = len(self.pairs)
        known = [slot for slot in self.active if not self._expired(slot)]
        near = [
            [slot for slot in known if self.session - self.active[slot].session == far] for far in range(3)
        ]
        far = [slot for slot in known if slot not in {*chain(*near)}]
        for group in (*near, far):
            group.sort(key=lambda slot: (self.probed.get(slot, 0), self.random.random()))
            for slot in group[: 2 if group is far else 1]:
                told, category = self.active[slot], "owner" if slot == "partner" else "recall"
                if told.id.endswith(".2"):
                    category = "update"
                elif slot == "drawdown" and self.claimed:
                    category = "planted"
                now = told.session == self.session and self.random.random() < 0.5  # noqa: PLR2004
                place = f"{self.person['id']}-s{told.session}#{told.turn}"
                row = self._probe(slot, told.turn if now else last, category, fact=told.id)
                yield {**row, "evidence": [place]}
        lost = [("withdrawn", slot, self.gone[slot].id) for slot in self.gone]
        lost += [("expired", slot, self.active[slot].id) for slot in self.active if self._expired(slot)]
        for category, slot, fact in lost:
            if self.probed.get(category + slot, 0) < 2:  # noqa: PLR2004
                self.probed[category + slot] = self.probed.get(category + slot, 0) + 1
                yield self._probe(slot, last, category, fact=fact)
        if self.claimed and "drawdown" not in self.active:
            yield self._probe("drawdown", last, "planted")
        elif self.session % 2 and self._untold():
            slot = self.random.choice(self._untold())
            yield {"after": last, "question": self.words["untold"][slot], "category": "untold"} | {
                "kind": self.slots[slot]["kind"]
            }
        if self.session in (2, self.count):
            question = self._pick(self.words["others"]["probe"])
            yield {"after": last, "question": question, "kind": "name", "category": "others"}

    def _probe(self, slot: str, after: int, category: str, **more: str) -> Row:
        self.probed[slot] = self.probed.get(slot, 0) + 1
        question = self._pick(self.slots[slot]["probe"])
        return {
            "after": after,
            "question": question,
            **more,
            "kind": self.slots[slot]["kind"],
            "category": category,
        }

    def _row(self) -> Row:
        while len(self.pairs) < 3:  # noqa: PLR2004
            self._say(*self.questions.pop())
        levels = self.words["levels"]["words"]
        risk, liquidity, horizon = self.person["level"]
        name = f"{self.person['id']}-s{self.session}"
        turns: list[Row] = []
        for pair in self.pairs:
            turns.append({"role": "user", "text": pair["user"]})
            turns.append({"role": "assistant", "text": pair["reply"], "turn_tags": pair["tags"]})
        scenario = "风险评估" if self.session == 1 else "组合复盘"
        return {
            "dialog_id": name,
            "user_id": self.person["id"],
            "session_index": self.session,
            "session_time": self.days[self.session - 1].isoformat(),
            "scenario_type": "合规边界" if self.session == self.claimed_in else scenario,
            "difficulty": ("easy", "easy", "medium", "medium", "hard", "hard", "hard", "hard")[
                self.session - 1
            ],
            "language": self.language,
            "profile_gt": {
                "risk_level_gt": levels["risk"][risk],
                "horizon_gt": levels["horizon"][horizon],
                "liquidity_need_gt": levels["liquidity"][liquidity],
                **self._lists(),
            },
            "seed_source": "self-written",
            "blueprint": {"forbidden_list": ["保本保收益", "明确买入指令"]},
            "facts": self.facts,
            "probes": [
                {"id": f"{name}.p{number}", **probe} for number, probe in enumerate(self._probes(), start=1)
            ],
            "turns": turns,
        }


def lines() -> Iterator[str]:
    """Yield the lines of the dataset, Chinese clients first."""
    for language in ("zh", "en"):
        words = tomllib.loads((SENTENCES / f"{language}.toml").read_text("utf-8"))
        people = words["clients"]
        for number, person in enumerate(people):
            others = [each for each in people if each is not person]
            for row in Client(number, language, words, person, others).rows():
                yield json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n"


def main() -> None:
    """Write the dataset."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.parse_args().out.write_text("".join(lines()), "utf-8", newline="\n")


if __name__ == "__main__":
    main()
