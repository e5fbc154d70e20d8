"""Virtual time: determinism, order of events, what ends a run, and what the figures mean."""

from __future__ import annotations

import numpy as np
import pytest

from pagefault.capacity import KVGroup, ModelShape, Weights, find_gpu
from pagefault.errors import ConfigError, InputError
from pagefault.paging import Pager
from pagefault.scheduling import Request, Scheduler, SchedulerConfig, SequenceEvent, StepPlan, StepResult
from pagefault.sim import (
    ClosedLoop,
    ConstantCost,
    Efficiency,
    OpenLoop,
    RooflineCost,
    ServingSetup,
    SimResult,
    Slo,
    TableCost,
    check_slo,
    find_limit,
    read_cost_table,
    serve,
    simulate,
    summarize_run,
)
from pagefault.sim.events import Event, EventQueue, Priority
from pagefault.workload import Workload, poisson, stream

TICK = 1_000_000

LLAMA = ModelShape(
    "llama-3.1-8b",
    "llama",
    32,
    4096,
    32,
    "bfloat16",
    131_072,
    (KVGroup("full", 32, 8, 128, 128),),
    weights=Weights(8_030_261_248, 8_030_261_248, 16_060_522_496, "", lookup=128_256 * 4096),
)


def load(arrivals: list[int], prompts: list[int], outputs: list[int]) -> Workload:
    return Workload(np.array(arrivals), np.array(prompts), np.array(outputs))


def scheduler_for(blocks: int = 64, **config: object) -> Scheduler:
    made = SchedulerConfig(max_model_len=blocks * 16, watermark=0.0, **config)  # type: ignore[arg-type]
    return Scheduler(made, Pager(blocks, 16, max_seqs=made.max_num_seqs))


def play(workload: Workload, scheduler: Scheduler | None = None) -> SimResult:
    return simulate(scheduler or scheduler_for(), OpenLoop(workload, 16), ConstantCost(TICK))


def test_a_lone_request_takes_a_step_for_its_prompt_and_one_a_further_token() -> None:
    result = play(load([5], [20], [4]))
    record = result.records[0]
    assert (record.queued_ns, record.admitted_ns) == (5, 5)
    assert record.first_token_ns == 5 + TICK
    assert record.finished_ns == 5 + 4 * TICK
    assert record.computed_tokens == 20 + 3  # the last token is never computed
    assert result.end_ns == 5 + 4 * TICK


def test_the_machine_sleeps_until_the_next_arrival() -> None:
    result = play(load([0, 100 * TICK], [1, 1], [1, 1]))
    assert result.records[1].admitted_ns == 100 * TICK
    assert len(result.steps) == 2


