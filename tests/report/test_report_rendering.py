"""Both formats: what they say, and that text out of a run stays text."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from memfin.contracts import Finding
from memfin.report import load_report, render_html_report, render_markdown_report
from memfin.report.model import Histogram, Report, duration, milliseconds, moment
from memfin.report.render import escape_markdown
from memfin.text.lines import flat, visible
from tests.report.report_run_factory import row, summary, trace, turn, write_run
from tests.support import each_case

HOSTILE = (
    "<script>alert(1)</script> | </td></style> `x` ```\n# head\n- item\n\n<img src=x onerror=y> "
    "![i](http://e.vil/p.png) [l](javascript:x) <http://e.vil> http://e.vil www.e.vil @someone $x$ *b* _i_ "
    "~~s~~ &lt; &#x3c;b> {{ 7*7 }} {% x %}\u2028\x00\u202egnp.exe\u202c " + "w" * 400
)
NETWORK = re.compile(
    r"""(?:src|href|action|data|poster|srcset|cite|background|xmlns)\s*=|url\s*\(|@import""", re.IGNORECASE
)


class Elements(HTMLParser):
    """Collects tags, attributes and text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def parsed(html: str) -> Elements:
    elements = Elements()
    elements.feed(html)
    return elements


@pytest.fixture
def hostile(tmp_path: Path) -> Report:
    """A run in which every free text is hostile."""
    ids = ("<b>a</b>|`", f"b{HOSTILE}")
    severe = row(
        ids[0],
        key_hit_flags=[0],
        key_hit_sources=[[]],
        pred_compliance_label="severe_violation",
        forbidden_hits=[HOSTILE],
        contradicted_constraints=[HOSTILE],
        constraint_contradiction=1,
        risk_required_tags=[HOSTILE],
        risk_unmapped_tags=[HOSTILE],
        rubric_required=[HOSTILE],
        judge_score_1_5=1.0,
        judge_error=HOSTILE,
        findings=[Finding(field=HOSTILE, value=HOSTILE, rule=HOSTILE, start=0, end=30)],
    )
    broken = turn(2, HOSTILE, None, turn_status="error", error=HOSTILE)
    traces = [
        trace(ids[0], [turn(1, HOSTILE, HOSTILE), broken], scenario_type=HOSTILE, difficulty=HOSTILE),
        trace(ids[1], [turn(1)], dialog_error=HOSTILE),
    ]
    counters = summary().counters
    result = summary(run_id=f"r{HOSTILE}", dataset_path=HOSTILE, counters=counters)
    return load_report(write_run(tmp_path, traces, [severe, row(ids[1])], result, extras=True))


@pytest.fixture
def plain(tmp_path: Path) -> Report:
    traces = [
        trace("a", [turn(1), turn(2, "保本吗", "我们绝对保本。")], difficulty="hard"),
        trace("b", [turn(1), turn(2)]),
        trace("c", dialog_status="skipped", valid_dialog=False, skip_reason="missing_turns"),
    ]
    finding = Finding(field="forbidden", value="保本保收益", rule="promise.principal", start=2, end=6)
    rows = [
        row("a", 1, key_hit_flags=[0], key_hit_sources=[[]]),
        row("a", 2, pred_compliance_label="severe_violation", findings=[finding]),
        row("b", 1),
    ]
    return load_report(write_run(tmp_path, traces, rows, extras=True))


def test_html_escapes_every_text_of_the_run(hostile: Report) -> None:
    elements = parsed(render_html_report(hostile))
    assert not {"script", "img", "iframe", "object", "embed", "form", "link", "base"} & set(elements.tags)
    assert not [name for _, name, _ in elements.attributes if name.startswith("on")]
    assert not {"\x00", "\u202e", "\u2028"} & set("".join(elements.text))
    assert "<script>alert(1)</script>" in "".join(elements.text)
    assert "{{ 7*7 }}" in "".join(elements.text)


def test_html_refers_to_nothing_outside_itself(hostile: Report) -> None:
    html = render_html_report(hostile)
    for tag, name, value in parsed(html).attributes:
        if name in {"src", "href", "action", "data", "poster", "srcset", "xlink:href", "background"}:
            assert (tag, name) == ("a", "href")
            assert value.startswith("#")
        assert "url(" not in value
    for style in re.findall(r"<style[^>]*>(.*?)</style>", html, re.DOTALL):
        assert not re.search(r"url\s*\(|@import|https?:|//", style)


def test_html_of_a_harmless_run_holds_no_address_at_all(plain: Report) -> None:
    html = render_html_report(plain)
    assert not re.search(r"https?://", html)
    assert [found for found in NETWORK.findall(html) if found.lower() != "href="] == []


def test_html_forbids_scripts_and_requests_by_policy(plain: Report) -> None:
    html = render_html_report(plain)
    policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]+)">', html)
    assert policy is not None
    assert policy.group(1).startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:")
    assert html.index("Content-Security-Policy") < html.index("<title>")


