"""Solvers and agents of inspect_ai as agents under test.

``memfin run --agent my_eval:my_solver`` evaluates what ``@solver`` or ``@agent`` decorates, with the model
that ``INSPECT_EVAL_MODEL`` names. The object is called at every turn with the dialogue so far.
"""

import importlib
from collections.abc import Callable
from typing import Any, Final

import msgspec

from memfin.agents.adapters.transport import translated_errors
from memfin.agents.history import as_text
from memfin.agents.protocol import AgentReply, Observer, Session
from memfin.contracts import ModelUsage, RecallTrace, ShortTermTurn, ToolTrace
from memfin.sandbox.calls import is_async
from memfin.sandbox.references import describe
from memfin.secrets import scrubber_of_environment

try:
    _agents, _log, _models, _solvers, _tools, _util = (
        importlib.import_module(f"inspect_ai.{name}")
        for name in ("agent", "log", "model", "solver", "tool", "util")
    )
except ModuleNotFoundError as problem:
    raise ModuleNotFoundError(
        f"{problem}; the inspect_ai adapter needs the extra: pip install 'memfin[inspect]'"
    ) from problem

EXCERPT: Final = 500
"""Characters of a tool's result that are kept."""


class SolverAgent:
    """One dialogue with a solver: it gets the history at every turn, and keeps its store."""

    def __init__(self, solver: Any, session: Session, observer: Observer) -> None:
        self._solver = solver
        self._session = session
        self._observer = observer
        self._model = _models.get_model()
        self._history: list[tuple[type[Any], str]] = []
        self._pending: str | None = None
        self._store: dict[str, Any] = {}

    async def reply(self, user_text: str) -> AgentReply:
        """Run the solver and observe its models and tools, with the environment's keys masked.

        Raises:
            TransportError: the model could not be reached or asked for a retry.
        """
        self._pending = user_text
        messages = [kind(content=text) for kind, text in self._history]
        messages.append(_models.ChatMessageUser(content=user_text, source="input"))
        state = _solvers.TaskState(
            model=_models.ModelName(self._model),
            sample_id=self._session.dialog_id,
            epoch=1,
            input=messages,
            messages=list(messages),
            store=dict(self._store),
        )
        events: list[Any] = []

        async def solve() -> None:
            nonlocal state
            try:
                state = await self._solver(state, self._generate)
            finally:
                events.extend(_log.transcript().events)

        try:
            with translated_errors():  # a subtask has a transcript and a store of its own
                await _util.subtask(name="turn", store=state.store, input={})(solve)()
        finally:
            usage = self._observe(user_text, events)
        self._store = dict(state.store.items())
        texts = [each.text for each in state.messages[len(messages) :] if each.role == "assistant"]
        text = state.output.completion or (texts[-1] if texts else "")
        return AgentReply(text=scrubber_of_environment().scrub(text), usage=usage)

    async def commit(self, assistant_text: str) -> None:
        """Add the turn's user text and its effective reply to the history."""
        if self._pending is not None:
            self._history.append((_models.ChatMessageUser, self._pending))
            self._pending = None
        self._history.append((_models.ChatMessageAssistant, assistant_text))

    async def _generate(self, state: Any, tool_calls: str = "loop", cache: Any = False, **config: Any) -> Any:
        """Call the model and its tools as the function does that inspect_ai hands to solvers."""
        settings, choice = _models.GenerateConfig(**config), state.tool_choice
        while True:
            state.output = await self._model.generate(
                state.messages, tools=state.tools, tool_choice=choice, config=settings, cache=cache
            )
            state.messages.append(state.output.message)
            if tool_calls == "none" or not state.output.message.tool_calls or state.completed:
                return state
            results, output = await _models.execute_tools(
                state.messages, state.tools, settings.max_tool_output
            )
            state.messages.extend(results)
            state.output = output or state.output
            if tool_calls == "single" or state.completed:
                return state
            choice = "auto" if isinstance(choice, _tools.ToolFunction) else choice  # forced once

    def _observe(self, user_text: str, events: list[Any]) -> ModelUsage | None:
        """Report the turn's tools and the prompt of its last model call; return the usage of models."""
        scrub = scrubber_of_environment().scrub_data
        for event in events:
            if event.event == "tool":
                result = event.result if isinstance(event.result, str) else _json(event.result)
                trace = ToolTrace(
                    tool_name=event.function,
                    args=event.arguments,
                    result_excerpt=result[:EXCERPT],
                    latency_ms=_milliseconds(event),
                    error=event.error.message[:EXCERPT] if event.error else None,
                )
                self._observer.tool(**scrub(msgspec.to_builtins(trace)))
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
        made = value if is_async(value) else value()
        solver = _agents.as_solver(made) if kind == "agent" else made
        _models.get_model()
    except Exception as problem:
        raise ValueError(
            f"cannot be run: {describe(problem)}; give an object that needs no arguments, and name its model "
            "in INSPECT_EVAL_MODEL (none/none where it has its own)"
        ) from problem

    def create(session: Session, observer: Observer) -> SolverAgent:
        return SolverAgent(solver, session, observer)

    return create


def _milliseconds(event: Any) -> float | None:
    if event.completed is None:
        return None
    return float((event.completed - event.timestamp).total_seconds() * 1000)


def _json(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()
