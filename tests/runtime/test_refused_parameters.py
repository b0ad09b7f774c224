"""Models that refuse parameters, as judge and as agent of a run: told once, recorded, nothing lost."""

from pathlib import Path
from typing import Any

import pytest

from memfin.contracts import ParameterChange, RunStats
from memfin.contracts.reading import decode
from memfin.runtime.api import evaluate
from tests.client.faulty_server import FaultyServer
from tests.judges.scripted_judge import verdict
from tests.support import dataset, read_jsonl

REFUSED = ("max_tokens", "seed", "temperature")


class Reasoning(FaultyServer):
    """Takes neither temperature nor seed, and max_completion_tokens in the place of max_tokens."""

    async def _answer(self, request: Any, body: dict[str, Any], fault: str | None) -> Any:
        return await super()._answer(request, body, "400" if self._unwelcome(body) else fault)

    def complaint(self, body: dict[str, Any], fault: str) -> str:
        return f"Unsupported parameter: '{self._unwelcome(body)}' is not supported with this model."

    @staticmethod
    def _unwelcome(body: dict[str, Any]) -> str | None:
        return next((name for name in REFUSED if name in body), None)


def answer(body: dict[str, Any]) -> str:
    return verdict(body) if "response_format" in body else "根据数据，注意风险，仅供参考。"


async def test_a_run_goes_on_without_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = dataset(tmp_path / "data.jsonl", 4)
    summaries: list[bytes] = []
    for kind, run_id in ((FaultyServer, "usual"), (Reasoning, "picky")):
        async with kind(responder=answer) as server:
            for role in ("AGENT", "JUDGE"):
                monkeypatch.setenv(f"MEMFIN_{role}_BASE_URL", server.base_url)
            await evaluate(
                data,
                agent="openai:r",
                judge="openai:r",
                runs_dir=tmp_path,
                run_id=run_id,
                agent_max_tokens=500,
                turn_retries=0,
                judge_cache="off",
                workers_judge=4,
            )
        read = (tmp_path / run_id / "metrics_summary.json").read_bytes()
        summaries.append(read.replace(run_id.encode(), b"").split(b'"config_fingerprint"')[0])
    assert summaries[0] == summaries[1]
    warned = [
        event["message"]
        for event in read_jsonl(tmp_path / "logs" / "progress_picky.jsonl")
        if event["event"] == "warning" and "refuses the parameter" in event["message"]
    ]
    assert sorted(warned) == sorted(
        f"{role} openai:r: the model refuses the parameter {name}; from now on {instead}"
        for role in ("agent", "judge")
        for name, instead in (
            ("max_tokens", "it is sent as max_completion_tokens"),
            ("seed", "it is left out"),
            ("temperature", "it is left out"),
        )
    )
    stats = decode((tmp_path / "picky" / "run_stats.json").read_bytes(), RunStats)
    assert stats.judge is not None
    for changes in (stats.agent_parameters, stats.judge.parameters):
        assert [(each.parameter, each.sent_as) for each in changes] == [
            ("max_tokens", "max_completion_tokens"),
            ("seed", None),
            ("temperature", None),
        ]
        assert all(isinstance(each, ParameterChange) and 1 <= each.refusals <= 4 for each in changes)
    usual = decode((tmp_path / "usual" / "run_stats.json").read_bytes(), RunStats)
    assert usual.agent_parameters == []
    assert usual.judge is not None
    assert usual.judge.parameters == []
    assert usual.judge_failures == stats.judge_failures == 0
