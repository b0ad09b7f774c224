"""The section of a report on perturbed dialogues."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from memfin.contracts.pressure import Check, PressureCase, PressureFile
from memfin.language import marked, tr, tr_counted
from memfin.report import model, reader
from memfin.report.dialogs import script_language
from memfin.report.glossary import format_interval, labels
from memfin.text.clauses import sentence_bounds
from memfin.text.lines import one_line

PRESSURE: Final = "pressure.json"
_MAX_CASES: Final = 3
_USER_LIMIT: Final = 400
_REPLY_LIMIT: Final = 700


def pressure_section(run_dir: Path) -> model.Section | None:
    """Return the section of a run with perturbed dialogues, None for any other."""
    found = reader.read_optional(run_dir / PRESSURE, PressureFile)
    if found is None:
        return None
    families, checks = labels("families"), labels("checks")
    headings = (
        *(tr("Family"), tr("Pairs"), tr("Not held"), tr("Share"), "", tr("95 % interval")),
        *(tr("Not compared"), tr("By check")),
    )
    rows = (
        (
            model.Cell(families[name], small="" if each.preserves else tr("the value must change")),
            *(each.pairs, each.pairs - each.held),
            None if each.change_rate is None else model.percent(each.change_rate),
            "" if each.change_rate is None else model.Cell("", share=each.change_rate, interval=each.ci95),
            format_interval("key_coverage", each.ci95),
            each.empty + each.unanswered,
            _counts(each.checks, checks),
        )
        for name, each in found.families.items()
    )
    note = tr(
        "A pair is a turn of the original and that of the variant; in rounds of pushing it is the round. It "
        "holds if everything is as it must be. Pairs without anything to compare, or without an answer to "
        "the original, are not compared."
    )
    return model.section(
        "pressure",
        tr("Pressure"),
        model.table(tr("Variants against their originals"), headings, "lrrrbrrl", rows, note),
        *_rounds(found),
        *_cases(run_dir, found),
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
            yield model.table(tr("Decay under pushing"), headings, "lrrrbr", rows, note)


def _cases(run_dir: Path, found: PressureFile) -> Iterator[model.Cases]:
    """Yield the worst cases of each family, the replies to original and variant beside each other."""
    families = labels("families")
    shown: defaultdict[str, list[PressureCase]] = defaultdict(list)
    wanted: defaultdict[str, set[int]] = defaultdict(set)
    for case in found.cases:
        if len(of_family := shown[case.family]) < _MAX_CASES:
            of_family.append(case)
            wanted[case.dialog_id].add(case.turn_pair_id)
            if case.of_turn is not None:
                wanted[case.of].add(case.of_turn)
    texts = reader.fetch_turns(run_dir, wanted)
    number = 0
    for family, cases in shown.items():
        result = found.families[cases[0].family]
        total = tr_counted(result.pairs - result.held, marked("1 turn"), marked("{count:,} turns"))
        if result.pairs - result.held > len(cases):
            total += tr(", the worst {count}", count=len(cases))
        made = tuple(_case(f"pressure-{at}", case, texts) for at, case in enumerate(cases, number + 1))
        number += len(made)
        title = tr("Worst cases: {family}", family=families[family])
        yield model.Cases(title=title, total=total, answered=tr("Reply"), cases=made)


def _case(anchor: str, case: PressureCase, texts: Mapping[tuple[str, int], reader.TurnText]) -> model.Case:
    checks = labels("checks")
    variant = texts.get((case.dialog_id, case.turn_pair_id))
    original = None if case.of_turn is None else texts.get((case.of, case.of_turn))
    reply = _reply(variant, original)
    asked = "" if original is None else one_line(original.user_text, _USER_LIMIT)
    question = one_line(variant.user_text, _USER_LIMIT) if variant else tr("(the trace lacks this turn)")
    return model.Case(
        anchor=anchor,
        why=", ".join(checks[check] for check in case.checks),
        id=one_line(case.dialog_id, 80),
        where=tr(", turn {turn}", turn=case.turn_pair_id),
        language=script_language(variant.user_text if variant else "") or "en",
        question=question,
        reply=reply if original is None else None,
        beside=() if original is None else ((tr("Original"), _reply(original, None)), (tr("Variant"), reply)),
        evidence=() if asked in ("", question) else (model.Evidence(tr("Originally"), (model.Item(asked),)),),
    )


def _reply(text: reader.TurnText | None, original: reader.TurnText | None) -> tuple[model.Segment, ...]:
    """Return a reply; the sentences that the original's lacks are marked where they are the smaller part."""
    reply = (text and text.pred_assistant_text) or ""
    known = (original and original.pred_assistant_text) or ""
    new = [(start, end) for start, end in sentence_bounds(reply) if reply[start:end].strip() not in known]
    is_part = 2 * sum(end - start for start, end in new) < len(reply)
    return model.segments(reply, new if known and is_part else (), _REPLY_LIMIT)


def pressure_lines(run_dir: Path) -> Iterator[str]:
    """Yield the line of a run with perturbed dialogues that says how many pairs did not hold."""
    found = reader.read_optional(run_dir / PRESSURE, PressureFile)
    if found is not None:
        families = labels("families")
        parts = (
            f"{families[name]} "
            + tr("{count:,} of {total:,}", count=each.pairs - each.held, total=each.pairs)
            for name, each in found.families.items()
        )
        yield tr("Pressure, pairs not held: {families}", families=tr(", ").join(parts))
