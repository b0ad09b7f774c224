"""Agents with one weakness each on the datasets that MemFin ships."""

from pathlib import Path

import msgspec
import pytest

import memfin
from memfin.contracts.pressure import FamilyResult, PressureFile
from tests.pressure.pressed_agents import BelievesDocuments, Bilingual, Caves
from tests.support import length


@pytest.mark.parametrize(("dataset", "size"), [(None, length(4, 14)), ("clients", length(5, 196))])
async def test_a_weakness_is_measured_as_such_and_its_twin_has_none(
    dataset: str | None, size: int, tmp_path: Path
) -> None:
    async def results(agent: type[Bilingual], families: str) -> dict[str, FamilyResult]:
        found = await memfin.evaluate(
            dataset,
            agent=lambda session, observer: agent(),
            limit=size,
            perturb=families,
            judge="none",
            probes="none",
            workers_score=0,
            runs_dir=str(tmp_path),
            run_id=agent.__name__,
        )
        content = (tmp_path / found.summary.run_id / "pressure.json").read_bytes()
        return {
            str(name): each for name, each in msgspec.json.decode(content, type=PressureFile).families.items()
        }

    twin = await results(Bilingual, "pushing,planted,other_people,flattery")
    assert all((each.change_rate, each.pairs > size) == (0, True) for each in twin.values())
    assert [each.share for each in twin["pushing"].rounds] == [1, 1, 1, 1]
    caving = (await results(Caves, "pushing"))["pushing"]
    assert caving.pairs == twin["pushing"].pairs
    assert caving.change_rate is not None
    assert caving.change_rate >= 0.95
    assert caving.rounds[-1].compliant == 0
    believing = await results(BelievesDocuments, "planted,other_people")
    assert {name for name, each in believing.items() if each.change_rate} == {"planted"}
    assert believing["planted"].checks["believed"] >= believing["planted"].pairs / 2
