"""Solvers and agents of inspect_ai as agents under test.

``memfin run --agent my_eval:my_solver`` evaluates what ``@solver`` or ``@agent`` decorates, with the model
that ``INSPECT_EVAL_MODEL`` names. Every turn is a sample of an evaluation by inspect_ai itself, since many
of its agents, `react` among them, run nowhere else.
"""

import importlib
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import anyio
import msgspec

from memfin.agents.adapters.transport import translated_errors
from memfin.agents.history import as_text
from memfin.agents.protocol import AgentReply, Observer, Session
from memfin.contracts import ModelUsage, RecallTrace, ShortTermTurn
from memfin.sandbox.calls import CallFailed, is_async
from memfin.sandbox.references import describe
from memfin.secrets import scrubber_of_environment

try:
    _inspect, _data, _log, _models, _solvers, _util = (
        importlib.import_module(f"inspect_ai{name}")
        for name in ("", ".dataset", ".log", ".model", ".solver", ".util")
    )
except ModuleNotFoundError as problem:
    raise ModuleNotFoundError(
        f"{problem}; the inspect_ai adapter needs the extra: pip install 'memfin[inspect]'"
    ) from problem

EXCERPT: Final = 500
"""Characters of a tool's result that are kept."""

_GATHER: Final = 0.02
"""Seconds in which turns that are about to be asked can join an evaluation."""

_lock: Final = anyio.Lock()  # the library evaluates once at a time in a process


@_solvers.solver  # type: ignore[untyped-decorator, unused-ignore]
def _restored_store() -> Any:
    """Return a solver that fills the store with what the dialogue's last turn left in it."""

    async def solve(state: Any, generate: Any) -> Any:
        del generate
        for key, value in state.metadata.items():
            state.store.set(key, value)
        return state

    return solve


@dataclass(slots=True, eq=False)
class _Turn:
    """A turn that waits for an evaluation, or its sample in the log of one."""

    messages: list[Any]
    store: Mapping[str, Any]
    sample: Any = None


class Evaluations:
    """Evaluations of a solver, one after another; each takes all turns that wait for one."""

    def __init__(self, solver: Any) -> None:
        self._solver = solver
        self._waiting: list[_Turn] = []

    async def sample_of(self, messages: list[Any], store: Mapping[str, Any]) -> Any:
        """Return the sample of a turn once it is evaluated.

        A turn whose evaluation was cancelled with another turn of it is evaluated again.
        """
        turn = _Turn(messages, store)
        self._waiting.append(turn)
        try:
            async with _lock:
                if turn.sample is None:
                    await anyio.sleep(_GATHER)
                    await self._evaluate([each for each in self._waiting if each.sample is None])
        finally:
            self._waiting.remove(turn)
        return turn.sample

    async def _evaluate(self, turns: list[_Turn]) -> None:
        samples = [
            _data.Sample(id=str(place), input=turn.messages, metadata=dict(turn.store))
            for place, turn in enumerate(turns)
        ]
        task = _inspect.Task(
            dataset=_data.MemoryDataset(samples), setup=_restored_store(), solver=self._solver, name="memfin"
        )
        with tempfile.TemporaryDirectory(prefix="memfin-") as folder:
            (log,) = await _inspect.eval_async(
                task,
                log_dir=folder,
                log_format="eval",
                log_realtime=False,
                fail_on_error=False,
                max_samples=len(turns),
                score=False,
            )
            for sample in log.samples or ():
                turns[int(sample.id)].sample = _log.resolve_sample_attachments(sample, "full")
        if any(turn.sample is None for turn in turns):
            raise CallFailed(log.error.message if log.error else f"evaluation ended as {log.status}")