def test_an_arrival_during_a_step_is_seen_at_its_end_and_one_at_its_end_too() -> None:
    result = play(load([0, TICK // 2, TICK], [16, 16, 16], [2, 1, 1]))
    assert [record.admitted_ns for record in result.records] == [0, TICK, TICK]


def test_events_of_one_instant_are_ordered_by_kind_then_by_insertion() -> None:
    queue = EventQueue()
    first, second, third = (Request(index, 1, 1) for index in range(3))
    queue.push(Event(7, Priority.ARRIVAL, first))
    queue.push(Event(7, Priority.ARRIVAL, second))
    queue.push(Event(7, Priority.STEP_END, third))
    queue.push(Event(3, Priority.ARRIVAL, third))
    assert [queue.pop().payload for _ in range(4)] == [third, third, first, second]


def test_the_same_run_twice_gives_the_same_result_to_the_nanosecond() -> None:
    generator = stream(3, "lengths")
    workload = Workload(
        poisson(60, 30.0, stream(3, "arrivals")),
        generator.integers(1, 300, 60),
        generator.integers(1, 80, 60),
    )
    runs = [play(workload, scheduler_for(48)) for _ in range(2)]
    for name in ("end_ns", "running", "used_frames", "preemptions"):
        assert np.array_equal(runs[0].steps.column(name), runs[1].steps.column(name))
    assert sum(len(record.preemptions) for record in runs[0].records) > 0


def test_nothing_leaks_and_everybody_gets_what_he_asked_for() -> None:
    generator = stream(5, "lengths")
    workload = Workload(
        poisson(80, 50.0, stream(5, "arrivals")),
        generator.integers(1, 400, 80),
        generator.integers(1, 90, 80),
    )
    scheduler = scheduler_for(48)
    result = simulate(scheduler, OpenLoop(workload, 16), ConstantCost(TICK))
    scheduler.pager.check()
    assert result.pager.used == result.pager.in_flight == 0
    assert [record.generated for record in result.records] == workload.output_tokens.tolist()


def test_what_never_fits_is_refused_and_the_rest_is_served() -> None:
    result = play(load([0, 0, 0], [10, 5000, 10], [5, 5, 5]))
    assert [(request.id, "max_model_len" in reason) for request, reason in result.refused] == [(1, True)]
    assert [record.generated for record in result.records] == [5, 5]


def test_workers_send_the_next_job_when_one_is_done() -> None:
    source = ClosedLoop(np.array([16, 16, 16]), np.array([1, 1, 1]), workers=2)
    result = simulate(scheduler_for(), source, ConstantCost(TICK))
    assert [record.queued_ns for record in result.records] == [0, 0, TICK]
    with pytest.raises(InputError, match="0 workers would never start a job"):
        ClosedLoop(np.array([16]), np.array([1]), workers=0)


def test_an_interrupt_leaves_what_there_is() -> None:
    class Interrupt:
        def sequence(self, _event: SequenceEvent) -> None:
            pass

        def step(self, plan: StepPlan, _end: int, _scheduler: Scheduler) -> None:
            if plan.step == 3:
                raise KeyboardInterrupt

    source = OpenLoop(load([0], [8], [50]), 16)
    result = simulate(scheduler_for(), source, ConstantCost(TICK), observers=[Interrupt()])
    assert not result.complete
    assert len(result.steps) == 3
    assert not summarize_run(result).complete


def test_a_hashed_prefix_is_a_fresh_hit() -> None:
    ids = np.array([7, 8, 7, 9])
    workload = Workload(
        np.array([0, 10**9]),
        np.array([1024, 1024]),
        np.array([2, 2]),
        hash_offsets=np.array([0, 2, 4]),
        hash_ids=ids,
        hash_tokens=512,
    )
    result = play(workload, scheduler_for(256))
    assert [record.hit_tokens for record in result.records] == [0, 512]
    assert result.pager.hit_rate == pytest.approx(512 / (2 * 1024))


def test_the_roofline_by_hand() -> None:
    gpu = find_gpu("h200")
    efficiency = Efficiency(bandwidth=0.5, compute=0.5, step_ns=1000, sequence_ns=10)
    cost = RooflineCost(LLAMA, gpu, 16, efficiency=efficiency)
    assert cost.kv_bytes == 2 * 32 * 8 * 128 * 2
    scheduler = scheduler_for(512, max_num_batched_tokens=8192)
    scheduler.submit(Request(0, 4000, 3), 0)
    prefill = scheduler.plan(0)
    parts = cost.parts(prefill)
    read = 16_060_522_496 - 2 * 128_256 * 4096  # the input embedding is looked up, not read
    active = 8_030_261_248 - 128_256 * 4096
    assert parts.linear_memory == pytest.approx(read / (0.5 * gpu.bandwidth) * 1e9)
    assert parts.linear_compute == pytest.approx(2 * active * 4000 / (0.5 * gpu.flops_16) * 1e9)
    pairs = 4000 * 4001 / 2
    assert parts.attention_compute == pytest.approx(4 * 32 * 128 * 32 * pairs / (0.5 * gpu.flops_16) * 1e9)
    assert parts.attention_memory == 0
    assert parts.overhead == 1000 + 10
    assert cost.step_ns(prefill) == round(parts.total)
    scheduler.commit(StepResult(prefill.step, 1))
    decode = cost.parts(scheduler.plan(1))
    assert decode.attention_memory == pytest.approx(4001 * cost.kv_bytes / (0.5 * gpu.bandwidth) * 1e9)
    assert decode.attention_compute == 0


def test_a_mixture_of_experts_reads_the_experts_its_tokens_hit() -> None:
    weights = Weights(1000, 400, 2000, "", experts=8, experts_per_token=2)
    moe = ModelShape(
        "moe", "mixtral", 1, 64, 1, "bfloat16", None, (KVGroup("full", 1, 1, 64, 64),), weights=weights
    )
    cost = RooflineCost(moe, find_gpu("h200"), 16, efficiency=Efficiency(step_ns=0, sequence_ns=0))
    scheduler = scheduler_for(64)
    scheduler.submit(Request(0, 1, 1), 0)
    one = cost.parts(scheduler.plan(0)).linear_memory
    # An expert has (1000 - 400) / (8 - 2) = 100 parameters: one token reads 200 of routed and 200 other ones.
    assert one == pytest.approx(2 * 400 / (0.9 * find_gpu("h200").bandwidth) * 1e9)


@pytest.mark.parametrize(
    "groups",
    [
        (KVGroup("full", 1, 1, 64, 64), KVGroup("sliding", 1, 1, 64, 64, window=512)),
        (KVGroup("sliding", 1, 1, 64, 64, window=512),),
    ],
)
def test_models_with_windows_are_refused_by_name(groups: tuple[KVGroup, ...]) -> None:
    model = ModelShape("gemma-like", "gemma2", 2, 64, 1, "bfloat16", None, groups, weights=LLAMA.weights)
    with pytest.raises(ConfigError, match=r"gemma-like \(model_type 'gemma2'\) needs more than one KV group"):
        RooflineCost(model, find_gpu("h200"), 16)


def test_a_measured_table_is_linear_in_between(tmp_path: object) -> None:
    table = TableCost([1, 101], [1000, 11_000], kv_ns=2.0)
    scheduler = scheduler_for(64)
    scheduler.submit(Request(0, 51, 2), 0)
    plan = scheduler.plan(0)
    assert table.step_ns(plan) == 6000
    with pytest.raises(InputError, match="at least two rows"):
        TableCost([1], [5])


def test_a_cost_table_file(tmp_path: object) -> None:
    from pathlib import Path

    path = Path(str(tmp_path)) / "profile.csv"
    path.write_text("tokens,step_us\n1,10\n2048,200\nkv,1.5\n")
    assert read_cost_table(str(path)) == TableCost([1, 2048], [10_000, 200_000], 1.5)
    path.write_text("tokens,step_us\n1,10\noops\n")
    with pytest.raises(InputError, match=r"profile\.csv:3: expected two numbers, tokens,step_us; got oops"):
        read_cost_table(str(path))
    with pytest.raises(InputError, match="cannot read the cost table"):
        read_cost_table(str(path) + ".missing")


def serving(blocks: int = 4096, slo: Slo | None = None, **config: object) -> ServingSetup:
    made = SchedulerConfig(max_model_len=blocks * 16, **config)  # type: ignore[arg-type]
    return ServingSetup(
        config=made,
        pool_blocks=blocks,
        make_cost=lambda: RooflineCost(LLAMA, find_gpu("h200"), 16),
        slo=slo or Slo(),
    )


def traffic(count: int, rate: float, prompt: int, output: int) -> Workload:
    arrivals = poisson(count, rate, stream(1, "arrivals"))
    return Workload(arrivals, np.full(count, prompt), np.full(count, output))


def test_a_watermark_halves_preemptions_under_pressure_and_too_large_a_one_loses() -> None:
    workload = traffic(160, 40.0, 400, 500)
    runs = {
        share: serve(workload, serving(1600, admission="watermark", watermark=share))[1]
        for share in (0.0, 0.05, 0.8)
    }
    assert runs[0.05].preemptions < runs[0.0].preemptions / 2
    assert runs[0.05].output_throughput >= runs[0.0].output_throughput
    assert runs[0.8].output_throughput < runs[0.05].output_throughput


def test_verdicts() -> None:
    calm = serve(traffic(20, 2.0, 200, 20), serving())[1]
    assert calm.verdict.startswith("keeping up")
    full = serve(traffic(200, 100.0, 2000, 100), serving(2000, watermark=0.05))[1]
    assert full.verdict.startswith("memory-bound")
    few = serve(traffic(100, 100.0, 200, 100), serving(max_num_seqs=4))[1]
    assert few.verdict.startswith("starved at admission")
    naive = serve(traffic(60, 50.0, 200, 200), serving(512, admission="naive", max_num_seqs=64))[1]
    assert naive.verdict.startswith("starved at admission")
    torn = serve(traffic(300, 200.0, 40, 900), serving(1200, watermark=0.0, reserve_full_prompt=False))[1]
    assert torn.verdict.startswith("thrashing")
    assert torn.recompute_tax > 0
    busy = serve(traffic(100, 40.0, 3000, 2), serving(40_000))[1]
    assert busy.verdict.startswith("compute-bound")


def test_goodput_counts_who_meets_both_promises() -> None:
    workload = traffic(50, 20.0, 400, 50)
    open_summary = serve(workload, serving())[1]
    assert open_summary.good == 1
    ttft = open_summary.ttft.p50
    summary = serve(workload, serving(slo=Slo(ttft_s=ttft)))[1]
    assert summary.good == pytest.approx(0.5, abs=0.03)
    assert summary.goodput == pytest.approx(summary.good * summary.request_throughput)


def test_an_slo_nobody_can_meet_is_refused_with_the_least_that_can_be() -> None:
    cost = RooflineCost(LLAMA, find_gpu("h200"), 16)
    workload = traffic(2, 1.0, 1000, 10)
    with pytest.raises(InputError, match=r"nobody can meet an SLO of 1 ms for TPOT.*--slo-tpot at least"):
        check_slo(Slo(tpot_s=0.001), cost, workload)
    with pytest.raises(InputError, match=r"shortest prompt \(1,000 tokens\) takes"):
        check_slo(Slo(ttft_s=0.001), cost, workload)
    check_slo(Slo(ttft_s=1.0, tpot_s=0.1), cost, workload)


def test_the_limit_is_found_between_a_rate_that_holds_and_one_that_does_not() -> None:
    slo = Slo(ttft_s=0.5, share=0.9)
    workload = traffic(150, 10.0, 1500, 60)
    setup = serving(2000, slo=slo)
    rates: list[tuple[float, float]] = []

    def run(scale: float) -> object:
        summary = serve(workload.scaled(scale), setup)[1]
        rates.append((scale, summary.good))
        return summary

    scale, summary = find_limit(run, slo)  # type: ignore[arg-type]
    assert summary.good >= 0.9
    worse = min(tried for tried, good in rates if good < 0.9)
    assert scale < worse <= scale * 1.021


def test_empty_and_impossible_workloads_say_what_to_change() -> None:
    with pytest.raises(InputError, match="no requests"):
        serve(load([], [], []), serving())
    with pytest.raises(
        InputError, match=r"pool of 10 blocks is smaller than the first prompt: 400 tokens fill 25"
    ):
        serve(traffic(1, 1.0, 400, 4), serving(10))
