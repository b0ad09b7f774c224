"""Writer of inspect_ai logs of conversations for tests, with its mock model; a program, as it warns of much.

``python tests/exchange/inspect_conversation_factory.py DIRECTORY`` writes ``talk.eval``, ``talk.json`` and
``stopped.eval``.
"""

import importlib
import shutil
import sys
from pathlib import Path
from typing import Any


def main(directory: Path) -> None:
    inspect, data, models, solvers, tools = (
        importlib.import_module(f"inspect_ai{part}")
        for part in ("", ".dataset", ".model", ".solver", ".tool")
    )

    @tools.tool  # type: ignore[untyped-decorator, unused-ignore]
    def price() -> Any:
        async def execute(fund: str) -> str:
            """Return the price of a fund.

            Args:
                fund: Name of the fund.
            """
            if fund == "none":
                raise tools.ToolError("no such fund")
            return f"{fund} 12.5"

        return execute

    def answer(messages: Any, *_: Any) -> Any:
        text = messages[-1].text
        if text == "stop":
            raise RuntimeError("no answer")
        if messages[-1].role == "user" and text.startswith("price "):
            output = models.ModelOutput.for_tool_call("mockllm/model", "price", {"fund": text[6:]})
        else:
            output = models.ModelOutput.from_content("mockllm/model", f"Guaranteed profit: {text}")
        output.usage = models.ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output

    given = [
        models.ChatMessageUser(content="earlier"),
        models.ChatMessageAssistant(content="scripted"),
        models.ChatMessageUser(content="price none"),
    ]
    samples = [data.Sample(id="tool", input="price A", target="12.5"), data.Sample(id="given", input=given)]
    for name, form, asked, more in (
        ("talk", "eval", samples, {"epochs": 2}),
        ("talk", "json", samples, {"epochs": 2}),
        ("stopped", "eval", [*samples, data.Sample(id="stop", input="stop")], {"fail_on_error": True}),
    ):
        task = inspect.Task(
            dataset=data.MemoryDataset(asked),
            solver=[
                solvers.system_message("Be brief."),
                solvers.use_tools(price()),
                solvers.generate(),
                solvers.user_message("and then?"),
                solvers.generate(),
            ],
        )
        model = models.get_model("mockllm/model", custom_outputs=answer, memoize=False)
        (log,) = inspect.eval(
            task, model=model, log_dir=str(directory), log_format=form, display="none", max_samples=1, **more
        )
        shutil.move(log.location.removeprefix("file://"), directory / f"{name}.{form}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
