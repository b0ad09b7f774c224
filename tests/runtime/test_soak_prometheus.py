"""Prometheus metrics of a soak, over a real connection on loopback."""

import socket
import urllib.request
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
from prometheus_client.parser import text_string_to_metric_families

from memfin.contracts import SoakLimits
from memfin.errors import UsageError
from memfin.runtime.soak import Soak
from memfin.runtime.soak_plan import make_soak_plan
from memfin.runtime.soak_prometheus import SoakExporter
from tests.support import dataset


class FailsInOne:
    def __init__(self, session: Any, observer: Any) -> None:
        self._fails = session.dialog_id == "d0001"

    async def reply(self, user_text: str) -> str:
        if self._fails:
            raise ValueError("fails")
        return "市场存在不确定性，仅供参考。"


def samples(address: str) -> dict[tuple[str, str], float]:
    """Return what is served, by name and the labels' values."""
    with urllib.request.urlopen(address, timeout=30) as answer:  # noqa: S310 - http
        text = answer.read().decode()
    return {
        (sample.name, ",".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_a_soak_is_served_while_it_goes_on_and_in_the_end(tmp_path: Path) -> None:
    served: list[dict[tuple[str, str], float]] = []
    plan = make_soak_plan(
        dataset(tmp_path / "data.jsonl", 4),
        limits=SoakLimits(epochs=3),
        agent=FailsInOne,
        runs_dir=tmp_path / "runs",
        run_id="s",
    )
    with SoakExporter(0) as exporter:

        class Scraping:
            def on_event(self, event: object) -> None:
                pass

            def on_sample(self, sample: object) -> None:
                pass

            def on_epoch(self, epoch: object, summary: object) -> None:
                served.append(samples(exporter.address))

        summary = await Soak(plan, [exporter, Scraping()]).run()
        found = await anyio.to_thread.run_sync(samples, exporter.address)
    assert [each["memfin_soak_epochs_total", ""] for each in served] == [1, 2, 3]
    assert found["memfin_soak_turns_total", "ok"] == 3 * 9
    assert found["memfin_soak_turns_total", "error"] == 3 * 3
    assert found["memfin_soak_dialogs_total", "failed"] == 3
    errors = {kind: count for (name, kind), count in found.items() if name == "memfin_soak_errors_total"}
    assert {kind: count for kind, count in errors.items() if count} == {
        "failed_turns": 3 * 3,
        "failed_dialogs": 3,
    }
    assert "judged_turns" not in errors
    assert found["memfin_soak_judged_turns_total", ""] == summary.errors.judged_turns > 0
    assert found["memfin_soak_turn_latency_seconds_count", ""] == 3 * 9
    assert found["memfin_soak_turn_latency_seconds_bucket", "+Inf"] == 3 * 9
    name = "m3_risk_coverage.risk_coverage"
    assert found["memfin_soak_metric", name] == summary.metrics[name].last
    assert found["memfin_soak_metric_drifting", name] == 0
    assert found["memfin_soak_rss_bytes", ""] > 1 << 20
    assert found["memfin_soak_open_files", ""] > 2
    assert found["memfin_soak_loop_lag_seconds", "0.99"] <= found["memfin_soak_loop_lag_seconds", "1"]


def test_only_loopback_is_served_and_nothing_when_it_is_over() -> None:
    with SoakExporter(0) as exporter:
        assert exporter.address.startswith("http://127.0.0.1:")
        port = int(exporter.address.split(":")[2].split("/")[0])
        samples(exporter.address)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def answer_to(address: str, request: bytes) -> bytes:
    """Return what comes until the server closes the connection."""
    port = int(address.removesuffix("/metrics").rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(request)
        answer = b""
        while data := connection.recv(1 << 16):
            answer += data
    return answer


def test_half_requests_and_those_from_elsewhere_are_shed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memfin.hosting.MAX_WAIT", 0.2)
    with SoakExporter(0) as exporter:
        assert answer_to(exporter.address, b"GET /metrics HTTP/1.1\r\nX: ") == b""
        for line, status in (
            (b"Host: localhost", b"200"),
            (b"Host: evil.example", b"421"),
            (b"Host: localhost\r\nOrigin: http://evil.example", b"403"),
        ):
            request = b"GET /metrics HTTP/1.1\r\n" + line + b"\r\nConnection: close\r\n\r\n"
            answer = answer_to(exporter.address, request)
            assert answer.split()[1] == status
            assert (b"memfin_soak_epochs_total" in answer) == (status == b"200")
            assert b"Python" not in answer


def test_a_port_in_use_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"^--metrics-port: .*:{port}: Address already in use$"):
            SoakExporter(port).__enter__()