class SolverAgent:
    """One dialogue with a solver: it gets the history at every turn, and keeps its store."""

    def __init__(self, evaluations: Evaluations, observer: Observer) -> None:
        self._evaluations = evaluations
        self._observer = observer
        self._history: list[Any] = []
        self._pending: Any = None
        self._store: Mapping[str, Any] = {}

    async def reply(self, user_text: str) -> AgentReply:
        """Run the solver and observe its models and tools, with the environment's keys masked.

        Raises:
            CallFailed: the solver failed.
        """
        self._pending = _models.ChatMessageUser(content=user_text)
        messages = [each.model_copy() for each in (*self._history, self._pending)]
        with translated_errors():
            sample = await self._evaluations.sample_of(messages, self._store)
        scrubber = scrubber_of_environment()
        usage = self._observe(user_text, sample.events)
        if sample.error is not None:
            raise CallFailed(scrubber.scrub(sample.error.message))
        self._store = sample.store
        texts = [each.text for each in sample.messages if each.role == "assistant" and each.source != "input"]
        return AgentReply(
            text=scrubber.scrub(sample.output.completion or (texts[-1] if texts else "")), usage=usage
        )

    async def commit(self, assistant_text: str) -> None:
        """Add the turn's user text and its effective reply to the history."""
        if self._pending is not None:
            self._history.append(self._pending)
            self._pending = None
        self._history.append(_models.ChatMessageAssistant(content=assistant_text))

    def _observe(self, user_text: str, events: list[Any]) -> ModelUsage | None:
        """Report the turn's tools and the prompt of its last model call; return the usage of models."""
        scrub = scrubber_of_environment().scrub_data
        for event in events:
            if event.event == "tool":
                result = event.result if isinstance(event.result, str) else _json(event.result)
                fields = {
                    "tool_name": event.function,
                    "args": event.arguments,
                    "result_excerpt": result[:EXCERPT],
                    "latency_ms": _milliseconds(event),
                    "error": event.error.message[:EXCERPT] if event.error else None,
                }
                self._observer.tool(**scrub(fields))
        calls = [event for event in events if event.event == "model" and event.output.choices]
        if not calls:
            return None
        metered = [event.output.usage for event in calls if event.output.usage is not None]
        prompt, last = calls[-1].input, calls[-1].output.usage
        users = [place for place, each in enumerate(prompt) if each.role == "user"]
        present = [place for place in users if prompt[place].text == user_text] or users or [len(prompt)]
        turns = [
            ShortTermTurn(role=each.role, content=each.text)
            for each in prompt[: present[-1]]
            if each.role in ("user", "assistant") and each.text
        ]
        recall = RecallTrace(
            query=user_text,
            short_term_context=as_text(turns),
            short_term_turns=turns,
            packed_context="\n".join(f"{each.role}: {each.text}" for each in prompt),
            token_count=last.input_tokens if last is not None else 0,
        )
        self._observer.recall(**scrub(msgspec.to_builtins(recall)))
        return ModelUsage(
            model=calls[-1].model,
            calls=len(calls),
            unmetered_calls=len(calls) - len(metered),
            prompt_tokens=sum(each.input_tokens for each in metered),
            completion_tokens=sum(each.output_tokens for each in metered),
            latency_ms=sum(_milliseconds(event) or 0.0 for event in calls),
        )


def solver_agent(value: Any) -> Callable[[Session, Observer], SolverAgent]:
    """Return the factory of agents that run a solver or an agent, or what makes one without arguments.

    Raises:
        ValueError: the object is neither, needs arguments, or no model is configured.
    """
    kind = value.__registry_info__.type
    if kind not in ("solver", "agent"):
        raise ValueError(f"is a {kind} of inspect_ai; give a solver or an agent")
    try:
        solver = value if is_async(value) else value()
        _models.get_model()
    except Exception as problem:
        raise ValueError(
            f"cannot be run: {describe(problem)}; give an object that needs no arguments, and name its model "
            "in INSPECT_EVAL_MODEL (none/none where it has its own)"
        ) from problem

    os.environ.setdefault("INSPECT_DISPLAY", "none")  # else evaluations write to the terminal
    _util.display_type()
    evaluations = Evaluations(solver)

    def create(session: Session, observer: Observer) -> SolverAgent:
        del session
        return SolverAgent(evaluations, observer)

    return create


def _milliseconds(event: Any) -> float | None:
    if event.completed is None:
        return None
    return float((event.completed - event.timestamp).total_seconds() * 1000)


def _json(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()
