"""The version of this package, which artefacts and user agents name."""

from typing import Final

__version__: Final = "0.1.0"
