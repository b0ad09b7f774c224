"""Writer of inspect_ai logs for tests, with its mock model; a program, since inspect_ai warns of much itself.

``python tests/report/inspect_log_factory.py DIRECTORY`` writes ``NAME.eval`` for every name of `LOGS`.
"""

import importlib
import math
import shutil
import sys
from pathlib import Path
from typing import Any, Final

LOGS: Final[dict[str, dict[str, Any]]] = {
    "right": {},
    "worse": {"wrong": range(1, 13)},
    "worse_json": {"wrong": range(1, 13), "log_format": "json"},
    "right_twice": {"wrong": [1], "epochs": 2},
    "worse_twice": {"wrong": range(1, 13), "epochs": 2},
    "broken": {"broken": range(1, 11)},
    "stopped": {"broken": [3], "fail_on_error": True},
    "cities": {
        "ids": range(11, 31),
        "question": "City of {}?",
        "name": "cities",
        "temperature": 0.5,
        "message_limit": 1,
    },
    "elsewhere": {"ids": range(100, 110)},
    "colours": {"question": "Colour {}?", "target": "Red"},
}
"""Logs by name: sample ids with a wrong answer, with an error, and settings of the task and of ``eval``."""


def write_log(name: str, directory: Path) -> None:
    """Evaluate a task whose mock model answers by the number of the sample, and keep the log."""
    inspect, data, models, scorers, solvers = (
        importlib.import_module(f"inspect_ai{part}")
        for part in ("", ".dataset", ".model", ".scorer", ".solver")
    )
    settings = dict(LOGS[name])
    wrong, broken = settings.pop("wrong", ()), settings.pop("broken", ())
    question, target = settings.pop("question", "Capital of land {}?"), settings.pop("target", "Paris")
    task_name = settings.pop("name", "geography")

    def answer(messages: Any, *_: Any) -> Any:
        number = int("".join(filter(str.isdigit, messages[-1].text)))
        if number in broken:
            raise RuntimeError("no answer")
        output = models.ModelOutput.from_content("mockllm/model", "London" if number in wrong else target)
        output.usage = models.ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output

    @scorers.scorer(metrics={"*": [scorers.mean()]})  # type: ignore[untyped-decorator, unused-ignore]
    def graded() -> Any:
        async def score(state: Any, _: Any) -> Any:
            text = state.output.completion
            return scorers.Score(value={"length": len(text), "first": text[:1] == "P", "word": "blue"})

        return score

    @scorers.scorer(metrics=[])  # type: ignore[untyped-decorator, unused-ignore]
    def listed() -> Any:
        async def score(*_: Any) -> Any:
            return scorers.Score(value=[1, 0])

        return score

    @scorers.scorer(metrics=[scorers.mean()])  # type: ignore[untyped-decorator, unused-ignore]
    def unscored() -> Any:
        async def score(*_: Any) -> Any:
            return scorers.Score(value=math.nan)

        return score

    ids = settings.pop("ids", range(1, 21))
    samples = [data.Sample(id=number, input=question.format(number), target=target) for number in ids]
    task = inspect.Task(
        dataset=data.MemoryDataset(samples, name=task_name),
        solver=solvers.generate(),
        scorer=[scorers.match(), graded(), listed(), unscored()],
        name=task_name,
    )
    model = models.get_model("mockllm/model", custom_outputs=answer, memoize=False)
    settings = {"fail_on_error": False, "log_format": "eval", **settings}
    (log,) = inspect.eval(task, model=model, log_dir=str(directory / "logs"), display="none", **settings)
    shutil.move(log.location.removeprefix("file://"), directory / f"{name}.{settings['log_format']}")


if __name__ == "__main__":
    for each in LOGS:
        write_log(each, Path(sys.argv[1]))
