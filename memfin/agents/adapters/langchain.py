"""LangChain runnables as agents under test: chat models, chains, retrieval chains.

Three lines make an agent that ``memfin run --agent my_chain:agent`` evaluates::

    from memfin.agents.adapters.langchain import runnable_agent
    from my_project import chain
    agent = runnable_agent(chain)

A runnable has no history of its own, so the adapter keeps the dialogue's and hands it over as messages.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from memfin.agents.adapters.langchain_turn import TurnRecorder, text_of  # isort: skip - names a missing extra

import msgspec
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig

from memfin.agents.adapters.transport import as_told
from memfin.agents.protocol import AgentReply, Observer, Session
from memfin.secrets import scrubber_of_environment

Inputs = Callable[[Sequence[BaseMessage], str], Any]
"""Makes a runnable's input of the history and the user's present words."""


class Reading(NamedTuple):
    """What functions take from a runnable's output.

    ``reply`` takes the text, ``profile`` the profile snapshot, ``recall`` fields of the recall
    observation that callbacks do not show; the last two are optional.
    """

    reply: Callable[[Any], str]
    profile: Callable[[Any], Mapping[str, Any] | None] | None = None
    recall: Callable[[Any], Mapping[str, Any] | None] | None = None


class RunnableAgent:
    """One dialogue with a runnable that keeps its history by session id itself.

    It has no ``commit``: what such a runnable remembers is out of reach.
    """

    def __init__(
        self,
        runnable: Runnable[Any, Any],
        session: Session,
        observer: Observer,
        inputs: Inputs,
        reading: Reading,
    ) -> None:
        self.session = session
        self.history: list[BaseMessage] = []
        self.pending: str | None = None
        self.recorder = TurnRecorder()
        self._runnable = runnable
        self._observer = observer
        self._inputs = inputs
        self._reading = reading

    async def reply(self, user_text: str) -> AgentReply:
        """Ask the runnable and observe what memory and tools did below it.

        Keys that the environment holds are masked in all of it: frameworks put them into texts.

        Raises:
            TransportError: the model behind it could not be reached or said to come again.
            TypeError: the runnable's output holds no text.
        """
        self.pending = user_text
        self.recorder = TurnRecorder()
        output: Any = None
        text: str | None = None
        try:
            output = await self._ask(user_text)
            text = said = self._reading.reply(output)
        except Exception as problem:
            told = as_told(problem)
            if told is problem:
                raise
            raise told from None
        finally:
            self._observe(user_text, output, text)
        profile = self._reading.profile(output) if self._reading.profile is not None else None
        snapshot = dict(profile) if profile is not None else None
        text = scrubber_of_environment().scrub(said)
        return AgentReply(text=text, usage=self.recorder.usage(), profile_snapshot=snapshot)

    async def _ask(self, user_text: str) -> Any:
        """Return what the runnable makes of the user's words."""
        asked = self._inputs(list(self.history), user_text)
        return await self._runnable.ainvoke(asked, run_config(self.session, self.recorder))

    def _observe(self, user_text: str, output: Any, text: str | None) -> None:
        scrub = scrubber_of_environment().scrub_data
        shown = msgspec.to_builtins(self.recorder.recall(user_text, text))
        more = self._reading.recall(output) if self._reading.recall is not None and text is not None else None
        self._observer.recall(**scrub({**shown, **(more or {})}))
        for trace in self.recorder.tools(messages_of(output)):
            self._observer.tool(**scrub(msgspec.to_builtins(trace)))


class HistoryKeepingAgent(RunnableAgent):
    """One dialogue with a runnable that is handed the history at every turn."""

    async def commit(self, assistant_text: str) -> None:
        """Put the turn into the history: with its own reply, or the reference in forced history.

        The words of a turn that got no reply are not part of the history.
        """
        if self.pending is not None:
            self.history.append(HumanMessage(self.pending))
            self.pending = None
        self.history.append(AIMessage(assistant_text))


def runnable_agent(
    runnable: Runnable[Any, Any],
    *,
    inputs: Inputs | None = None,
    reply: Callable[[Any], str] | None = None,
    profile: Callable[[Any], Mapping[str, Any] | None] | None = None,
    recall: Callable[[Any], Mapping[str, Any] | None] | None = None,
    own_history: bool = False,
) -> Callable[[Session, Observer], RunnableAgent]:
    """Return the factory of agents that ask a runnable.

    Args:
        runnable: any LangChain runnable; the dialogues share it.
        inputs: makes its input of the history (messages) and the user's words; by default the input
            is the list of messages, the user's words last.
        reply: takes the reply's text from the output; by default the output is a text, a message or
            an object with ``messages``, ``output`` or ``answer``.
        profile: takes the profile snapshot from the output, for M2.
        recall: takes fields of the recall observation from the output, such as ``profile_context``;
            they win over what callbacks showed.
        own_history: the runnable keeps its history by the session id itself, as
            ``RunnableWithMessageHistory`` does; then the history that `inputs` gets is empty and
            ``--history forced`` is refused.
    """
    kind = RunnableAgent if own_history else HistoryKeepingAgent
    reading = Reading(reply or reply_text, profile, recall)

    def create(session: Session, observer: Observer) -> RunnableAgent:
        return kind(runnable, session, observer, inputs or as_messages, reading)

    return create


def as_messages(history: Sequence[BaseMessage], user_text: str) -> list[BaseMessage]:
    """Return the input of a chat model: the history and the user's words."""
    return [*history, HumanMessage(user_text)]


def run_config(session: Session, recorder: TurnRecorder) -> RunnableConfig:
    """Return the config of one call: the dialogue's ids where frameworks look for them, and callbacks."""
    ids = {"thread_id": session.session_id, "session_id": session.session_id, "user_id": session.user_id}
    return {"callbacks": [recorder], "configurable": ids}


def reply_text(output: Any) -> str:
    """Return the reply in a runnable's output; raise `TypeError` when it has none."""
    if isinstance(output, Mapping):
        messages = messages_of(output)
        if messages:
            output = next((each for each in reversed(messages) if isinstance(each, AIMessage)), None)
        else:
            output = next((output[key] for key in ("output", "answer") if key in output), None)
    if isinstance(output, BaseMessage):
        return text_of(output)
    if not isinstance(output, str):
        raise TypeError(
            f"no reply found in the runnable's output of type {type(output).__name__}; "
            "pass reply=..., a function that takes the text from it"
        )
    return output


def messages_of(output: Any, key: str = "messages") -> list[BaseMessage]:
    """Return the messages in an output that came after the user's present words."""
    found = output.get(key) if isinstance(output, Mapping) else None
    messages = [each for each in found if isinstance(each, BaseMessage)] if isinstance(found, list) else []
    last = max((index for index, each in enumerate(messages) if each.type == "human"), default=-1)
    return messages[last + 1 :]
