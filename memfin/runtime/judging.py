"""The judge of a run, made from its settings: one gate over all workers, one cache."""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

from memfin.contracts import NO_JUDGE, JudgeRequest, RunConfig
from memfin.dataset import SpooledDataset, align_turn_pairs, read_entries
from memfin.judges import DialogJudge, Judge, JudgeSetup, resolve_judge
from memfin.judges.controls import Control, controls
from memfin.judges.protocol import JudgeTask, R, RecordingJudge, V
from memfin.judges.registry import OPENAI, JudgeLike, resolve_judge_of
from memfin.runtime.rates import rate_of, start_limiter
from memfin.scoring.verdicts import reference_request

LOOKED_AT: Final = 1000
"""Dialogues among which turns for the controls are looked for."""

AnyJudge = Judge[Any, Any]

CACHE: Final = ".judge_cache"
"""Name of the cache's directory beside the runs; no run can have it, as it begins with a dot."""


def make_judge(judge: JudgeLike, config: RunConfig, warn: Callable[[str], None]) -> DialogJudge | None:
    """Return the judge of dialogues that a reference or a factory stands for, under the settings' limits.

    Raises:
        UsageError: the judge is unusable, or its endpoint is not named in the environment.
    """
    return resolve_judge(judge, config.turn_timeout, _setup(judge, config, warn))


def make_judge_of(
    task: JudgeTask[R, V], judge: JudgeLike, config: RunConfig, warn: Callable[[str], None]
) -> Judge[R, V] | None:
    """Return the judge of a task as `make_judge` does that of dialogues; raises the same."""
    return resolve_judge_of(task, judge, config.turn_timeout, _setup(judge, config, warn))


def _setup(judge: JudgeLike, config: RunConfig, warn: Callable[[str], None]) -> JudgeSetup:
    setup = JudgeSetup(
        warn=warn,
        scope=config.judge_scope,
        probes=config.grade_probes,
        votes=config.judge_votes,
        retries=config.turn_retries,
        seed=config.seed,
        max_tokens=config.judge_max_tokens,
        cache=config.judge_cache,
        # An agent may change the working directory under the run.
        cache_dir=Path(config.judge_cache_dir or Path(config.runs_dir) / CACHE).absolute(),
    )
    if not isinstance(judge, str) or not judge.startswith(OPENAI):
        return setup._replace(starts=start_limiter("judge", config, warn))
    from memfin.client.limiter import CallLimiter  # noqa: PLC0415 - the client for HTTP loads slowly

    gate = CallLimiter(
        workers=config.workers_judge,
        rate=rate_of("judge", config, warn, tokens=True),
        max_down=config.judge_patience,
        on_warning=warn,
        name="the judge's endpoint",
    )
    return setup._replace(gate=gate)


def judge_controls(
    judge: DialogJudge | None, dataset: Path | SpooledDataset, config: RunConfig
) -> list[Control]:
    """Return the controls of a run that a model judges; other runs have none.

    They are made of the dataset alone, so that they are the same whatever the agent answers and
    however often the run is interrupted.

    Raises:
        OSError: the dataset cannot be read.
    """
    return controls(_references(dataset, config)) if isinstance(judge, RecordingJudge) else []


def _references(dataset: Path | SpooledDataset, config: RunConfig) -> Iterator[JudgeRequest]:
    with dataset.open("rb") as file:
        for entry in islice(read_entries(file, config.limit), LOOKED_AT):
            if entry.dialog is not None:
                for pair in align_turn_pairs(entry.dialog):
                    yield reference_request(entry.dialog, pair, config.judge_scope)


def judge_name(judge: AnyJudge | None) -> str:
    """Return how the artifacts call the judge."""
    return judge.name if judge is not None else NO_JUDGE


def judge_inputs(judge: AnyJudge | None, **settings: object) -> dict[str, Any]:
    """Return what the fingerprint holds of the judge; where its server stands is no part of it.

    ``settings`` are what the verdicts depend on besides, such as the scope.
    """
    inputs: dict[str, Any] = {
        "reference": judge_name(judge),
        "version": judge.version if judge is not None else None,
        **settings,
    }
    hashes: dict[str, str] = {}
    if isinstance(judge, RecordingJudge):
        inputs |= judge.settings
        hashes = inputs.pop("prompt_hashes")
    return {"judge": inputs, "prompt_hashes": hashes}


def judge_endpoint(judge: AnyJudge | None) -> dict[str, str | None] | None:
    """Return the names of the environment variables that a model's endpoint comes from."""
    return dict(judge.endpoint_names) if isinstance(judge, RecordingJudge) else None
