"""The other half of `pagefault sim`: real traffic on a model and a GPU."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from pagefault.cli.amounts import GIB, optional_whole, whole
from pagefault.cli.console import command_line, emit_json, note, progress
from pagefault.cli.sim_live import live_views, progress_unless_live
from pagefault.cli.sim_logs import event_writer
from pagefault.cli.sim_options import CLASSIC_ONLY, host_blocks, picked, refuse
from pagefault.cli.sim_view import show_limit, show_run
from pagefault.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pagefault.capacity import Gpu, KVDtype, MemoryBudget, ModelShape
    from pagefault.sim import CostModel, ServingSetup, ServingSummary, SimResult, Slo
    from pagefault.workload import Workload

DEFAULT_WATERMARK = 0.01


@dataclass(frozen=True)
class Server:
    """What is simulated, for the first lines of the output.

    Attributes:
        model: The model.
        gpu: One of its GPUs.
        tp: How many of them.
        budget: Where the pool's size comes from; None if it was given in blocks.
        setup: Pool, scheduler and cost.
    """

    model: ModelShape
    gpu: Gpu
    tp: int
    budget: MemoryBudget | None
    setup: ServingSetup


def run(given: Mapping[str, Any]) -> None:
    """Replay the trace and print what it was like."""
    refuse(given, CLASSIC_ONLY, "belongs to the classic experiment; leave --trace out, or it")
    for name in ("model", "gpu"):
        if name not in given:
            raise InputError(f"--trace needs --{name}: time comes from the model's shape and the GPU's peaks")
    server = _server(given)
    workload, about = _workload(given)
    _check_slo(server, workload)
    if "find_limit" in given:
        _find_limit(server, workload, given)
        return
    about["scale"] = scale = given.get("scale", 1.0)
    result, summary = _replay(server, workload.scaled(scale), given, about)
    for _, reason in result.refused[:1]:
        note(f"{len(result.refused):,} requests can never be served; the first: {reason}")
    if not result.complete:
        note(f"interrupted: the figures are those of the first {result.end_ns / 1e9:,.1f} simulated seconds")
    if "as_json" in given:
        emit_json({**about, **_server_json(server), **asdict(summary)})
    else:
        show_run(server, scale, summary)
    if not result.complete:
        raise KeyboardInterrupt


def _workload(given: Mapping[str, Any]) -> tuple[Workload, dict[str, Any]]:
    from pagefault.workload import read_trace

    with progress("reading") as update:
        found = read_trace(
            given["trace"],
            skip_bad="skip_bad" in given,
            progress=lambda done, total, rows: update(done, total, f"{rows:,} requests"),
        )
    for text in found.notes:
        note(text)
    workload = found.workload
    if "requests" in given:
        if given["requests"] < 1:
            raise InputError(f"--requests is {given['requests']}; expected at least 1")
        workload = workload.head(given["requests"])
    return workload, {
        "command": command_line(),
        "trace": found.source,
        "format": found.format.name,
        "requests_in_trace": len(found.workload),
    }


def _server(given: Mapping[str, Any]) -> Server:
    from pagefault.capacity import check_block_size, find_dtype, find_gpu, load_model
    from pagefault.sim import ServingSetup
    from pagefault.sim.costs import check_one_group

    gpu, tp = find_gpu(given["gpu"]), given.get("tp", 1)
    model = _weighing(load_model(given["model"]), given)
    check_one_group(model)
    dtype = find_dtype(given.get("kv_dtype") or model.dtype)
    block_size = given.get("block_size", 16)
    check_block_size(block_size)
    budget, pool_blocks = _pool(given, model, gpu, tp, dtype, block_size)
    setup = ServingSetup(
        config=_config(given, model, pool_blocks * block_size),
        pool_blocks=pool_blocks,
        block_size=block_size,
        host_blocks=host_blocks(given, pool_blocks),
        prefix_caching="no_prefix_caching" not in given,
        make_cost=_cost(given, model, gpu, tp, dtype, block_size),
        slo=_slo(given),
    )
    return Server(model, gpu, tp, budget, setup)


def _weighing(model: ModelShape, given: Mapping[str, Any]) -> ModelShape:
    """The model with the weights that were given, which are what a step reads too: those of a quantized copy, say."""
    size = optional_whole(given.get("weights_gib"), "--weights-gib", GIB)
    if not size or model.weights is None:  # what weighs nothing is refused with the pool
        return model
    return replace(model, weights=replace(model.weights, bytes=size))


def _pool(
    given: Mapping[str, Any], model: ModelShape, gpu: Gpu, tp: int, dtype: KVDtype, block_size: int
) -> tuple[MemoryBudget | None, int]:
    from pagefault.capacity import bytes_per_token, gpu_budget

    if "pool_blocks" in given:
        refuse(
            given,
            ("gpu_memory_utilization", "overhead_gib"),
            "sizes the pool, and --pool-blocks does too; give one",
        )
        if given["pool_blocks"] < 1:
            raise InputError(f"--pool-blocks is {given['pool_blocks']}; expected at least 1")
        return None, given["pool_blocks"]
    budget = gpu_budget(
        gpu,
        model,
        **({"utilization": given["gpu_memory_utilization"]} if "gpu_memory_utilization" in given else {}),
        tp=tp,
        weights_bytes=optional_whole(given.get("weights_gib"), "--weights-gib", GIB),
        overhead_bytes=optional_whole(given.get("overhead_gib"), "--overhead-gib", GIB),
    )
    block = block_size * bytes_per_token(model, dtype, tp)
    if budget.bytes < block:
        raise InputError(
            f"{budget.bytes:,} bytes are left for the cache, less than one block of {block:,}; see calc"
        )
    return budget, int(budget.bytes // block)


def _config(given: Mapping[str, Any], model: ModelShape, pool_tokens: int) -> Any:
    from pagefault.scheduling import SchedulerConfig

    longest = given.get("max_model_len", min(model.max_position or pool_tokens, pool_tokens))
    return SchedulerConfig(
        **picked(given, "admission", "victim", "preempt", "policy", "max_num_seqs", "max_num_batched_tokens"),
        watermark=given.get("watermark", DEFAULT_WATERMARK),
        max_model_len=longest,
    )


def _cost(
    given: Mapping[str, Any], model: ModelShape, gpu: Gpu, tp: int, dtype: KVDtype, block_size: int
) -> Callable[[], CostModel]:
    from pagefault.sim import Efficiency, RooflineCost, read_cost_table

    shares = {"bandwidth": "bandwidth_efficiency", "compute": "compute_efficiency"}
    times = {"step_ns": "step_us", "sequence_ns": "sequence_us"}
    if "cost_table" in given:
        refuse(
            given,
            (*shares.values(), *times.values()),
            "is part of what --cost-table measured; give one of them",
        )
        if given.get("preempt") == "cheaper":
            raise InputError(
                "--preempt cheaper compares costs that --cost-table does not know; give swap or recompute"
            )
        measured = read_cost_table(given["cost_table"])
        return lambda: measured
    efficiency = Efficiency(
        **{name: given[flag] for name, flag in shares.items() if flag in given},
        **{
            name: whole(given[flag], "--" + flag.replace("_", "-"), 1000)
            for name, flag in times.items()
            if flag in given
        },
    )
    RooflineCost(model, gpu, block_size, tp, dtype, efficiency)  # refuses now what it cannot cost
    return lambda: RooflineCost(model, gpu, block_size, tp, dtype, efficiency)


def _slo(given: Mapping[str, Any]) -> Slo:
    from pagefault.sim import Slo

    if "slo_ttft" not in given and "slo_tpot" not in given:
        refuse(
            given,
            ("find_limit", "slo_share"),
            "needs a promise to keep; give --slo-ttft or --slo-tpot, in milliseconds",
        )
    return Slo(
        ttft_s=given["slo_ttft"] / 1000 if "slo_ttft" in given else None,
        tpot_s=given["slo_tpot"] / 1000 if "slo_tpot" in given else None,
        share=given.get("slo_share", 0.9),
    )


def _check_slo(server: Server, workload: Workload) -> None:
    from pagefault.sim import RooflineCost, check_slo

    cost = server.setup.make_cost()
    if isinstance(cost, RooflineCost):
        check_slo(server.setup.slo, cost, workload, server.setup.prefix_caching)


def _replay(
    server: Server, workload: Workload, given: Mapping[str, Any], about: dict[str, Any]
) -> tuple[SimResult, ServingSummary]:
    from pagefault.sim import EventLog, serve

    setup = server.setup
    with ExitStack() as stack:
        update = stack.enter_context(progress_unless_live(given, "simulating"))

        def tell(ended: int, now_ns: int) -> None:
            if ended % 16 == 0:
                update(ended, len(workload), f"{ended:,} requests, {now_ns / 1e9:,.0f} s simulated")

        write = stack.enter_context(event_writer(given))
        views = stack.enter_context(live_views(given))
        about = {**about, "model": server.model.name, "gpu": server.gpu.name, "tp": server.tp}
        sizes = (setup.config, setup.pool_blocks, setup.block_size)
        logs = [] if write is None else [EventLog(write, about, *sizes)]
        watching = views(f"{server.model.name} on {server.gpu.name}", len(workload))
        result, summary = serve(workload, setup, progress=tell, observers=[*logs, *watching])
        for log in logs:
            log.end(result)
        if len(result.refused) == len(workload):
            raise InputError(
                f"none of the {len(workload):,} requests can ever be served; the first: {result.refused[0][1]}"
            )
        return result, summary


def _find_limit(server: Server, workload: Workload, given: Mapping[str, Any]) -> None:
    from pagefault.sim import find_limit, serve

    refuse(
        given,
        ("events", "trace_out", "live", "scale"),
        "is about one run, and --find-limit makes many; give one of them",
    )
    setup = server.setup

    def at(scale: float) -> ServingSummary:
        with progress(f"{scale:.3g} × the rate") as update:
            result, summary = serve(
                workload.scaled(scale),
                setup,
                progress=lambda ended, now: update(ended, len(workload), f"{now / 1e9:,.0f} s"),
            )
        if not result.complete:
            raise KeyboardInterrupt
        note(f"{scale:.3f} × the rate, {summary.arrival_rate:.2f} requests/s: {100 * summary.good:.1f}% good")
        return summary

    scale, summary = find_limit(at, setup.slo)
    if "as_json" in given:
        emit_json(
            {
                "command": command_line(),
                "limit_scale": scale,
                "limit_rate": summary.arrival_rate,
                **_server_json(server),
                **asdict(summary),
            }
        )
    else:
        show_limit(server, scale, summary)


def _server_json(server: Server) -> dict[str, Any]:
    return {
        "model": server.model.name,
        "gpu": server.gpu.name,
        "tp": server.tp,
        "pool_blocks": server.setup.pool_blocks,
        "block_size": server.setup.block_size,
        "config": asdict(server.setup.config),
    }
