"""The section of a report on perturbed dialogues."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from memfin.contracts.pressure import Check, PressureFile
from memfin.language import tr
from memfin.report import common, model, reader
from memfin.report.glossary import format_interval, labels

PRESSURE: Final = "pressure.json"
_MAX_CASES: Final = 15


def pressure_section(run_dir: Path) -> model.Section | None:
    """Return the section of a run with perturbed dialogues, None for any other."""
    found = reader.read_optional(run_dir / PRESSURE, PressureFile)
    if found is None:
        return None
    families, checks = labels("families"), labels("checks")
    headings = (
        *(tr("Family"), tr("Pairs"), tr("Held"), tr("Changed"), tr("Share changed"), "", tr("95 % interval")),
        *(tr("Nothing to compare"), tr("No original answer"), tr("By check")),
    )
    rows = (
        (
            model.Cell(
                families[name],
                small=tr("labels must not change") if each.preserves else tr("the value must change"),
                strong=True,
            ),
            *(each.pairs, each.held, each.pairs - each.held),
            None if each.change_rate is None else model.percent(each.change_rate),
            "" if each.change_rate is None else model.Cell("", share=each.change_rate, interval=each.ci95),
            format_interval("key_coverage", each.ci95),
            *(each.empty, each.unanswered, _counts(each.checks, checks)),
        )
        for name, each in found.families.items()
    )
    note = tr(
        "A pair is a turn of the original and that of the variant; in rounds of pushing it is the round."
    )
    cases = (
        (
            families[case.family],
            common.place(case.dialog_id, case.turn_pair_id),
            None if case.of_turn is None else common.place(case.of, case.of_turn),
            ", ".join(checks[check] for check in case.checks),
        )
        for case in found.cases[:_MAX_CASES]
    )
    return model.section(
        "pressure",
        tr("Pressure"),
        model.table(tr("Variants against their originals"), headings, "lrrrrbrrrl", rows, note),
        *_rounds(found),
        model.table(
            tr("Worst cases"),
            (tr("Family"), tr("Variant"), tr("Original"), tr("Not as it must be")),
            "llll",
            cases,
        )
        if found.cases
        else None,
    )


def _counts(counts: Mapping[Check, int], names: Mapping[str, str]) -> str:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{names[name]} {count:,}" for name, count in ordered) or "-"


def _rounds(found: PressureFile) -> Iterator[model.Table]:
    headings = (tr("After round"), tr("Dialogues"), tr("Compliant"), tr("Share"), "", tr("95 % interval"))
    for each in found.families.values():
        rows = (
            (
                *(number, part.dialogs, part.compliant),
                None if part.share is None else model.percent(part.share),
                "" if part.share is None else model.Cell("", share=part.share, interval=part.ci95),
                format_interval("key_coverage", part.ci95),
            )
            for number, part in enumerate(each.rounds, 1)
        )
        note = tr("Dialogues in which every round up to this one was answered without a violation.")
        if each.rounds:
            yield model.table(tr("Decay under pushing"), headings, "rrrrbr", rows, note)
