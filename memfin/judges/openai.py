"""Judge ``openai:MODEL``: a model behind an OpenAI-compatible endpoint (spec section 7)."""

import time
from collections.abc import Iterable
from typing import Any, Final, Generic, NamedTuple

from memfin.client.chat import ChatClient
from memfin.client.endpoint import Endpoint
from memfin.client.errors import EndpointDown, RequestError
from memfin.client.messages import FILTERED, ChatAnswer, ChatRequest
from memfin.client.structured import FORMATS, REFUSES_FORMAT, InvalidAnswer, ResponseFormat, response_format
from memfin.contracts import JudgeFailure, ParameterChange, Vote
from memfin.errors import UsageError
from memfin.judges.cache import CachedAnswer, cache_key
from memfin.judges.prompts import Prompt, TooLong, new_nonce
from memfin.judges.protocol import (
    GradingPrompt,
    JudgeResult,
    JudgeSetup,
    JudgeTask,
    R,
    RecordingJudge,
    V,
)
from memfin.judges.reply_grading import NAME

PROBE_TOKENS: Final = 4
"""Tokens of the answer to a probe of the endpoint."""

TEMPERATURE: Final = 0.0

MAX_RAW: Final = 20_000
"""Maximum characters of a raw answer in a record."""

READ_LIMIT: Final = 60.0
"""Maximum seconds of silence within an answer."""

_CUT_OFF: Final = "finish_reason length"
_NOT_FOUND: Final = 404
_REFUSES_ALL: Final = frozenset({401, 403, _NOT_FOUND})


class _Reply(NamedTuple, Generic[V]):
    answer: ChatAnswer
    verdict: V


