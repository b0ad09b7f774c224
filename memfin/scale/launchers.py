"""Launchers by the names of their engines."""

from memfin.contracts.settings import EngineSettings
from memfin.errors import UsageError
from memfin.scale.engine import Launcher
from memfin.scale.processes import ProcessLauncher


def make_launcher(settings: EngineSettings) -> Launcher:
    """Return the launcher of an engine.

    Raises:
        UsageError: an option of it is unusable.
    """
    if settings.engine == "ray":
        from memfin.scale.ray import RayLauncher  # noqa: PLC0415 - of an extra

        return RayLauncher(settings)
    defaults = EngineSettings()
    for name in settings:
        if name.startswith("ray_") and settings[name] != defaults[name]:
            raise UsageError(f"--{name.replace('_', '-')}: only for --engine ray")
    return ProcessLauncher()
