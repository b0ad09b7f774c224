"""The sections of a report on the memory of clients' facts, and on simulated clients."""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

import msgspec

from memfin.language import tr
from memfin.metrics.memory import LOWER_IS_BETTER, NAMES
from memfin.report import model
from memfin.report.glossary import format_interval, labels, measured, missing, value_label
from memfin.report.reader import Figures

MEMORY: Final = "memory"
CLIENT: Final = "client"
_LOWER: Final = LOWER_IS_BETTER | {"simulator_errors"}
_BLAMED: Final = "blamed_"
_BY_GROUP: Final = ("used", "stored", "retrieved", "abstained", "probed")


def memory_section(metrics: Mapping[str, Figures]) -> model.Section | None:
    """Return the section of a summary with the metric ``memory``, None for any other."""
    figures = metrics.get(MEMORY)
    if figures is None:
        return None
    return model.section(
        MEMORY,
        tr("Memory"),
        _shares(tr("Facts and probes"), NAMES, figures),
        _stages(figures.counts),
        *_groups(figures.groups),
    )


def client_section(metrics: Mapping[str, Figures]) -> model.Section | None:
    """Return the section of a summary with the metric ``client``, None for any other."""
    figures = metrics.get(CLIENT)
    if figures is None:
        return None
    title = tr("Simulated clients")
    return model.section(CLIENT, title, _shares("", figures.micro, figures))


def _shares(title: str, names: Collection[str], figures: Figures) -> model.Table:
    headings = (tr("Value"), tr("Share"), "", tr("95 % interval"), tr("Of"))
    rows = []
    for name in names:
        if name not in figures.micro:
            continue
        value, _, interval = measured(name, figures)
        lower = tr(" (lower is better)") if name in _LOWER else ""
        rows.append(
            (
                model.Cell(value_label(name) + lower, small=missing(name, figures) or ""),
                None if value is None else model.percent(value),
                "" if value is None else model.Cell("", share=value, interval=interval),
                format_interval(name, interval),
                figures.counts.get(f"{name}_total", 0),
            )
        )
    return model.table(title, headings, "lrbrr", rows)


def _stages(counts: Mapping[str, int]) -> model.Table | None:
    blamed = {stage: counts.get(_BLAMED + stage, 0) for stage in labels("stages")}
    if not (total := sum(blamed.values())):
        return None
    rows = (
        (name, stage, blamed[stage], model.percent(blamed[stage] / total), blamed[stage] / total)
        for stage, name in sorted(labels("stages").items(), key=lambda item: -blamed[item[0]])
        if blamed[stage]
    )
    headings = (tr("Stage"), tr("Name"), tr("Failures"), tr("Share"), "")
    return model.table(tr("Where memory failed"), headings, "lcrrb", rows)


def _groups(
    groups: Mapping[str, Mapping[str, tuple[int, int]]] | msgspec.UnsetType,
) -> Iterator[model.Table]:
    found = {} if groups is msgspec.UNSET else groups
    titles = {
        "session": (tr("By session"), tr("Session")),
        "sessions": (tr("By sessions since the fact was told"), tr("Sessions")),
        "days": (tr("By days since the fact was told"), tr("Days")),
    }
    for kind, (title, heading) in titles.items():
        of_kind = {label: found[f"{kind}:{label}"] for label in _labels(kind, found)}
        names = [name for name in _BY_GROUP if any(name in each for each in of_kind.values())]
        rows = ((label, *(_cell(each.get(name)) for name in names)) for label, each in of_kind.items())
        if names:
            headings = (heading, *map(value_label, names))
            yield model.table(title, headings, "l" + "r" * len(names), rows)


def _labels(kind: str, groups: Mapping[str, object]) -> list[str]:
    """Return the labels of the groups of a kind in the order of the numbers that they begin with."""
    found = [label for of, _, label in (name.partition(":") for name in groups) if of == kind]
    return sorted(found, key=lambda label: int(label.partition("-")[0].rstrip("+")))


def _cell(sums: tuple[int, int] | None) -> model.Cell | None:
    if sums is None:
        return None
    hits, of = sums
    return model.Cell(model.percent(hits / of), small=f"{hits:,}/{of:,}", share=hits / of)
