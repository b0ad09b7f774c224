"""The settings of a benchmark run, and its ``config.json``."""

from memfin.contracts.rag import RagType
from memfin.contracts.run import ConfigFile, RunConfig


class BenchConfig(RunConfig):
    """The settings of a benchmark run: those of `RunConfig` as far as they apply, and these.

    ``dataset`` is the benchmark and ``agent`` the system under test. ``fail_under`` knows
    ``overall_percentage``, in percent. ``fail_on_regression`` is the directory of an earlier run.
    """

    judge: str = "none"
    document: str | None = None
    type: RagType | None = None
    fail_on_regression: str | None = None


class BenchConfigFile(ConfigFile):
    """``config.json`` of a benchmark run."""

    settings: BenchConfig
