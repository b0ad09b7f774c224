"""Forms of shares, counts and sums of money, as patterns to build larger patterns of.

They have no groups and are matched without regard to case. The values of what they match are read by
`memfin.text.quantities.find`.
"""

from typing import Final

from memfin.text.numbers import BELOW_HUNDRED

_DIGITS: Final = r"\d[\d,]{0,17}(?:\.\d{1,9})?"
_NUMBER: Final = rf"(?:{_DIGITS}|[零一二两三四五六七八九十百千]{{1,9}}(?:点[零一二三四五六七八九]{{1,4}})?)"
_TO: Final = r"\s?(?:[-~～–—到至]|to)\s?"
_CURRENCY: Final = "(?:元|块钱?|人民币)"
_ENGLISH_CURRENCY: Final = r"(?:dollars|usd|euros?|pounds|yuan|rmb|cny)\b"

SHARE: Final = (
    rf"(?:(?:{_NUMBER}\s?%?{_TO})?{_NUMBER}\s?(?:%|per ?cent\b)|百分之{_NUMBER}"
    rf"|[一二两三四五六七八九]成半?|(?:{BELOW_HUNDRED}|half an?|an?)\sper ?cent\b)"
)
SHARE_SIGNS: Final = ("%", "percent", "per cent", "百分之", "成")
"""Every text that `SHARE` matches has one of these in its lower case."""
COUNT: Final = rf"(?:{_NUMBER}|半|\b(?:{BELOW_HUNDRED}|half an?|a couple of|a few|few|several|an?)\b)"
MONEY: Final = (
    rf"(?:[$€£]\s?{_DIGITS}(?:\s?(?:k|m|thousand|million)\b)?|\d{{1,9}}k\b"
    rf"|{_DIGITS}\s?(?:k|thousand|million)?\s?{_ENGLISH_CURRENCY}|{_DIGITS}\s?千{_CURRENCY}?"
    rf"|{_NUMBER}\s?(?:[万亿](?:[一二两三四五六七八九\d]千)?{_CURRENCY}?|{_CURRENCY}))"
)
