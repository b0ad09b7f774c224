"""Sign-off page of a dialogue run: one printable HTML file for the person who decides on the agent."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from memfin.contracts import ConfigFile, Corrections, LabelledReply, RunManifest, RunStats, TurnEvalRow
from memfin.contracts.validity import ADJUDICATED
from memfin.language import marked, tr, tr_counted
from memfin.metrics.state import is_failed
from memfin.report import common, glossary, model, reader
from memfin.report.dialog_report import load_dialog_report
from memfin.report.glossary import format_interval, format_value, labels, word
from memfin.report.render import environment
from memfin.report.tables import FieldAgreement, agreement_headings, agreement_row, correction_lines
from memfin.report.worst_turns import Ranking, label_words
from memfin.text.clauses import sentence_bounds
from memfin.text.lines import one_line

MAX_QUOTED: Final = 100
"""Maximum number of turns with quotations per kind of violation."""

_MAX_SENTENCE: Final = 400
_COMPLIANCE: Final = "compliance"
_CONTRADICTION: Final = "constraint_contradiction"

Quote = tuple[tuple[model.Segment, ...], str]
Span = tuple[int, int, str]
"""Words of a reply from their first character to behind the last, and what they show."""


class Readings(NamedTuple):
    """People's labels of a run with their turns, agreement of readers, corrected rates.

    Labels of readers who contradict each other (``contradict``) correct nothing.
    """

    labels: Sequence[LabelledReply] = ()
    agreement: Sequence[FieldAgreement] = ()
    corrections: Corrections | None = None
    contradict: bool = False


def render_signoff(run_dir: Path, readings: Readings, version: str) -> str:
    """Return the sign-off page of a finished run in the language of the context.

    ``version`` is MemFin's. The same run, labels and version give the same bytes.

    Raises:
        UsageError: the directory is no finished run of dialogues, or a file does not fit its contract.
    """
    base, outdated = load_dialog_report(run_dir), glossary.warning("old_corrections")
    manifest = reader.read(run_dir / reader.MANIFEST, RunManifest)
    summary = reader.read(run_dir / reader.SUMMARY, reader.SummaryFile)
    config = reader.read_optional(run_dir / reader.CONFIG, ConfigFile)
    stats = reader.read_optional(run_dir / reader.STATS, RunStats)
    page = model.report(
        tr("Sign-off page"),
        summary.run_id,
        (),
        base.counters,
        (
            model.section("tested", tr("What was tested"), *_tested(base, config, manifest)),
            _figures(summary, readings.corrections, config),
            model.warnings_section(each for each in base.warnings if each.title != outdated.title),
            model.section("readers", tr("Checked by people"), *_readers(readings)),
            model.section("violations", tr("Violations"), *_violations(run_dir, readings.labels)),
            _not_measured(summary, stats, readings),
            _hashes(run_dir, config, version),
            model.section("decision", tr("Decision"), *_decision()),
        ),
    )
    return environment().get_template("report.html.j2").render(report=page, style="signoff.css")


def _tested(base: model.Report, config: ConfigFile | None, manifest: RunManifest) -> Iterator[model.AnyBlock]:
    facts = list(base.facts)
    if config is not None:
        given, settings = config.fingerprint_inputs, config.settings
        judge = given.get("judge") or {}
        own = [*settings.detectors, *settings.forbidden_patterns, *filter(None, (settings.tag_map,))]
        known = (
            (tr("Agent version"), given.get("agent_version") or tr("not stated by the agent")),
            (tr("Model"), given.get("model")),
            (tr("Judge's model"), judge.get("model") or judge.get("version")),
            (tr("Decides"), labels("judge_scope")[settings.judge_scope]),
            (tr("Votes per turn"), str(settings.judge_votes)),
            (tr("First dialogues only"), settings.limit and str(settings.limit)),
            (tr("Time limit of a turn"), model.duration(settings.turn_timeout)),
            (tr("Own rules and detectors"), tr(", ").join(own) or tr("none")),
            (tr("Gates"), "; ".join(_gates(config)) or tr("none")),
        )
        facts += ((name, one_line(str(value), 300)) for name, value in known if value)
    yield model.Block("facts", tuple(facts))
    if manifest.notes is None:
        yield model.Block("text", note=tr("Nobody noted which version was tested (--notes)."))


def _gates(config: ConfigFile) -> Iterator[str]:
    settings = config.settings
    yield from (f"{name} >= {limit:g}" for name, limit in settings.fail_under.items())
    yield from (f"{name} <= {limit:g}" for name, limit in settings.fail_over.items())
    yield from settings.gate


def _figures(
    summary: reader.SummaryFile, corrections: Corrections | None, config: ConfigFile | None
) -> model.Section | None:
    """Return raw and corrected values side by side."""
    judge = config.settings.judge if config else None
    corrected = corrections.values if corrections else {}

    def cells() -> Iterator[tuple[model.Value, ...]]:
        for row in glossary.metric_rows(summary.metrics, judge):
            key = row.value.key
            found = corrected.get(f"{row.text.name}.{key}")
            yield (
                model.Cell(f"{row.text.code} {row.value.label}", small=row.value.meaning),
                format_value(key, row.micro),
                format_interval(key, row.interval),
                *(
                    ("-", "-", "-")
                    if found is None
                    else (format_value(key, found.value), format_interval(key, found.ci95), found.labels)
                ),
            )

    headings = (
        *(tr("Value"), tr("Raw"), tr("95 % interval")),
        *(tr("Corrected"), tr("95 % interval"), tr("Labels")),
    )
    note = tr(
        "Raw values are those of the detectors and the judge; corrected ones take their errors out by labels."
    )
    lines = correction_lines(corrections) if corrections else ()
    warned = tuple(model.ReportWarning(line, "") for line in lines)
    found = model.table("", headings, "lrrrrr", cells(), note)
    return model.section("figures", tr("Figures"), found, model.Block("warnings", warned))


def _readers(readings: Readings) -> Iterator[model.AnyBlock]:
    """Yield who labelled how many turns, and how far readers agree."""
    counts: defaultdict[str, list[LabelledReply]] = defaultdict(list)
    for label in readings.labels:
        counts[label.reader or ""].append(label)
    if not counts:
        title = tr("Not checked by people")
        detail = tr("There are no labels of this run: all figures and violations rest on programs alone.")
        yield model.Block("warnings", (model.ReportWarning(title, detail),))
        return
    rows: Iterator[tuple[model.Value, ...]] = (
        (
            _name(name),
            len(given),
            sum(each.probability == 0 for each in given),
            sum(each.compliance == "severe_violation" for each in given),
            sum(each.compliance == "minor_violation" for each in given),
            sum(bool(each.contradiction) for each in given),
        )
        for name, given in sorted(counts.items())
    )
    headings = (
        *(tr("Reader"), tr("Turns"), tr("Picked by hand")),
        *(tr("severe violation"), tr("minor violation"), tr("contradiction")),
    )
    yield model.table("", headings, "lrrrrr", rows)
    if agreed := list(map(agreement_row, readings.agreement)):
        yield model.table(tr("Agreement"), agreement_headings(), "lrrrrr", agreed)
    else:
        yield model.Block("text", note=tr("No turn was labelled by two readers."))
    if readings.contradict:
        title = tr("The labels correct no rate")
        detail = tr("Readers contradict each other on the same turn, and no reader adjudicated it.")
        yield model.Block("warnings", (model.ReportWarning(title, detail),))


def _violations(run_dir: Path, given: Sequence[LabelledReply]) -> Iterator[model.AnyBlock]:
    """Yield a table per kind of violation, a row per sentence with marked words."""
    by_turn: defaultdict[tuple[str | None, int | None], list[LabelledReply]] = defaultdict(list)
    for label in given:
        by_turn[label.dialog_id, label.turn].append(label)
    kinds = [
        (Ranking(title, MAX_QUOTED), field)
        for title, field in (
            (tr("Severe violations"), _COMPLIANCE),
            (tr("Minor violations"), _COMPLIANCE),
            (tr("Contradictions of a client's constraint"), _CONTRADICTION),
            (tr("Violations that only readers found"), _COMPLIANCE),
            (tr("Contradictions that only readers found"), _CONTRADICTION),
        )
    ]
    for row in reader.scan(run_dir / reader.ROWS, TurnEvalRow):
        read = by_turn.get((row.dialog_id, row.turn_pair_id), ())
        read = [each for each in read if each.reader == ADJUDICATED] or read
        found_label, broken = row.pred_compliance_label, bool(row.constraint_contradiction)
        violates = found_label not in (None, "compliant")
        is_of_kind = (
            found_label == "severe_violation",
            found_label == "minor_violation",
            broken,
            not violates and any(each.compliance not in (None, "compliant") for each in read),
            not broken and any(each.contradiction for each in read),
        )
        for (ranking, _), found in zip(kinds, is_of_kind, strict=True):
            if found and not is_failed(row):
                ranking.offer(0, 0, "", row)
    wanted: dict[str, set[int]] = {}
    for row in (row for ranking, _ in kinds for _, _, row in ranking.entries):
        wanted.setdefault(row.dialog_id, set()).add(row.turn_pair_id)
    texts, reasons = reader.fetch_turns(run_dir, wanted), reader.fetch_reasons(run_dir, wanted)

    def cells(field: str, row: TurnEvalRow) -> Iterator[tuple[model.Value, ...]]:
        turn = row.dialog_id, row.turn_pair_id
        reply = (texts[turn].pred_assistant_text if turn in texts else None) or ""
        votes = [tr("Judge: {mark}", mark=one_line(each.reason, 300)) for each in reasons.get(turn, ())[:1]]
        read = by_turn.get(turn, ())
        labelled = tr(", ").join(filter(None, (_answer(field, label) for label in read)))
        for quote, found in _quotes(field, row, read, reply):
            yield (
                common.place(*turn),
                model.Cell("", quote=quote),
                model.Cell(found, small="".join(votes)),
                labelled or tr("not checked by people"),
            )

    headings = (tr("Dialogue"), tr("Words in their sentence"), tr("Finding"), tr("Readers"))
    for ranking, field in kinds:
        total, shown = ranking.total, len(ranking.entries)
        title = f"{ranking.title}: {tr_counted(total, marked('1 turn'), marked('{count:,} turns'))}"
        left = tr(
            "{shown:,} of {total:,} turns are shown; the other {rest:,} are in turn_eval.jsonl "
            "and in memfin view.",
            shown=shown,
            total=total,
            rest=total - shown,
        )
        rows = [each for _, _, row in ranking.entries for each in cells(field, row)]
        if rows:
            yield model.table(title, headings, "llll", rows, left if total > shown else "")
        else:
            yield model.Block("text", note=title)


def _quotes(field: str, row: TurnEvalRow, given: Sequence[LabelledReply], reply: str) -> Iterator[Quote]:
    """Yield the sentences with words of findings or marked by readers, and what was found there.

    Without any it is the beginning of the reply.
    """
    bounds = sentence_bounds(reply)
    by_sentence: defaultdict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    names: defaultdict[tuple[int, int], dict[str, None]] = defaultdict(dict)
    for start, last, words in (*_found(field, row), *_marked(field, given)):
        if 0 <= start < last <= len(reply):
            low = max((begin for begin, _ in bounds if begin <= start), default=0)
            high = min((end for _, end in bounds if end >= last), default=len(reply))
            by_sentence[low, high].append((start - low, last - low))
            names[low, high][words] = None
    for (low, high), found_spans in sorted(by_sentence.items()):
        spans = sorted(found_spans)
        # A long sentence is cut in front of its first words.
        skip = max(0, spans[0][0] - _MAX_SENTENCE // 2) if high - low > _MAX_SENTENCE else 0
        cut = [(start - skip, end - skip) for start, end in spans]
        quote = model.segments(reply[low + skip : high].rstrip(), cut, _MAX_SENTENCE)
        yield ((model.Segment("…"),) if skip else ()) + quote, "; ".join(names[low, high])
    if not by_sentence:
        found = label_words(row) if field == _COMPLIANCE else tr(", ").join(row.contradicted_constraints)
        words = tr("{found}; no words are marked", found=found or "-")
        yield model.segments(reply, (), _MAX_SENTENCE // 2), words


def _found(field: str, row: TurnEvalRow) -> Iterator[Span]:
    for each in row.findings:
        if each.field == field:
            words = tr("{value} (rule {rule})", value=word(each.value), rule=one_line(each.rule, 80))
            yield each.start, each.end, words


def _marked(field: str, given: Sequence[LabelledReply]) -> Iterator[Span]:
    """Yield the words that readers marked as a violation."""
    for label in given:
        for mark in label.marks or ():
            if field == _CONTRADICTION:
                violates = bool(mark.label == "contradiction" and label.contradiction)
                value = tr("a contradiction")
            else:
                violates = mark.label in (label.forbidden_hits or ())
                value = word(mark.label)
            if violates and mark.kind is None:
                words = tr("{value} (marked by {reader})", value=value, reader=_name(label.reader))
                yield mark.start, mark.end, words


def _answer(field: str, label: LabelledReply) -> str:
    value = label.compliance and word(label.compliance)
    if field == _CONTRADICTION:
        known = {0: tr("no contradiction"), 1: tr("a contradiction"), None: None}
        value = known[label.contradiction]
    return tr("{reader}: {value}", reader=_name(label.reader), value=value) if value else ""


def _name(reader_name: str | None) -> str:
    return tr("adjudicated") if reader_name == ADJUDICATED else one_line(reader_name or tr("(not named)"), 60)


def _not_measured(
    summary: reader.SummaryFile, stats: RunStats | None, readings: Readings
) -> model.Section | None:
    """Return everything that no figure covers."""
    counters, rows = summary.counters, list(glossary.metric_rows(summary.metrics))
    compliance = summary.metrics.get("m4_compliance")
    lines = [(tr("Metrics"), line) for line in glossary.missing_lines(rows)]
    counts = (
        (tr("Skipped dialogues"), counters.skipped_dialogs),
        (tr("Failed dialogues"), counters.failed_dialogs),
        (tr("Turn pairs not scored"), counters.unscored_turn_pairs),
        (tr("Failed turns"), compliance.counts.get("failed_count") if compliance else None),
        (tr("Turns on which the judge failed"), stats.judge_failures if stats else 0),
    )
    lines += ((name, model.grouped(count)) for name, count in counts if isinstance(count, int) and count)
    turns = {(each.dialog_id, each.turn): each.probability == 0 for each in readings.labels}
    checked = tr("not checked by people")
    if turns:
        checked = tr("{count:,} of {total:,} turns", count=len(turns), total=counters.total_turn_pairs)
    if picked := sum(turns.values()):
        checked += tr("; {count:,} of them picked by hand and in no corrected rate", count=picked)
    lines.append((tr("Checked by people"), checked))
    limits = tr("Other dialogues, other versions of the agent, and what detectors and readers both miss.")
    lines.append((tr("Outside of every test"), limits))
    return model.section("not-measured", tr("What was not measured"), model.Block("notes", tuple(lines)))


def _hashes(run_dir: Path, config: ConfigFile | None, version: str) -> model.Section | None:
    given = config.fingerprint_inputs if config else {}
    agent = (config.get("agent_file_sha256") if config else None) or tr("not recorded: no local source file")
    rows = [(tr("Dataset"), given.get("dataset_sha256")), (tr("Agent's source file"), agent)]
    names = (reader.TRACES, reader.ROWS, reader.JUDGEMENTS, reader.SUMMARY, reader.CONFIG)
    rows += ((name, reader.sha256_of(run_dir / name)) for name in names if (run_dir / name).is_file())
    for kind, title in (("lexicon_hashes", tr("Detectors")), ("prompt_hashes", tr("Judge's prompts"))):
        rows += ((f"{title}: {name}", value) for name, value in sorted((given.get(kind) or {}).items()))
    rows.append((tr("Settings (fingerprint)"), config and config.config_fingerprint))
    versions = tr(
        "The run was made by MemFin {run}, this page by MemFin {page}.",
        run=config.memfin_version if config else "-",
        page=version,
    )
    found = model.table(
        "", (tr("File or input"), "SHA-256"), "lc", ((name, value or "-") for name, value in rows), versions
    )
    return model.section("hashes", tr("Hashes"), found)


def _decision() -> Iterator[model.AnyBlock]:
    """Yield the lines to fill in by hand."""
    choices = (marked("approved"), marked("approved with conditions"), marked("rejected"))
    yield model.Block("text", note="    ".join(f"☐ {tr(choice)}" for choice in choices))
    names = (tr("Conditions and reasons"), tr("Name and role"), tr("Date"), tr("Signature"))
    yield model.Block("facts", tuple((name, "") for name in names))
