import subprocess
import sys
from xml.etree import ElementTree as ET

from memfin.report.charts import charts_of, group_chart, headline_chart, histogram_chart, source_chart
from memfin.report.glossary import METRICS
from memfin.report.load import summary_model
from memfin.report.model import GroupRow, GroupTable, Histogram, MetricView
from tests.report.report_run_factory import metric, summary


def table(labels: list[str]) -> GroupTable:
    values: dict[str, float | None] = {"key_coverage": 0.5, "risk_coverage": None, "rubric_hit_rate": 1.0}
    rows = tuple(GroupRow(label=label, dialogs=1, turns=3, values=values) for label in labels)
    return GroupTable(title="By scenario", rows=rows)


def test_charts_hold_no_script_comment_link_or_address() -> None:
    charts = charts_of(summary_model(summary()))
    assert {"headline", "sources", "spread-M1", "spread-M5"} <= charts.keys()
    for chart in charts.values():
        lowered = chart.svg.lower()
        for banned in ("<script", "<!--", "http", "href", "url(", "@import", "<?", "onload", "<a "):
            assert banned not in lowered


def test_a_chart_is_named_and_described_for_those_who_cannot_see_it() -> None:
    chart = headline_chart(summary_model(summary()).metrics)
    assert chart is not None
    root = ET.fromstring(chart.svg)  # noqa: S314 - our own chart
    assert root.get("role") == "img"
    assert "M1 Key coverage 62.5 % (95 % interval 52.5 to 62.5 %)" in (root.get("aria-label") or "")
    assert root[0].tag == "title"
    assert root[0].text == "Headline values"
    assert root[1].tag == "desc"


def test_drawing_twice_gives_the_same_bytes() -> None:
    model = summary_model(summary())
    assert charts_of(model) == charts_of(model)


def test_intervals_are_drawn_when_there_are_any() -> None:
    views = summary_model(summary()).metrics
    chart = headline_chart(views)
    bare = [
        MetricView(text=view.text, micro=view.micro, macro={}, counts=view.counts, ci95={}) for view in views
    ]
    without = headline_chart(bare)
    assert chart is not None
    assert without is not None
    assert chart.svg.count('class="ci"') == 5
    assert 'class="ci"' not in without.svg


def test_sources_are_shares_of_the_required_keys() -> None:
    chart = source_chart(summary_model(summary()).metrics[0])
    assert chart is not None
    assert "Short-term window 4 of 8 (50.0 %)" in chart.alt
    assert "Long-term recall 2 of 8 (25.0 %)" in chart.alt
    assert "In no source 3 of 8 (37.5 %)" in chart.alt


def test_hostile_group_names_stay_text() -> None:
    chart = group_chart("group-0", table(["<script>x</script>", "a&b\u202e", "资产配置"]))
    assert chart is not None
    assert "<script" not in chart.svg
    assert "&lt;script&gt;" in chart.svg
    assert "资产配置" in chart.svg


def test_one_group_or_too_many_are_not_drawn() -> None:
    assert group_chart("group-0", table(["one"])) is None
    assert group_chart("group-0", table([f"g{number}" for number in range(11)])) is None


def test_a_histogram_tells_its_bins_in_words() -> None:
    text = METRICS[0]
    spread = Histogram(counts=(0, 0, 3, 0, 0, 0, 0, 0, 0, 5), dialogs=8, mean=0.7)
    view = MetricView(text=text, micro={}, macro={}, counts={}, ci95={}, histogram=spread)
    chart = histogram_chart(view)
    assert chart is not None
    assert chart.alt == "Dialogues by value. 20 to 30 %: 3; 90 to 100 %: 5"


def test_nothing_to_measure_draws_nothing() -> None:
    result = summary()
    for name in result.metrics:
        result.metrics[name] = metric(name, {}, counts={"eligible_count": 0}, by_dialog={}, ci95={})
    assert charts_of(summary_model(result)) == {}


def test_importing_the_report_package_loads_no_drawing_or_template_library() -> None:
    code = "import sys, memfin.report; print(sorted({'pygal', 'jinja2', 'rich'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
