"""The plain form of YAML means to the layer what it means to the YAML library."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from memfin.contracts.memory import ConsentScopes, DeletionStub, ProfileConsent
from memfin.memory.plain_yaml import plain_of
from memfin.memory.records import decode, encode
from tests.memory.memory_world import EVERYTHING, START
from tests.support import each_case

CONSENT = ProfileConsent(
    consent_id="consent_1",
    user_id="u1",
    version=1,
    scopes=EVERYTHING,
    granted_at=START,
    updated_at=START,
    profile_context_id="ctx_1",
)
NAMES = ("version", "scopes", "yes", "on", "null", "y", "_", "nullable", "Yes", "a b", "1", "", "<<")
VALUES = (
    *(
        "",
        " ",
        " true",
        " True",
        " false",
        " no",
        " off",
        " null",
        " ~",
        " Null",
        " y",
        " nothing",
        " truest",
    ),
    *(" 1", " 12", " 012", " 1_0", " 1e3", " 1.5", " -1", " 0x1f", " 1:30", " 999999999", " 9999999999"),
    *(" 'a'", " ''", " 'it''s'", ' "a"', " 'a' ", " 'a' # b", " a # b", " a b", " a-b_c", " a:b", " '#: -'"),
    *(" 2026-11-22", " '2026-11-22T09:30:00Z'", " [a]", " {a: 1}", " &a b", " *a", " !!str 1", " |", " é"),
)
LINES = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(("", "", "", "  ", "  ", " ", "    ", "- ", "  - ")),
        st.sampled_from(NAMES),
        st.sampled_from((":", ":", ":", " :", "")),
        st.sampled_from(VALUES),
        st.sampled_from(("\n", "\n", "\n", "\r\n", "\n\n", "\n...\n", "\n---\n", "")),
    ),
)


def agree(data: bytes) -> bool:
    """Check that bytes mean the same to both if they are of the plain form, and say whether they are."""
    plain = plain_of(data)
    if plain is None:
        return False
    assert exact(plain) == exact(yaml.load(data, yaml.CSafeLoader)), data
    return True


def test_every_name_with_every_value_is_what_the_library_reads() -> None:
    lines = [f"{name}:{value}\n" for name in NAMES for value in VALUES]
    read = sum(agree(line.encode()) + agree(f"scopes:\n  {line}".encode()) for line in lines)
    assert read > 100


@given(st.lists(LINES, max_size=6))
@example(["version: a\n", "  scopes: 1\n"])
@example(["version: null\n", "  scopes: 1\n"])
@example(["version:\n", "  scopes: 1\n", "version: 1\n", "  scopes: 2\n"])
@example(["version:\n", "scopes:\n", "  version: 1\n", "  version: true\n"])
def test_what_is_read_by_lines_is_what_the_library_reads(lines: list[str]) -> None:
    agree("".join(lines).encode())


def exact(value: Any) -> Any:
    """Return a value that equals another one only if their types are the same, too."""
    if isinstance(value, dict):
        return {name: exact(each) for name, each in value.items()}
    return type(value), value


IDS = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True)


@given(
    user_id=IDS, context_id=IDS, version=st.integers(1, 10**12), revoked=st.booleans(), allowed=st.booleans()
)
@example(user_id="yes", context_id="null", version=1, revoked=True, allowed=True)
@example(user_id="0123", context_id="1e5", version=1, revoked=True, allowed=False)
def test_consents_are_read_as_they_were_written_whatever_ids_look_like(
    user_id: str, context_id: str, version: int, *, revoked: bool, allowed: bool
) -> None:
    consent = CONSENT.replace(
        user_id=user_id,
        profile_context_id=context_id if allowed else None,
        version=version,
        scopes=ConsentScopes(
            create_task=True, save_to_profile=allowed, save_to_thread=not allowed, training_use_allowed=False
        ),
        revoked_at=START + timedelta(microseconds=version % 1000) if revoked else None,
    )
    path = Path("x.yaml")
    data = encode(consent, path, lambda value, field: None)
    assert decode(data, path, ProfileConsent) == consent


@pytest.mark.parametrize(
    "record",
    [
        CONSENT,
        CONSENT.replace(revoked_at=START, profile_context_id=None),
        DeletionStub(deleted_at=START, consent_version_at_deletion=3),
    ],
    ids=["in-force", "revoked", "stub"],
)
def test_what_the_layer_writes_is_of_the_plain_form(record: Any) -> None:
    data = encode(record, Path("x.yaml"), lambda value, field: None)
    assert plain_of(data) == yaml.safe_load(data) == msgspec.to_builtins(record)


@each_case(
    "data",
    [
        b"",
        b"\n",
        b"# words\nversion: 1\n",
        b"version: 1",
        b"  version: 1\n",
        b"version: 1\r\n",
        b"- version\n",
    ],
    ids=["empty", "blank", "comment", "no-end", "indented", "carriage-return", "list"],
)
def test_other_forms_are_left_to_the_library(data: bytes) -> None:
    assert plain_of(data) is None
