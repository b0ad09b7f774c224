"""A thousand hostile texts on the pages of the viewer in a real browser: nothing runs, nothing leaves."""

import json
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio.to_thread
import msgspec
from selenium import webdriver

from memfin.contracts import Finding, RecallItem, RecallTrace, ResolvedKey, RunManifest, ToolTrace
from memfin.contracts.dataset import ProfileTruth
from tests.report.report_run_factory import row, summary, trace, turn, write_run
from tests.support import length
from tests.web.browsers import chromium, needs_chromium
from tests.web.view_runs import viewing, write_benchmark, write_votes

pytestmark = needs_chromium

TEXTS = length(100, 1000)
TURNS_PER_DIALOG = 50
AWAY = "http://away.invalid/"
RUN = f"window.ran=1;alert(1);fetch('{AWAY}')"
MARKUP = r"""
<script>RUN</script>|<script src=AWAYx.js></script>|<script>/*|</script><script>RUN//
<img src=x onerror="RUN">
<img src=AWAYi.png>|<svg/onload=RUN>|<body onload=RUN>|<svg><script>RUN</script></svg>|<base href=AWAY>
<math><mtext><script>RUN</script></mtext></math>|<svg><animate onbegin=RUN attributeName=x dur=1s>
<svg><use href="AWAYs.svg#x"/></svg>|<noscript><p title="</noscript><img src=x onerror=RUN>">
<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=RUN&gt;">
<style><img src="</style><img src=x onerror=RUN>">|<iframe srcdoc="<script>parent.RUN</script>">
<iframe src=AWAY></iframe>|<iframe src="javascript:parent.RUN">|<object data=AWAY>|<embed src=AWAY>
<meta http-equiv=refresh content="0;url=AWAY">|<link rel=stylesheet href=AWAYc.css>|<audio src=AWAYa>
<a href="javascript:RUN">x</a>|<a href="data:text/html,<script>RUN</script>">x</a>|<details open ontoggle=RUN>
<form action=AWAY><button autofocus onfocus=RUN>|<input autofocus onfocus=RUN>
<p style="background:url(AWAY)">
<video src=AWAYv><source onerror=RUN></video>|<style>@import 'AWAY';*{background:url(AWAY)}</style>
<div hx-get=AWAY hx-trigger=load>|<div hx-on:load="RUN">|<div hx-get=/ hx-vals='js:{a:RUN}' hx-trigger=load>
<div hx-ext=sse sse-connect=AWAY>|<div data-hx-get=AWAY data-hx-trigger=load>|javascript:RUN|AWAY|<plaintext>
data:text/html,<script>RUN</script>|//away.invalid/|\\away.invalid|{% for x in y %}|${7*7}|<%= 7*7 %>
{{7*7}}{{constructor.constructor('window.ran=1')()}}|</bdi></p></article><!--|<title></title><textarea>
<b><i><u><table><tr><td>|]]><![CDATA[|&#60;script&#62;|%3Cscript%3E
"""
CONTROLS = (
    f"\x1b]8;;{AWAY}\x1b\\x\x1b[31m",
    "\u202e\u2066tpircs\u2069\u200b",
    "a\x00<b\x00>",
    "W" * 2000,
)
ATTACKS = (*re.split(r"[|\n]", MARKUP.strip().replace("RUN", RUN).replace("AWAY", AWAY)), *CONTROLS)
AROUND = (
    *("@", '"@', "'@", "'>@", '">@', "-->@", "</bdi>@", "</mark>@", "`@", "@\n@", "</title>@"),
    *("</textarea>@", "&quot;>@", "\ufeff@", "＜@", "/@", "?@", "#@", "{{@", "</style>@"),
)


def hostile() -> list[str]:
    """Return the texts, each unlike the others; the first hundred have every attack and every surrounding."""
    pairs = (
        (AROUND[(shift + number) % len(AROUND)], attack)
        for shift in range(len(AROUND))
        for number, attack in enumerate(ATTACKS)
    )
    texts = (f"{number} {around.replace('@', attack)}" for number, (around, attack) in enumerate(pairs))
    return list(islice(texts, TEXTS))