def test_html_is_accessible_and_adapts(plain: Report) -> None:
    html = render_html_report(plain)
    elements = parsed(html)
    assert html.startswith('<!doctype html>\n<html lang="en">')
    assert ("meta", "name", "viewport") in elements.attributes
    for feature in ("prefers-color-scheme: dark", "@media print", "PingFang SC", "Noto Sans CJK SC"):
        assert feature in html
    scopes = [value for tag, name, value in elements.attributes if (tag, name) == ("th", "scope")]
    assert len(scopes) == elements.tags.count("th")
    assert html.count('role="img"') >= 3
    ids = [value for _, name, value in elements.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    targets = {value[1:] for tag, name, value in elements.attributes if (tag, name) == ("a", "href")}
    assert targets <= set(ids)
    assert elements.tags.count("h1") == 1


def test_html_says_what_the_run_was_and_found(plain: Report) -> None:
    text = flat(" ".join(parsed(render_html_report(plain)).text))
    for words in (
        "62.5 %",
        "95 % interval 52.5 to 62.5 %",
        "3.46",
        "model-x",
        "forced",
        "By difficulty",
        "Severe violations",
        "promise.principal",
        "missing_turns",
        "1 min 15 s",
        "2026-01-01 00:00 UTC",
        "Skipped: turns for which the dataset requires nothing",
        "900 ms",
        "ab" * 6,
        "How to read this",
        "all 3 reference labels",
    ):
        assert words in text


def test_html_highlights_the_span_of_a_finding(plain: Report) -> None:
    assert "我们<mark>绝对保本</mark>。" in render_html_report(plain)


def test_the_same_turn_is_shown_once_and_referred_to_after(tmp_path: Path) -> None:
    both = row("a", key_hit_flags=[0], key_hit_sources=[[]], pred_compliance_label="severe_violation")
    model = load_report(write_run(tmp_path, [trace("a", [turn(1)])], [both]))
    html = render_html_report(model)
    assert html.count('id="turn-1"') == 1
    assert 'href="#turn-1"' in html
    markdown = render_markdown_report(model)
    assert markdown.count("- Asked:") == 1
    assert ", shown above" in markdown


def test_a_metric_without_a_denominator_prints_no_zero(tmp_path: Path) -> None:
    result = summary()
    m3 = result.metrics["m3_risk_coverage"]
    result.metrics["m3_risk_coverage"] = m3.replace(
        micro={"risk_coverage": 0.0}, counts={"eligible_count": 0}, ci95={}
    )
    model = load_report(write_run(tmp_path, [trace("a", [turn()])], [row("a")], result))
    assert "nothing to measure" in render_html_report(model)
    assert "| **M3 Risk coverage** | Risk coverage | - |" in render_markdown_report(model)


def test_what_was_not_measured_is_no_zero(tmp_path: Path) -> None:
    result = summary()
    m1 = result.metrics["m1_context_continuity"]
    result.metrics["m1_context_continuity"] = m1.replace(not_measured={"key_coverage": "no recall reported"})
    rows = [row("a", key_hit_flags=[0], key_hit_sources=[[]])]
    model = load_report(write_run(tmp_path, [trace("a", [turn()])], rows, result))
    assert "**M1 Context continuity**: not measured, Key coverage: no recall reported" in (
        markdown := render_markdown_report(model)
    )
    assert "| **M1 Context continuity** | Key coverage | - |  | - | - |" in markdown
    assert "Sources of required keys" not in markdown
    assert "Lowest key coverage" not in markdown
    assert '<p class="big none">not measured</p>' in render_html_report(model)


def test_a_summary_without_the_known_values_of_a_metric_has_a_report() -> None:
    result = summary()
    m2 = result.metrics["m2_profile_accuracy"]
    result.metrics["m2_profile_accuracy"] = m2.replace(micro={"own": 0.5}, macro={}, by_dialog={})
    assert "**M2 Profile accuracy**: not measured, Profile score: nothing" in render_markdown_report(result)


def test_severe_violations_are_counted_in_replies(tmp_path: Path) -> None:
    result = summary()
    m4 = result.metrics["m4_compliance"]
    counts = m4.counts | {"eligible_count": 0, "severe_count": 25, "severe_turns": 125}
    result.metrics["m4_compliance"] = m4.replace(counts=counts)
    html = render_html_report(load_report(write_run(tmp_path, [trace("a", [turn()])], [row("a")], result)))
    assert re.search(r'class="card bad">\s*<h3>.*M4.*</h3>\s*<p class="big long">25 of 125</p>', html)
    assert "replies with severe violations, 10.0 %" in html


def rendered(markdown: str) -> list[Token]:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(markdown)


def inline_types(tokens: list[Token]) -> set[str]:
    return {child.type for token in tokens for child in token.children or []}


def test_markdown_keeps_hostile_text_as_text(hostile: Report) -> None:
    tokens = rendered(render_markdown_report(hostile))
    assert not {"html_block", "code_block", "fence"} & {token.type for token in tokens}
    assert inline_types(tokens) <= {"text", "softbreak", "strong_open", "strong_close", "text_special"}
    headings = [
        tokens[number + 1].content for number, token in enumerate(tokens) if token.type == "heading_open"
    ]
    assert not any(heading.startswith("head") for heading in headings)


def test_markdown_tables_keep_their_columns(hostile: Report) -> None:
    markdown = render_markdown_report(hostile)
    width = 0
    for line in markdown.split("\n"):
        if not line.startswith("|"):
            width = 0
            continue
        columns = len(re.findall(r"(?<!\\)\|", line))
        assert width in (0, columns), line
        width = columns
    assert len([token for token in rendered(markdown) if token.type == "table_open"]) >= 6
    assert not {"\x00", "\u202e", "\u2028"} & set(markdown)


@each_case(
    "text",
    [
        HOSTILE,
        "a|b\\|c\\",
        "**b** __b__ *i* _i_ ~~s~~ `c` ``c`` [a][b] ![i](u) <b> &amp; &lt;",
        "http://x.y https://x.y ftp://x www.x.y a@b.c @me #1 $x$ :+1:",
        "\\*x\\*",
        "**保本**，`稳赚`",
    ],
)
def test_escaped_markdown_reads_back_as_the_text(text: str) -> None:
    tokens = rendered(f"x {escape_markdown(text)} x")
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
    assert inline_types(tokens) <= {"text", "text_special"}
    content = "".join(child.content for child in tokens[1].children or [])
    assert content == flat(f"x {visible(text)} x")


def test_escaped_markdown_leaves_nothing_to_autolink() -> None:
    assert escape_markdown("see http://e.vil") == "see http\\://e.vil"
    assert escape_markdown("see WWW.e.vil or www.e.vil") == "see WWW\\.e.vil or www\\.e.vil"
    assert "\\@me" in escape_markdown("@me")


def test_markdown_of_a_summary_alone_has_the_metrics() -> None:
    markdown = render_markdown_report(summary())
    assert markdown.startswith("# MemFin evaluation report: r1\n")
    assert "| **M1 Context continuity** | Key coverage | 62.5 % |" in markdown
    assert "52.5 to 62.5 %" in markdown
    assert "| Short-term window | 4 | 50.0 % |" in markdown
    assert "Worst turns" not in markdown
    assert "\n\n\n" not in markdown


def test_markdown_says_what_the_run_was_and_found(plain: Report) -> None:
    markdown = render_markdown_report(plain)
    for words in (
        "### By difficulty",
        "| hard | 1 | 2 |",
        "### Severe violations (1 turn)",
        "我们⟦绝对保本⟧。",
        "| missing\\_turns | 1 |",
        "| Wall time | 1 min 15 s |",
        "Warning: M4 label accuracy",
        "| agent | echo |",
    ):
        assert words in markdown


def test_a_severe_violation_leads_the_card_of_compliance(plain: Report) -> None:
    html = render_html_report(plain)
    assert re.search(
        r'class="card bad">\s*<h3><span class="code">M4</span> Compliance</h3>\s*<p class="big">10.0 %', html
    )


def test_a_histogram_has_its_bins_in_words() -> None:
    assert Histogram("M1", (0, 0, 3, 0, 0, 0, 0, 0, 0, 5)).alt == "20 to 30 %: 3; 90 to 100 %: 5"


def test_importing_the_report_package_loads_no_template_or_table_library() -> None:
    code = "import sys, memfin.report; print(sorted({'jinja2', 'rich'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_times_are_written_in_utc_to_the_minute() -> None:
    assert moment("2026-11-24T04:10:33.552757+02:00") == "2026-11-24 02:10 UTC"
    assert moment("yesterday") == "yesterday"


def test_durations_are_written_in_readable_units() -> None:
    assert [duration(value) for value in (0.04, 59.94, 75, 3723, 90_061)] == [
        "0.0 s",
        "59.9 s",
        "1 min 15 s",
        "1 h 02 min 03 s",
        "25 h 01 min 01 s",
    ]
    assert [milliseconds(value) for value in (0.1234, 12.0, 999.0, 61_600.0)] == [
        "0.123 ms",
        "12 ms",
        "999 ms",
        "1 min 02 s",
    ]


def test_both_angle_brackets_and_ampersands_become_entities() -> None:
    assert escape_markdown("<b> &amp;") == "&lt;b&gt; &amp;amp;"
