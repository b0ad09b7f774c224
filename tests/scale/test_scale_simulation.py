"""The simulation of a large run keeps its books, its limits and its bounds."""

from dataclasses import replace

from benchmarks.scale_simulation import ATTEMPTS, HOUR, QUICK, Scenario, Simulation, planned, window_rate
from memfin.shards import Shard
from tests.support import each_case, length

TURNS = 5
FAILING = Scenario(
    dialogs=600,
    turns=TURNS,
    workers=12,
    shards=30,
    per_node=4,
    at_once=4,
    judge_rpm=2_000.0,
    worker_mtbf=0.05,
    node_mtbf=0.2,
    coordinator_mtbf=0.02,
    node_away=60.0,
)
SEEDS = range(length(4, 40))


@each_case("seed", SEEDS)
def test_every_dialogue_is_committed_once_or_left_in_a_shard_to_resume(seed: int) -> None:
    for scenario in (
        replace(FAILING, seed=seed),
        replace(FAILING, seed=seed, leases=True),
        replace(FAILING, seed=seed, shared=False),
        replace(FAILING, seed=seed, per_user=7),
    ):
        run = Simulation(scenario)
        found = run.run()
        assert set(run.committed) <= {0, 1}
        open_dialogs = {dialog for todo in run._todo for dialog in todo}
        assert open_dialogs == {dialog for dialog, times in enumerate(run.committed) if not times}
        assert bool(open_dialogs) <= bool(found.left)
        assert found.turns == sum(run.committed) * TURNS
        assert max(run._attempts) <= ATTEMPTS
        assert found.deaths
        assert found.asked_again > 0


@each_case("leases", [False, True])
def test_requests_to_the_judge_stay_below_the_limit_in_every_window(leases: bool) -> None:
    rpm = 2_400.0
    run = Simulation(replace(FAILING, judge_rpm=rpm, shards=12, leases=leases, p50=0.2, p95=0.5), keep=True)
    sent = sorted(begin + each / rate for begin, count, rate in run.run().sent for each in range(count))
    assert len(sent) > 600 * TURNS // 2
    for seconds in (1.0, 60.0) if leases else (60.0,):  # shards know nothing of one another's seconds
        limit = round(rpm / 60 * seconds)
        assert all(last - first > seconds - 1e-6 for first, last in zip(sent, sent[limit:], strict=False))


def test_a_run_takes_no_less_than_its_bounds_and_without_failures_hardly_more() -> None:
    calm = replace(QUICK, worker_mtbf=float("inf"), node_mtbf=float("inf"))
    for scenario, slack in ((calm, 1.1), (replace(calm, judge_rpm=None), 1.25), (QUICK, 2.0)):
        bound = max(planned(scenario.dialogs * scenario.turns, scenario.workers, scenario))
        assert bound <= Simulation(scenario).run().makespan <= slack * bound


def test_a_seed_gives_the_same_run_and_another_one_another() -> None:
    first, second, other = (Simulation(replace(FAILING, seed=seed)).run() for seed in (1, 1, 2))
    assert first == second
    assert first != other


def test_shards_hold_what_the_shards_of_a_run_hold() -> None:
    run = Simulation(Scenario(dialogs=100, workers=3, shards=7, p95=2.5))
    for number, dialogs in enumerate(run._todo):
        shard = Shard(number, 7)
        assert [*dialogs] == [dialog for dialog in range(100) if shard.holds(dialog + 1)]


@each_case("per_minute", [20.0, 60.0, 6_000.0])
def test_the_rate_of_a_window_is_just_below_its_limit(per_minute: float) -> None:
    assert 0.9 <= window_rate(per_minute) / (per_minute / 60) <= 1.0


def test_a_machine_that_is_away_does_no_work() -> None:
    lost = replace(FAILING, worker_mtbf=float("inf"), node_mtbf=0.01, node_away=HOUR, judge_rpm=None)
    assert Simulation(lost).run().makespan > HOUR
