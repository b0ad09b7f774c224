"""What masks secrets, and the endpoint that knows them."""

import base64
import html
import json
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfin.client.endpoint import Endpoint
from memfin.client.errors import MAX_MESSAGE, RequestError
from memfin.errors import UsageError
from memfin.secrets import MASK, Scrubber, scrubber_of_environment
from tests.support import each_case

KEY = "sk-canary+Zx/9\"q='8f"


@each_case(
    "form",
    [
        KEY,
        KEY.upper(),
        KEY.lower(),
        quote(KEY),
        quote(KEY, safe=""),
        json.dumps(KEY),
        repr(KEY),
        base64.b64encode(KEY.encode()).decode(),
        base64.urlsafe_b64encode(KEY.encode()).decode(),
        f"Bearer {KEY}",
        f"before{KEY}after",
        KEY[::-1],
        " ".join(KEY),
        "\n".join(KEY),
        KEY.encode().hex(),
        KEY.encode().hex().upper(),
        quote(quote(KEY, safe=""), safe=""),
        "".join(f"%{byte:02X}" for byte in KEY.encode()),
        html.escape(KEY),
        html.escape(html.escape(KEY)),
        "".join(f"&#{ord(each)};" for each in KEY),
        "".join(f"&#x{ord(each):04X};" for each in KEY),
        "".join(f"\\x{ord(each):02x}" for each in KEY),
    ],
)
def test_every_form_is_masked(form: str) -> None:
    scrubbed = Scrubber([KEY]).scrub(f"it was {form}!")
    assert "canary" not in scrubbed.lower()
    assert scrubbed.startswith("it was ")
    assert scrubbed.endswith("!")
    assert MASK in scrubbed
    assert base64.b64encode(KEY.encode()).decode()[:12] not in scrubbed


@each_case("before", ["", "u", "u:", "Authorization: Bearer ", "理财 "])
@each_case("after", ["", "!", ":x", " and more"])
@each_case("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_base64_of_a_text_around_the_secret_is_masked(
    before: str, after: str, encode: Callable[[bytes], bytes]
) -> None:
    data = (before + KEY + after).encode()
    scrubbed = Scrubber([KEY]).scrub(f"sent {encode(data).decode()} then")
    assert scrubbed.startswith("sent ")
    assert scrubbed.endswith(" then")
    assert MASK in scrubbed
    assert len(scrubbed) < len("sent  then") + 4 * (len(data) - len(KEY)) / 3 + len(MASK) + 8


def test_words_that_only_look_like_an_encoded_secret_stay() -> None:
    text = "R&D &amp; 10%25 of s k-canary; 40% 60 \\x41 yranac 736b2d63"
    assert Scrubber([KEY]).scrub(text) == text


def escaped(text: str) -> str:
    return "".join(f"\\u{ord(each):04x}" for each in text)


@pytest.mark.parametrize(
    "form",
    [
        escaped(KEY),
        escaped(KEY).upper().replace("\\U", "\\u"),
        KEY[:4] + escaped(KEY[4]) + KEY[5:].replace('"', '\\"').replace("/", "\\/"),
        json.dumps(json.dumps(escaped(KEY)))[1:-1],
        escaped("sk-") + KEY[3:].replace('"', '\\\\\\"'),
    ],
)
def test_any_character_may_be_escaped_as_in_json(form: str) -> None:
    scrubbed = Scrubber([KEY]).scrub(f'{{"text": "{form} \\u0041"}}')
    assert scrubbed.replace('\\\\\\"', "").replace('\\"', "") == '{"text": "*** \\u0041"}'


def test_escapes_of_other_text_stay() -> None:
    text = '{"text": "\\u5e02\\u573a \\\\ \\" C:\\\\sk-canar"}'
    assert Scrubber([KEY]).scrub(text) == text
    assert not Scrubber([KEY]).finds(text)


def test_a_scrubber_without_secrets_is_false() -> None:
    assert Scrubber([KEY])
    assert not Scrubber(["", ""])
    assert scrubber_of_environment({"OPENAI_API_KEY": "EMPTY"})
    assert not scrubber_of_environment({"OPENAI_API_KEY": "EMPTY"}, shortest=8)
    dated = {"OPENAI_BASE_URL": "http://h/v1?api-version=2024-10-21"}
    assert not scrubber_of_environment(dated)


