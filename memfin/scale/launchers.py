"""Launchers by the names of their engines."""

from memfin.contracts.settings import EngineSettings
from memfin.scale.engine import Launcher
from memfin.scale.processes import ProcessLauncher


def make_launcher(settings: EngineSettings) -> Launcher:
    """Return the launcher of an engine.

    Raises:
        UsageError: an option of it is unusable.
    """
    assert settings.engine == "processes"  # noqa: S101 - local runs need none
    return ProcessLauncher()