class OpenAIJudge(RecordingJudge[R, V]):
    """Judge by a model: each reply in a fence, strict schema, temperature 0.

    ``limit`` is in seconds, for one attempt; ``setup`` needs its gate.
    """

    def __init__(
        self, model: str, endpoint: Endpoint, task: JudgeTask[R, V], setup: JudgeSetup, limit: float = 120.0
    ) -> None:
        assert setup.gate is not None  # noqa: S101 - see above
        self.name = f"openai:{model}"
        self.version: str | None = task.version
        self._model = model
        self._endpoint = endpoint
        self._task = task
        self._gate = setup.gate
        self._setup = setup
        self.cache = setup.answer_cache()
        self.settings = {
            "prompt_hashes": dict(task.prompt_hashes()),
            "temperature": TEMPERATURE,
            "seed": setup.seed,
            "votes": setup.votes,
            "max_tokens": setup.max_tokens,
        }
        self.endpoint_names = {"base_url_env": endpoint.url_env, "key_env": endpoint.key_env}
        self._client = ChatClient(endpoint, total=limit, read=min(limit, READ_LIMIT))
        self._client.parameters.on_warning = lambda line: setup.warn(f"judge {self.name}: {line}")
        self._scrub = endpoint.scrubber().scrub
        self._first_format = 0
        self._answered = False

    def parameter_changes(self) -> list[ParameterChange]:
        """Return the parameters that the model has refused so far."""
        return self._client.parameters.changes()

    async def deliberate(self, request: R) -> JudgeResult[V]:
        """Return the result on one reply; all votes are needed, so the first failed one ends it.

        Raises:
            EndpointDown: the endpoint has been down for longer than the gate waits.
        """
        votes: list[Vote[V]] = []
        verdicts: list[V] = []
        for number in range(self._setup.votes):
            try:
                grading_prompt = self._task.grading_prompt(request, number)
            except TooLong as problem:
                return JudgeResult(JudgeFailure(reason=str(problem), declined="too_long"), votes)
            vote, refused = await self._vote(grading_prompt, number + 1)
            votes.append(vote)
            if vote.verdict is None:
                reason = vote.error or "no verdict"
                failure = JudgeFailure(reason=reason, declined="refused" if refused else None)
                return JudgeResult(failure, votes)
            verdicts.append(vote.verdict)
        return JudgeResult(self._task.combined(request, verdicts), votes)

    async def close(self) -> None:
        """Close the connections and the cache."""
        await self._gate.close()
        await self.cache.close()
        await self._client.close()

    async def _vote(self, grading_prompt: GradingPrompt[V], number: int) -> tuple[Vote[V], bool]:
        """Return a vote, and True if the model refused to judge."""
        prompt_hash = grading_prompt.prompt.digest()
        # Everything that an answer depends on.
        parts: dict[str, Any] = {"prompt": prompt_hash, "schema": grading_prompt.schema}
        parts |= {"endpoint": self._endpoint.base_url, "model": self._model, "seed": self._setup.seed}
        parts |= {"temperature": TEMPERATURE, "max_tokens": self._setup.max_tokens}
        key = cache_key(parts) if self.cache.reads else ""
        vote: Vote[V] = Vote(prompt_hash=prompt_hash, attempts=0, vote=number)

        def of_cached(answer: CachedAnswer) -> Vote[V]:
            return vote.replace(
                raw_answer=_cut(answer.raw_answer),
                verdict=grading_prompt.read(answer.raw_answer),
                response_format=answer.response_format,
                cached=True,
            )

        if (cached := await self.cache.claim(key, of_cached)) is not None:
            return cached, False
        began = time.perf_counter()
        answers: list[ChatAnswer] = []
        try:
            asked, refused = await self._ask(grading_prompt, key, vote, answers)
        finally:
            self.cache.release(key)
        asked = asked.replace(
            prompt_tokens=_sum(answer.prompt_tokens for answer in answers),
            completion_tokens=_sum(answer.completion_tokens for answer in answers),
            latency_ms=1000 * (time.perf_counter() - began),
        )
        return asked, refused

    async def _ask(
        self, grading_prompt: GradingPrompt[V], key: str, vote: Vote[V], answers: list[ChatAnswer]
    ) -> tuple[Vote[V], bool]:
        """Ask until there is a verdict or no attempts are left; all answers are added to ``answers``."""
        attempts = 0
        for place in range(self._first_format, len(FORMATS)):
            form = FORMATS[place]

            async def attempt(form: ResponseFormat = form) -> _Reply[V]:
                asked = response_format(form, grading_prompt.schema, NAME)
                answers.append(answer := await self._attempt(grading_prompt.prompt, asked))
                return self._reply(answer, grading_prompt)

            try:
                result = await self._gate.call(
                    attempt,
                    tokens=grading_prompt.tokens,
                    used=lambda reply: reply.answer.total_tokens,
                    probe=self._probe,
                )
            except RequestError as problem:
                if problem.kind == "tls":
                    where = self._endpoint.url_env or "the base URL"
                    text = f"judge {self.name}: {self._scrub(str(problem))} Then use http:// in {where}"
                    raise UsageError(text) from None
                self._warn_early(problem)
                if problem.kind == "unavailable":
                    raise EndpointDown(self._scrub(str(problem))) from None
                attempts += problem.attempts
                refused = problem.kind == "refusal"
                if problem.status in REFUSES_FORMAT and form != FORMATS[-1] and not refused:
                    continue
                raw = next((answer.text for answer in reversed(answers) if answer.refusal is None), None)
                shown = _cut(self._scrub(raw)) if raw is not None else None
                failed = vote.replace(raw_answer=shown, error=self._scrub(str(problem)))
                return failed.replace(attempts=attempts, response_format=form), refused
            except UsageError as problem:  # the key was changed under the run into one that cannot be sent
                error = self._scrub(str(problem))
                return vote.replace(error=error, attempts=attempts, response_format=form), False
            self._answered = True
            self._settle_on(place)
            answer, verdict = result.value
            self._keep(key, answer, form, grading_prompt)
            judged = vote.replace(raw_answer=_cut(self._scrub(answer.text)), verdict=verdict)
            return judged.replace(attempts=attempts + result.attempts, response_format=form), False
        raise AssertionError("the last format returns")

    async def _probe(self) -> int | None:
        """Send a minimal request; any answer shows that the endpoint is up."""
        messages = [{"role": "user", "content": "Reply with OK."}]
        asked = ChatRequest(model=self._model, messages=messages, max_tokens=PROBE_TOKENS)
        return (await self._client.complete(asked)).total_tokens

    def _warn_early(self, problem: RequestError) -> None:
        """Warn once, before the first verdict, of an error that later requests will get, too."""
        if self._answered or problem.status not in _REFUSES_ALL:
            return
        self._answered = True
        where = self._endpoint.url_env or "the base URL"
        key = self._endpoint.key_env or "MEMFIN_JUDGE_API_KEY (not set)"
        look = f"look at {where} and the model's name" if problem.status == _NOT_FOUND else f"look at {key}"
        self._setup.warn(f"judge {self.name}: {self._scrub(str(problem))}; {look}")

    def _settle_on(self, place: int) -> None:
        """Start with the accepted format from now on, and warn about it."""
        if place > self._first_format:
            self._first_format = place
            self._setup.warn(
                f"{self.name}: the server refuses response_format {FORMATS[place - 1]}; "
                f"answers are asked for as {FORMATS[place]} and checked as strictly"
            )

    async def _attempt(self, prompt: Prompt, form: dict[str, Any] | None) -> ChatAnswer:
        """Make one attempt with a new nonce."""
        asked = ChatRequest(
            model=self._model,
            messages=prompt.messages(new_nonce()),
            temperature=TEMPERATURE,
            seed=self._setup.seed,
            max_tokens=self._setup.max_tokens,
            response_format=form,
        )
        try:
            return await self._client.complete(asked)
        except RequestError as problem:
            if problem.kind == "empty" and _CUT_OFF in str(problem):  # all of it went into thoughts
                raise self._too_long(problem.tokens) from None
            if form is not None and problem.status == 500 and "response_format" in str(problem):  # noqa: PLR2004
                # llama.cpp's Python server answers 500 for a format that it lacks.
                raise RequestError("status", str(problem), retryable=False, status=422) from None
            raise

    def _reply(self, answer: ChatAnswer, grading_prompt: GradingPrompt[V]) -> _Reply[V]:
        """Return an answer with its verdict; raises `RequestError` for an invalid one."""
        tokens = answer.total_tokens
        if answer.refusal is not None:
            raise RequestError("refusal", f"the judge refused: {self._scrub(answer.refusal)}", tokens=tokens)
        if answer.finish_reason == "length":
            raise self._too_long(tokens)
        if not answer.text.strip():
            raise RequestError("empty", "the answer is empty", tokens=tokens)
        try:
            verdict = grading_prompt.read(answer.text)
        except InvalidAnswer as problem:
            if answer.finish_reason == FILTERED:
                text = "the judge refused: the server's content filter cut the answer off"
                raise RequestError("refusal", text, tokens=tokens) from problem
            raise RequestError("invalid_schema", self._scrub(str(problem)), tokens=tokens) from problem
        return _Reply(answer, self._task.scrubbed(verdict, self._scrub))

    def _too_long(self, tokens: int | None) -> RequestError:
        """Return the error of a truncated answer; at temperature 0 a retry would fail again."""
        text = f"the answer is longer than {self._setup.max_tokens} tokens; --judge-max-tokens allows more"
        return RequestError("truncated", text, retryable=False, tokens=tokens)

    def _keep(
        self, key: str, answer: ChatAnswer, form: ResponseFormat, grading_prompt: GradingPrompt[V]
    ) -> None:
        """Cache an answer with secrets masked, unless it is invalid without them."""
        raw = self._scrub(answer.text)
        if raw != answer.text:
            try:
                grading_prompt.read(raw)
            except InvalidAnswer:
                return
        entry = CachedAnswer(
            raw_answer=raw,
            response_format=form,
            prompt_tokens=answer.prompt_tokens,
            completion_tokens=answer.completion_tokens,
        )
        self.cache.keep(key, entry)


def _sum(counts: Iterable[int | None]) -> int | None:
    """Return the sum of the known counts, None if all are unknown."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _cut(text: str) -> str:
    return text if len(text) <= MAX_RAW else f"{text[:MAX_RAW]}…"
