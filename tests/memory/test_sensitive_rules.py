from random import Random

from memfin.memory.sensitive import find_sensitive
from tests.memory import sensitive_values as values
from tests.support import each_case, length

ALL = Random(20261122)
SIZE = length(4_000, 16_000)
WRONG_WIF = values.wif(Random(3), right=False)


def rules(text: str) -> set[str]:
    return {each.rule for each in find_sensitive(text)}


@each_case(
    ("text", "rule"),
    [
        ("身份证110101900307123", "cn_resident_old"),
        ("身份证号110101199001011234", "cn_resident_labelled"),
        ("卡号6222021234567890123", "labelled_card"),
        ("私钥" + WRONG_WIF, "labelled_wif"),
        ("钱包1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb", "labelled_address"),
        ('{"kty": "EC", "d": "' + "Ab3" * 12 + '"}', "jwk"),
        ("PuTTY-User-Key-File-3: ssh-ed25519", "putty"),
        ("secret key S" + "ABCDEFG" * 7 + "ABCDEF", "labelled_stellar"),
        ("seed phrase: " + " ".join(values.phrase(Random(5), "english", right=False)), "labelled_words"),
        ("登录口令=Sommer2026", "password"),
        ("redis://user:pa55word@10.0.0.1/0", "url_password"),
        ("邮箱 张三@例子.中国", "chinese_domain"),
        ("(021) 5432-1098", "bracketed_area"),
        ("电话\r\n1391234\r\n5678", "cn_mobile"),
        ("行\u2028" + "13912345678", "cn_mobile"),
        ("١٣٩١٢٣٤٥٦٧٨", "cn_mobile"),
        ("SSN 536-90-4399", "us_social_security"),
        ("打我手机 l38OO138OOO", "cn_mobile"),
        ("身份证号 11O1O119900307123X", "cn_resident_labelled"),
        ("卡号4111 llll 1111 1l1l", "visa"),
        ("11010119900307002Х", "cn_resident"),
        ("zhаng@ехample.com", "address"),
        ("0х" + "52908400098527886E0F7030069857D2E4169EE7", "ethereum"),
    ],
    ids=lambda value: value if str(value).replace("_", "").isalnum() and str(value).isascii() else "text",
)
def test_a_rule_finds_its_form(text: str, rule: str) -> None:
    assert rule in rules(text)


@each_case(
    "text",
    [
        "11010119900230123",
        "客户110101199002301234",
        "[" + "300," * 63 + "1]",
        '{"kty": "EC", "d": "short"}',
        "meet at amazon.com",
        "see icon@2x.png",
        "git@gitlab.example.com:team/repo.git",
        "000000000000000000",
        "sk-abcdefghijklmnopqrstuvwxyz",
        "password: ********",
        "hash b" + "0" * 63,
        "no. bc1pppppppppppppppppppppppppppppp",
        "共13900000000",
        "SF13912345678",
        "1.5 13912345678股",
        "lOl lol OOo lll 1 2 3",
        "Фонд растёт, ТОО и ООО платят в 2026 году",
        "ΔP/P = 0.35, χ² = 11",
        "1l1l" + "O" * 400,
        "股息率 0.2458481292004392 以上",
        "a ratio of -0.5564543226524334",
    ],
    ids=range(21),
)
def test_what_only_looks_alike_is_left_alone(text: str) -> None:
    assert find_sensitive(text) == ()


def test_a_label_counts_within_its_sentence_only() -> None:
    number = "9123 4567"
    assert rules(f"电话：{number}")
    assert not rules(f"电话以后再说。{number}")
    assert not rules(f"电话以后再说，先看看后面这一长串和它没有关系的数字：{number}")


def test_spans_are_those_of_the_text_as_it_was_given() -> None:
    number = "１３９\u200b１２３４５６７８"
    text = f"请记下{number}谢谢"
    (found,) = find_sensitive(text)
    assert text[found.start : found.end] == number


@each_case("piece", ["1-", "1 ", "1\n", "-", "0x", "T ", "a@", "abandon ", "的 ", "key="])
def test_text_without_end_is_read_in_bounded_steps(piece: str) -> None:
    # A quadratic rule would take minutes and show as a test that hangs.
    find_sensitive(piece * (SIZE // len(piece)))