@pytest.mark.parametrize("form", ["pass%20word%2F1", "pass%20word/1", "pass+word%2F1", "pass word/1"])
def test_every_way_to_write_a_password_in_a_url_is_masked(form: str) -> None:
    assert Scrubber(["pass word/1"]).scrub(f"at {form}@host") == "at ***@host"


def test_short_secrets_are_masked_where_they_stand_alone() -> None:
    scrubber = Scrubber(["x", "abc"])
    assert scrubber.scrub("the key x, Bearer abc: exact, abcdef") == "the key ***, Bearer ***: exact, abcdef"


def test_a_longer_secret_is_masked_before_a_shorter_one_in_it() -> None:
    assert Scrubber(["secret-1", "secret-1-long"]).scrub("secret-1-long secret-1") == "*** ***"


def test_nothing_to_mask_leaves_text_alone() -> None:
    assert Scrubber().scrub("anything") == "anything"
    assert Scrubber(["", ""]).scrub("anything") == "anything"
    assert Scrubber([KEY]).scrub("没有秘密 at all") == "没有秘密 at all"


def test_a_text_without_secrets_vouches_for_its_parts_and_for_nothing_else() -> None:
    scrubber = Scrubber([KEY])
    clean = f"{KEY[:-1]} and more"
    assert scrubber.scrub(clean) == clean
    assert scrubber.scrub(clean) == clean
    assert scrubber.scrub(clean[3:9]) == clean[3:9]
    assert scrubber.scrub(f"{clean} {KEY}") == f"{clean} ***"
    assert scrubber.scrub(KEY) == "***"


def test_plain_data_is_masked_throughout() -> None:
    data = {"a": [f"<{KEY}>", 1, None], KEY: {"b": KEY}}
    assert Scrubber([KEY]).scrub_data(data) == {"a": ["<***>", 1, None], MASK: {"b": MASK}}


@given(st.text(min_size=6, max_size=40), st.text(max_size=60), st.text(max_size=60))
def test_no_secret_survives(secret: str, before: str, after: str) -> None:
    scrubbed = Scrubber([secret]).scrub(before + secret + after)
    assert secret not in scrubbed.replace(MASK, "\0") or secret in (before + "\0" + after).replace(
        secret, "\0"
    )


def test_a_message_is_cut_after_it_was_masked_and_stays_on_one_line() -> None:
    text = "a\nb\r\n\x1b[31mred\x07 \u2028 c" + "x" * 1000
    error = RequestError("status", text)
    assert str(error).isprintable()
    assert str(error).startswith("a b ⟨U+001B⟩[31mred⟨U+0007⟩ cx")
    assert len(str(error)) == MAX_MESSAGE


def test_representations_hold_no_value() -> None:
    environ = {"MEMFIN_JUDGE_API_KEY": KEY.replace('"', "")}
    endpoint = Endpoint(
        "https://user:pass-canary@host.example/v1?key=query-canary", "MEMFIN_JUDGE_API_KEY", environ=environ
    )
    for shown in (repr(endpoint), str(endpoint), endpoint.base_url, repr(endpoint.scrubber())):
        assert "canary" not in shown
    assert endpoint.base_url == "https://host.example/v1?key=***"
    assert repr(endpoint) == "Endpoint('https://host.example/v1?key=***', key_env='MEMFIN_JUDGE_API_KEY')"


def test_urls_are_joined_and_keep_their_query() -> None:
    assert str(Endpoint("http://h:1/v1").url("chat/completions")) == "http://h:1/v1/chat/completions"
    assert str(Endpoint("http://h:1/v1/").url("/chat/completions")) == "http://h:1/v1/chat/completions"
    assert str(Endpoint("http://h:1").url("chat/completions")) == "http://h:1/chat/completions"
    joined = Endpoint("https://h/openai?api-version=2&k=a%2Fb#part").url("chat/completions")
    assert str(joined) == "https://h/openai/chat/completions?api-version=2&k=a/b"


