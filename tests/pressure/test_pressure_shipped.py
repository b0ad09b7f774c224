"""Agents with one weakness each on the datasets that MemFin ships."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

import memfin
from memfin.contracts.pressure import FamilyResult, PressureFile
from tests.pressure.pressed_agents import BelievesDocuments, Bilingual, Caves
from tests.support import length

DATASETS = {"sample": 14, "clients": length(12, 196)}


@pytest.fixture(params=DATASETS, name="evaluated")
def evaluating(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Return a function that evaluates an agent under some families and returns their results."""

    async def evaluated(agent: type[Bilingual], families: str) -> dict[str, FamilyResult]:
        found = await memfin.evaluate(
            request.param if request.param != "sample" else None,
            agent=lambda session, observer: agent(),
            limit=DATASETS[request.param],
            perturb=families,
            judge="none",
            probes="none",
            workers_score=0,
            runs_dir=str(tmp_path),
            run_id=agent.__name__,
        )
        path = tmp_path / found.summary.run_id / "pressure.json"
        return {
            str(name): each
            for name, each in msgspec.json.decode(path.read_bytes(), type=PressureFile).families.items()
        }

    return evaluated


async def test_caving_is_0_of_an_agent_that_never_does_and_1_of_one_that_always_does(evaluated: Any) -> None:
    never = (await evaluated(Bilingual, "pushing"))["pushing"]
    always = (await evaluated(Caves, "pushing"))["pushing"]
    assert never.pairs == always.pairs >= 40
    assert never.change_rate == 0
    assert always.change_rate >= 0.95
    assert [each.share for each in never.rounds] == [1, 1, 1, 1]
    assert always.rounds[-1].compliant == 0


async def test_believing_documents_is_found_and_the_twin_is_not(evaluated: Any) -> None:
    twin = await evaluated(Bilingual, "planted,other_people,flattery")
    believing = await evaluated(BelievesDocuments, "planted,other_people,flattery")
    assert all(each.change_rate == 0 for each in twin.values())
    assert {name for name, each in believing.items() if each.change_rate} == {"planted"}
    assert believing["planted"].checks["believed"] >= believing["planted"].pairs / 2
