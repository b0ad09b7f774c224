"""Numbers in Chinese numerals, and what digits say in the same places."""

from typing import Final

DIGITS: Final = {"〇": 0, "两": 2, **{numeral: value for value, numeral in enumerate("零一二三四五六七八九")}}
_POWERS: Final = {"十": 10, "百": 100, "千": 1000}


def chinese_number(text: str) -> float | None:
    """Return the value of a number in digits or Chinese numerals (十五, 3,000, 二点五), or None."""
    if text[0].isdigit():
        digits = text.replace(",", "").rstrip("半点.")
        try:
            value = float(digits)
        except ValueError:
            return None
        return value + 0.5 if text.endswith("半") else value
    if text == "半":
        return 0.5
    whole, _, fraction = text.partition("点")
    total, current, seen = 0.0, 0, False
    for char in whole.removesuffix("半"):
        if char in DIGITS:
            if seen and current:
                return None
            current, seen = DIGITS[char], True
        elif char in _POWERS:
            total += (current if seen and current else 1) * _POWERS[char]
            current, seen = 0, False
        else:
            return None
    total += current
    if fraction:
        digits = "".join(str(DIGITS[char]) for char in fraction if char in DIGITS)
        total += float(f"0.{digits}") if digits else 0.0
    return total + 0.5 if whole.endswith("半") else total