def test_the_environment_names_endpoint_and_key() -> None:
    environ = {
        "MEMFIN_JUDGE_BASE_URL": "http://judge/v1",
        "MEMFIN_JUDGE_API_KEY": "judge-key",
        "OPENAI_BASE_URL": "http://common/v1",
        "OPENAI_API_KEY": "common-key",
    }
    judge = Endpoint.from_environment("judge", environ)
    assert (judge.base_url, judge.url_env, judge.key_env) == (
        "http://judge/v1",
        "MEMFIN_JUDGE_BASE_URL",
        "MEMFIN_JUDGE_API_KEY",
    )
    agent = Endpoint.from_environment("agent", environ)
    assert (agent.base_url, agent.url_env, agent.key_env) == (
        "http://common/v1",
        "OPENAI_BASE_URL",
        "OPENAI_API_KEY",
    )
    assert agent.headers() == {"Authorization": "Bearer common-key"}
    local = Endpoint.from_environment("agent", {"OPENAI_BASE_URL": " http://127.0.0.1:8000/v1 "})
    assert (local.key_env, local.headers()) == (None, {})


def test_the_key_is_read_when_a_request_is_made() -> None:
    environ = {"OPENAI_BASE_URL": "http://h/v1", "OPENAI_API_KEY": "first-key"}
    endpoint = Endpoint.from_environment("agent", environ)
    assert endpoint.scrubber().scrub("first-key second-key") == "*** second-key"
    environ["OPENAI_API_KEY"] = "second-key\n"
    assert endpoint.headers() == {"Authorization": "Bearer second-key"}
    assert endpoint.scrubber().scrub("first-key second-key") == "first-key ***"


def test_credentials_in_the_url_take_the_place_of_the_key() -> None:
    endpoint = Endpoint("http://us%40er:p%3Ass@h/v1", "K", environ={"K": "some-key"})
    encoded = base64.b64encode(b"us@er:p:ss").decode()
    assert endpoint.headers() == {"Authorization": f"Basic {encoded}"}
    assert "us" not in str(endpoint.url("x"))
    for form in ("us@er", "p:ss", encoded, "us%40er:p%3Ass", "us@er:p:ss"):
        assert form not in endpoint.scrubber().scrub(f"it was ({form})")


@each_case(
    "url",
    [
        "",
        "host:8000/v1",
        "ftp://h/v1",
        "http://",
        "http://h:99999/v1",
        "http://h:canary/v1",
        "/v1",
        "http://[::1/",
    ],
)
def test_an_unusable_url_is_named_by_its_variable_only(url: str) -> None:
    environ = {"MEMFIN_AGENT_BASE_URL": url or "   ", "MEMFIN_AGENT_API_KEY": "k"}
    with pytest.raises(UsageError) as caught:
        Endpoint.from_environment("agent", environ)
    assert "MEMFIN_AGENT_BASE_URL" in str(caught.value)
    assert "canary" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_url_names_the_variables() -> None:
    with pytest.raises(UsageError, match="no judge endpoint: set MEMFIN_JUDGE_BASE_URL"):
        Endpoint.from_environment("judge", {})


@pytest.mark.parametrize("key", ["line\nbreak", "schlüssel", "tab\there"])
def test_a_key_that_no_header_can_carry_is_refused_without_its_value(key: str) -> None:
    with pytest.raises(UsageError) as caught:
        Endpoint.from_environment("agent", {"OPENAI_BASE_URL": "http://h/v1", "OPENAI_API_KEY": key})
    assert (
        str(caught.value)
        == "the key in OPENAI_API_KEY contains a character that is not allowed in an HTTP header"
    )


def test_all_keys_of_an_environment_are_masked() -> None:
    environ = {
        "MEMFIN_JUDGE_API_KEY": "judge-canary",
        "MEMFIN_AGENT_API_KEY": "agent-canary",
        "OPENAI_API_KEY": "common-canary",
        "MEMFIN_JUDGE_BASE_URL": "http://u:url-canary@h/v1?k=query-canary",
        "OPENAI_BASE_URL": "http://[no-url",
    }
    scrubber = scrubber_of_environment(environ)
    text = "judge-canary agent-canary common-canary url-canary query-canary"
    assert scrubber.scrub(text) == "*** *** *** *** ***"
