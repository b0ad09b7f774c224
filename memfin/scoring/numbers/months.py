"""The months by their English names; those of the standard library change with the locale."""

from typing import Final

MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
