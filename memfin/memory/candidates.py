"""Training candidates: metadata of what may be asked for, and its withdrawal (memory design §3.4)."""

from datetime import datetime

from memfin.contracts.memory import ProfileConsent, TrainingAssetCandidate


def candidate(
    candidate_id: str, source_object_ref: str, consent: ProfileConsent, now: datetime
) -> TrainingAssetCandidate:
    """Return a candidate; it is pending, and nothing trains on it."""
    return TrainingAssetCandidate(
        candidate_id=candidate_id,
        source_object_ref=source_object_ref,
        consent_id=consent.consent_id,
        consent_version=consent.version,
        created_at=now,
    )


def withdrawn(found: TrainingAssetCandidate, now: datetime) -> TrainingAssetCandidate:
    """Return a candidate whose person took the consent back; once withdrawn, it stays so."""
    return found.replace(withdrawal_status="revoked", withdrawn_at=now)
