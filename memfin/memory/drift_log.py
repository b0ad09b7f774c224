"""The service of feedback and of the drift log that it and refreshes lead to (memory design §5.5, §9)."""

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from memfin.contracts.memory import DriftRecord, Feedback, ProfileConsent, ThreadHeader, ThreadRefresh
from memfin.errors import RunFault
from memfin.memory import consent as rules
from memfin.memory import drift
from memfin.memory.errors import AccountDeleted, ConsentRequired, MemoryRefusal
from memfin.memory.paths import is_id, new_id
from memfin.memory.plans import Append, Checked, Put
from memfin.memory.records import load_sound
from memfin.memory.threads import ThreadFiles, later
from memfin.memory.workspace import Workspace

_LOG: Final = logging.getLogger("memfin.memory")
_DUE: Final = "_due"  # the empty file in a user's drift log that says that a scan is to come


class DriftLog:
    """Drift log, kept while consent is in force; interrupted signals are recorded at the next occasion."""

    def __init__(self, workspace: Workspace, thresholds: drift.Thresholds) -> None:
        self._workspace = workspace
        self._thresholds = thresholds
        self._threads = ThreadFiles(workspace)

    def record_feedback(
        self,
        user_id: str,
        related_object_ref: str,
        cognition_object: Mapping[str, Any],
        rating: str,
        comment: str | None = None,
    ) -> Feedback:
        """Put feedback into the review queue, and drift that it shows into the log (memory design §5.5).

        A person whose consent is revoked may give feedback, without a log; one who never consented may not.
        """
        workspace = self._workspace
        texts = {
            "related_object_ref": related_object_ref,
            "cognition_object": cognition_object,
            "rating": rating,
            "comment": comment,
        }
        with workspace.writing(user_id, texts):
            consent = rules.readable(workspace.consent_on_file(user_id))
            if not rules.may_create_task(consent):
                raise ConsentRequired(
                    "feedback needs the person's consent; ask for it first", ["create_task"]
                )
            directory = workspace.paths.feedback(user_id)
            history = list(load_sound(workspace.files, directory, Feedback))
            # No feedback is older than its consent, whatever the clock says.
            now = later(rules.not_before(consent, workspace.now()), history)
            received = Feedback(
                feedback_id=workspace.id_for("feedback", user_id, directory, now),
                related_object_ref=related_object_ref,
                cognition_object=dict(cognition_object),
                rating=rating,
                created_at=now,
                comment=comment,
            )
            path = workspace.paths.feedback_item(user_id, received.feedback_id)
            checked = workspace.check([Put(path, received)])
            if consent is not None and consent.revoked_at is None:
                known = [each for each in [*history, received] if each.created_at >= consent.granted_at]
                reversals = drift.grade_reversals(known, self._thresholds)
                conflicts = drift.feedback_conflicts(known, self._thresholds)
                checked += self._steps(user_id, [*reversals, *conflicts], now)
            workspace.do(user_id, checked)
            return received

    def drift_log(self, user_id: str) -> list[DriftRecord]:
        """Return the drift log of a user, oldest first; it is empty without consent in force."""
        return self._workspace.consistently(
            user_id, lambda consent: self._log_of(user_id) if consent is not None else []
        )

    def scan_drift(self) -> int:
        """Record the watch questions whose hour is over (§9.2), of readable people; return the number."""
        workspace = self._workspace
        found = 0
        with workspace.faults():
            users = workspace.files.names(workspace.paths.root / "persona_drift", "")
        for user_id in filter(is_id, users):
            if not workspace.files.exists(self._due(user_id)):
                continue
            try:
                with workspace.writing(user_id):
                    found += self._scan(user_id, workspace.now())
            except RunFault:  # damaged, or refused by the system
                _LOG.warning(
                    "persona drift: the threads of one person cannot be read, so they are not scanned"
                )
            except AccountDeleted:
                continue
        return found

    def refresh_steps(
        self, consent: ProfileConsent, header: ThreadHeader, refreshes: Iterable[ThreadRefresh], now: datetime
    ) -> Checked:
        """Return the checked steps that record the drift of a refresh of now; call under the user's lock."""
        known = [each for each in refreshes if each.created_at >= consent.granted_at]
        reopened, due = drift.reopened_questions(header, known, now, self._thresholds)
        if due is not None:
            self._workspace.files.save(self._due(consent.user_id), b"")
        flips = drift.stance_flips(header, known, self._thresholds)
        return self._steps(consent.user_id, [*flips, *reopened], now)

    def _scan(self, user_id: str, now: datetime) -> int:
        consent = self._workspace.consent_on_file(user_id).in_force
        if consent is None:
            return 0
        signals: list[DriftRecord] = []
        waiting = False
        for header in self._threads.headers(user_id):
            refreshes = self._threads.refreshes(user_id, header.thread_id)
            known = [each for each in refreshes if each.created_at >= consent.granted_at]
            found, due = drift.reopened_questions(header, known, now, self._thresholds)
            signals += found
            waiting = waiting or due is not None
        checked = self._steps(user_id, signals, now)
        self._workspace.do(user_id, checked)
        if not waiting:
            self._workspace.files.remove(self._due(user_id))
        return sum(isinstance(step, Put) for step, _ in checked)

    def _steps(self, user_id: str, signals: Iterable[DriftRecord], now: datetime) -> Checked:
        """Return the steps that bring signals into the log, and its index up to date with it."""
        workspace, paths = self._workspace, self._workspace.paths
        log = self._log_of(user_id)
        taken = {record.drift_id for record in log}
        new: list[DriftRecord] = []
        checked: Checked = []
        for signal in drift.unrecorded(signals, log):
            drift_id = new_id("drift", user_id, now, taken.__contains__)
            alerts = signal.signal_kind in self._thresholds.downstream.alerting
            record = signal.replace(drift_id=drift_id, triggers_alert=alerts)
            # Text from before the gate became stricter stays where it is and is not copied.
            with suppress(MemoryRefusal):
                checked += workspace.check([Put(paths.drift_record(user_id, drift_id), record)])
                taken.add(drift_id)
                new.append(record)
        lines = self._lines_of(user_id)
        indexed = {line.drift_id for line in lines}
        added = [drift.index_line(each) for each in [*log, *new] if each.drift_id not in indexed]
        checked += workspace.check(Append(paths.drift_index(user_id), line) for line in added)
        for warning in drift.warnings_of(lines, added, now, self._thresholds):
            _LOG.warning("persona drift: %s", warning)
        return checked

    def _log_of(self, user_id: str) -> list[DriftRecord]:
        with self._workspace.faults():
            return list(load_sound(self._workspace.files, self._workspace.paths.drift(user_id), DriftRecord))

    def _lines_of(self, user_id: str) -> list[drift.DriftIndexLine]:
        """Return the readable lines of the index; the log's records are the authority."""
        lines: list[drift.DriftIndexLine] = []
        data = self._workspace.files.load(self._workspace.paths.drift_index(user_id)) or b""
        for line in data.splitlines():
            with suppress(msgspec.DecodeError):
                lines.append(msgspec.json.decode(line, type=drift.DriftIndexLine))
        return lines

    def _due(self, user_id: str) -> Path:
        return self._workspace.paths.drift(user_id) / _DUE
