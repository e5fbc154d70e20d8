"""Who may start: each admission policy on examples worked out by hand. Blocks hold 4 tokens."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagefault.paging import Pager
from pagefault.scheduling import Request, SchedulerConfig, SequenceRecord
from pagefault.scheduling.admission import AdmissionControl
from pagefault.scheduling.running import RunningSet
from scheduling.executor import request
from scheduling.situations import BLOCK, executor, finished, frames_are_a_run, running, submit, waiting


def test_naive_reserves_the_longest_sequence_for_each_in_one_run() -> None:
    machine = executor(8, admission="naive", max_model_len=16)
    submit(machine, (5, 3), (2, 5), (1, 1))
    machine.step()
    assert running(machine) == [0, 1]  # 16 tokens are 4 blocks: two of them are the pool
    assert machine.pager.stats().used == 8
    assert all(frames_are_a_run(machine, row, 4) for row in (0, 1))
    machine.step()
    machine.step()
    assert finished(machine) == [0]
    machine.step()
    assert running(machine) == [1]
    assert finished(machine) == [0, 2]


def test_naive_waits_for_a_run_where_frames_are_scattered() -> None:
    machine = executor(6, admission="naive", max_model_len=16)
    pager = machine.pager
    first, second = pager.open(), pager.open()  # somebody else's
    pager.grow([first, second], 2 * BLOCK)
    pager.release(first)
    assert pager.free_frames == 4
    submit(machine, (1, 1))
    machine.step()
    assert waiting(machine) == [0]
    assert pager.stats().used == 2
    pager.release(second)
    machine.step()
    assert finished(machine) == [0]


def test_max_output_reserves_prompt_and_output_and_never_preempts() -> None:
    machine = executor(8, admission="max_output", watermark=0.5)
    # 8 + 9 and 4 + 13 tokens, of which the last is never stored: 16 tokens, 4 blocks each.
    submit(machine, (8, 9), (4, 13), (4, 1))
    machine.step()
    assert running(machine) == [0, 1]
    assert machine.pager.stats().used == 8
    while not machine.finished:
        assert not machine.step().preempted
    assert finished(machine) == [0]
    machine.step()
    assert finished(machine) == [0, 2]


def test_max_output_counts_what_the_prefix_cache_has() -> None:
    machine = executor(5, admission="max_output", caching=True)
    machine.groups.update({0: 0, 1: 0, 2: 1})
    machine.scheduler.submit(request(0, 9, 8, BLOCK, group=0), 0)  # 16 stored: 4 of 5 blocks
    machine.step()
    machine.scheduler.submit(request(1, 9, 4, BLOCK, group=0), 0)  # 12 stored: 3 blocks, 2 of them shared
    machine.scheduler.submit(request(2, 1, 1, BLOCK, group=1), 0)
    machine.step()
    assert running(machine) == [0, 1]
    assert machine.scheduler.record(1).hit_tokens == 8
    machine.drain(20)
    # Blocks that nobody references are hits, too, but taking them uses up free frames: 4 of 5 as before.
    machine.scheduler.submit(request(3, 9, 8, BLOCK, group=0), 0)
    machine.groups[3] = 0
    machine.scheduler.submit(request(4, 5, 4, BLOCK, group=1), 0)
    machine.step()
    assert running(machine) == [3]


@pytest.mark.parametrize("watermark", [0.25, 0.29])  # int(0.29 * 20) = 5 as well
def test_watermark_leaves_its_share_of_the_pool_free(watermark: float) -> None:
    machine = executor(20, watermark=watermark)
    submit(machine, (39, 6), (20, 2), (1, 1))
    machine.step()
    assert running(machine) == [0, 1]  # 10 blocks, then 5 of the 10 left, and 5 stay free
    assert waiting(machine) == [2]
    machine.step()  # 0 is at 40 tokens, 1 ends
    assert finished(machine) == [1]
    machine.step()  # 0 takes one of the 10 for its 41st token; 9 are free
    assert finished(machine) == [1, 2]


def test_watermark_does_not_apply_while_nothing_runs() -> None:
    machine = executor(20, watermark=0.9)
    submit(machine, (79, 1), (1, 1))
    machine.step()
    assert finished(machine) == [0]
    assert waiting(machine) == [1]
    machine.step()
    assert finished(machine) == [0, 1]


@pytest.mark.parametrize(("blocks", "both"), [(10, True), (9, False)])
def test_estimate_without_experience_expects_every_output_to_be_the_longest(blocks: int, both: bool) -> None:
    machine = executor(blocks, admission="estimate")
    submit(machine, (8, 8), (8, 8))
    # Both end together: 2 · 8 + 2 · 8 = 32 tokens, 8 blocks, and a partly filled one each.
    machine.step()
    assert running(machine) == ([0, 1] if both else [0])


@pytest.mark.parametrize(("blocks", "both"), [(7, True), (6, False)])
def test_estimate_takes_the_fullest_moment(blocks: int, both: bool) -> None:
    machine = executor(blocks, admission="estimate")
    submit(machine, (8, 12), (4, 3))
    # When 1 ends: 12 + 2 · 3 = 18 tokens. When 0 ends: 8 + 12 = 20 tokens, 5 blocks, and 2.
    machine.step()
    assert running(machine) == ([0, 1] if both else [0])


def test_estimate_learns_from_those_that_finished() -> None:
    machine = executor(10, admission="estimate")
    submit(machine, (4, 2))
    machine.drain(3)
    submit(machine, (8, 24), (8, 24))
    machine.step()  # expected: 16 + 2 · 2 tokens, 5 blocks, and 2. At the longest it would be 16 + 2 · 24.
    assert running(machine) == [1, 2]
    machine.scheduler.cancel(2, machine.now)
    machine.step()
    submit(machine, (8, 2))  # 1 has outlived all experience: now it may take its 24
    machine.step()  # 8 + 24 and 8 + 2 tokens: at the end of 1, 32 tokens, 8 blocks, and 2: fits
    assert running(machine) == [1, 3]
    submit(machine, (8, 2))
    machine.step()
    assert waiting(machine) == [4]


def test_estimate_keeps_the_watermark_on_top() -> None:
    machine = executor(10, admission="estimate", watermark=0.1)
    submit(machine, (8, 8), (8, 8))  # 10 blocks, as above, and 1 to leave free
    machine.step()
    assert running(machine) == [0]


@settings(deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 40)), min_size=1, max_size=8))
def test_the_expected_peak_is_that_of_playing_it(sequences: list[tuple[int, int]]) -> None:
    config = SchedulerConfig(admission="estimate")
    control = AdmissionControl(config, Pager(64, BLOCK, max_seqs=8))
    running_set = RunningSet(8)
    records = [
        SequenceRecord(Request(number, prompt, output), number, 0, row=number)
        for number, (prompt, output) in enumerate(sequences)
    ]
    for record in records[:-1]:
        running_set.add(record, record.tokens)
    played = max(
        sum(prompt + steps for prompt, output in sequences if output >= steps)
        for steps in range(1, 1 + max(output for _, output in sequences))
    )
    assert control.expected_peak(records[-1], running_set) == played // BLOCK + len(sequences)


def test_experience_is_of_the_last_sequences_and_of_those_that_went_further() -> None:
    control = AdmissionControl(SchedulerConfig(), Pager(64, BLOCK, max_seqs=8))
    limit = np.full(4, 100)
    generated = np.array([0, 10, 19, 40])
    assert control._expected_output(generated, limit).tolist() == [100] * 4
    for length in (10, 20, 31):
        control.learn(length)
    # mean of 10, 20, 31; of 20, 31 (10 is not further); of 20, 31; nobody went that far: the longest.
    assert control._expected_output(generated, limit).tolist() == [21, 26, 26, 100]
    assert control._expected_output(generated, np.full(4, 25)).tolist() == [21, 25, 25, 25]
    for _ in range(4096):
        control.learn(7)
    assert control._expected_output(generated, limit).tolist() == [7, 100, 100, 100]