def write_hostile(directory: Path, texts: Sequence[str]) -> None:
    """Write a run with each of the texts in every place of a turn."""
    traces, rows = [], []
    for start in range(0, len(texts), TURNS_PER_DIALOG):
        one = texts[start : start + TURNS_PER_DIALOG]
        name = one[0]
        turns = [
            turn(
                number,
                text,
                text if number % 3 else None,
                turn_status="ok" if number % 3 else "error",
                gt_assistant_text=text,
                error=text,
                recall=RecallTrace(items=[RecallItem(content=text, source=text)], profile_context=text),
                tools=[ToolTrace(tool_name=text, args={text: text}, error=text)],
                profile_snapshot={text: text},
                observation_error=text,
            )
            for number, text in enumerate(one, 1)
        ]
        profile = ProfileTruth(risk_level_gt=name, constraints_gt=[name], preferences_gt=[name])
        traces.append(trace(name, turns, scenario_type=name, profile_gt=profile))
        rows += [
            row(
                name,
                number,
                turn_status="ok" if number % 3 else "error",
                findings=[Finding(field=text, value=text, rule=text, start=1, end=3)],
                resolved_keys=[ResolvedKey(key=text, resolvable=True, target_text=text)],
                forbidden_hits=[text],
                risk_required_tags=[text],
                rubric_required=[text],
                detector_errors={text: text},
            )
            for number, text in enumerate(one, 1)
        ]
    write_run(directory, traces, rows, summary(dataset_path=texts[0]), extras=True)
    votes = b""
    for each, text in zip(rows, texts, strict=True):
        write_votes(directory, [each], text)
        votes += (directory / "judgements.jsonl").read_bytes()
    (directory / "judgements.jsonl").write_bytes(votes)
    path = directory / "run_manifest.json"
    manifest = msgspec.json.decode(path.read_bytes(), type=RunManifest)
    path.write_bytes(msgspec.json.encode(manifest.replace(model_name=texts[1], started_at=texts[2])))


async def test_nothing_of_a_thousand_hostile_texts_runs_or_leaves(tmp_path: Path) -> None:
    texts = hostile()
    assert len(set(texts)) == TEXTS
    write_hostile(tmp_path / "runs" / "r", texts)
    write_benchmark(tmp_path / "runs" / "b", 20, texts[0] + "{}")
    filters = (f"turns?{kind}={quote(texts[0])}" for kind in ("q", "rule", "label", "scenario", "metric"))
    paths = ["/", "/runs/b", "/runs/r", *(f"/runs/r/{each}" for each in filters), f"/{quote(texts[0])}"]
    async with viewing(tmp_path / "runs", tmp_path) as viewer:
        opened = await anyio.to_thread.run_sync(opens, tmp_path, viewer.url, paths)
    assert sum("/dialogs/" in address for address in opened) == TEXTS / TURNS_PER_DIALOG
    assert len(opened) > 2 * TEXTS / TURNS_PER_DIALOG


def opens(folder: Path, url: str, paths: Sequence[str]) -> list[str]:
    """Open pages, the pages of lists and the dialogues that they link to; return their addresses.

    After each, nothing ran, was asked for elsewhere or was held back, and each link stays on the server.
    """
    opened = [url + path for path in paths]
    with chromium(folder, javascript=True, network_log=True) as browser:
        browser.get("about:blank")
        list(requested(browser))  # those of the browser's own first page
        for address in opened:
            browser.get(address)
            ran, links = browser.execute_script(
                "return [!document.querySelector('main') || window.ran, [...document.links].map(a => a.href)]"
            )
            assert (ran, browser.current_url) == (None, address)
            requests = set(requested(browser))
            assert address in requests
            assert [each for each in (*requests, *links) if not each.startswith(f"{url}/")] == [], address
            said = [each["message"] for each in browser.get_log("browser")]  # type: ignore[no-untyped-call]
            assert [message for message in said if "404 (Not Found)" not in message] == [], address
            more = {link.partition("#")[0] for link in links if "lang=" not in link}
            opened += sorted(
                each for each in more - {*opened} if re.search(r"/runs/r\?page|/dialogs/[^?]*$", each)
            )
    return opened


def requested(browser: webdriver.Chrome) -> Iterable[str]:
    """Yield the addresses that the browser has asked for since the last call."""
    for entry in browser.get_log("performance"):  # type: ignore[no-untyped-call]
        event: Any = json.loads(entry["message"])["message"]
        if event["method"] == "Network.requestWillBeSent":
            yield event["params"]["request"]["url"]
