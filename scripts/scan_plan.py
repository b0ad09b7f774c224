"""Print the file of scan plans, worked out of the lexicons (see `memfin.scoring.lexicons.scan_plan`)."""

import sys

from memfin.scoring.content import LEXICONS
from memfin.scoring.lexicons.scan_plan import written
from memfin.scoring.offers.turns import TABLE, patterns


def main() -> None:
    """Print the plans."""
    sys.stdout.buffer.write(written(LEXICONS, {TABLE: patterns()}).encode())


if __name__ == "__main__":
    main()
