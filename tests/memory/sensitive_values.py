"""Identifiers made up with right and with wrong checksums, for tests of the sensitive-input gate.

Every maker takes `random.Random`, so that hypothesis and fixed seeds can drive it.
"""

import datetime as dt
import hashlib
from random import Random

from mnemonic import Mnemonic

ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
BECH32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
PLACES = ("110101", "310115", "440305", "330106", "510104", "420106", "610113", "810000", "320583", "230103")
WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)


def digits(random: Random, count: int) -> str:
    return "".join(random.choice("0123456789") for _ in range(count))


def resident(random: Random, *, right: bool = True) -> str:
    born = dt.date(1940, 1, 1) + dt.timedelta(days=random.randrange(25_000))
    body = random.choice(PLACES) + born.strftime("%Y%m%d") + digits(random, 3)
    check = "10X98765432"[sum(a * int(b) for a, b in zip(WEIGHTS, body, strict=True)) % 11]
    if not right:
        check = random.choice([each for each in "0123456789X" if each != check])
    return body + check


def mobile(random: Random) -> str:
    # A last digit that is not 0 keeps round amounts apart.
    return random.choice(("138", "139", "150", "158", "177", "186", "188", "199")) + digits(random, 7) + "7"


def luhn(body: str) -> str:
    total = 0
    for place, each in enumerate(reversed(body)):
        value = int(each) * (2 if place % 2 == 0 else 1)
        total += value - 9 if value > 9 else value
    return str(-total % 10)


def card(random: Random, *, right: bool = True) -> str:
    prefix, length = random.choice(
        (("62", 16), ("622202", 19), ("4", 16), ("53", 16), ("37", 15), ("3528", 16))
    )
    body = prefix + digits(random, length - len(prefix) - 1)
    check = luhn(body)
    return body + (check if right else str((int(check) + random.randrange(1, 10)) % 10))


def base58(data: bytes) -> str:
    number = int.from_bytes(data, "big")
    text = ""
    while number:
        number, left = divmod(number, 58)
        text = ALPHABET[left] + text
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + text


def base58check(payload: bytes, *, right: bool = True) -> str:
    check = hashlib.sha256(hashlib.sha256(payload).digest()).digest()[:4]
    return base58(payload + (check if right else bytes([check[0] ^ 1]) + check[1:]))


def bitcoin(random: Random, *, right: bool = True) -> str:
    return base58check(random.choice((b"\0", b"\5")) + random.randbytes(20), right=right)


def tron(random: Random, *, right: bool = True) -> str:
    return base58check(b"\x41" + random.randbytes(20), right=right)


def wif(random: Random, *, right: bool = True) -> str:
    return base58check(b"\x80" + random.randbytes(32) + random.choice((b"", b"\1")), right=right)


def _polymod(values: list[int]) -> int:
    check = 1
    for value in values:
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value
        for bit, generator in enumerate((0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)):
            check ^= generator if top >> bit & 1 else 0
    return check


def segwit(random: Random, *, right: bool = True) -> str:
    version = random.choice((0, 1))
    program = [random.randrange(32) for _ in range(31 if version == 0 else 51)]
    program += [random.choice((0, 16))]  # what is left over of the last byte is zero
    expanded = [3, 3, 0, 2, 3]
    constant = 1 if version == 0 else 0x2BC830A3
    left = _polymod([*expanded, version, *program, 0, 0, 0, 0, 0, 0]) ^ constant
    check = [left >> 5 * (5 - place) & 31 for place in range(6)]
    if not right:
        check[5] ^= 1
    return "bc1" + "".join(BECH32[each] for each in [version, *program, *check])


def ethereum(random: Random) -> str:
    return "0x" + "".join(random.choice("0123456789abcdefABCDEF") for _ in range(40))


def solana(random: Random) -> str:
    while True:
        text = base58(random.randbytes(32))
        if len(text) >= 43 and any(each.isdigit() for each in text):
            return text


def phrase(random: Random, language: str, size: int = 12, *, right: bool = True) -> list[str]:
    words = Mnemonic(language)
    while True:
        found = words.to_mnemonic(random.randbytes(size * 4 // 3)).split()
        if right:
            return found
        found[-1] = words.wordlist[random.randrange(2048)]
        if not words.check(" ".join(found)):
            return found


def hong_kong(random: Random, *, right: bool = True) -> str:
    letter, body = random.choice("ABCDEFGHKMPRSVYZ"), digits(random, 6)
    values = [36, ord(letter) - 55, *map(int, body)]
    left = -sum(weight * value for weight, value in zip(range(9, 1, -1), values, strict=True)) % 11
    if not right:
        left = (left + random.randrange(1, 11)) % 11
    return f"{letter}{body}({left:X})"


def email(random: Random) -> str:
    name = "".join(random.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(random.randrange(3, 9)))
    return (
        name
        + random.choice(("", "88", ".li", "_w", "-x"))
        + "@"
        + random.choice(("qq.com", "163.com", "gmail.com", "corp.example.cn"))
    )


def letters(random: Random, count: int) -> str:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    # One of each sort, as every real key has.
    return "Aq7" + "".join(random.choice(alphabet) for _ in range(count - 3))
