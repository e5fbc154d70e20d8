"""Where a simulation's event log goes: `--events`, `--trace-out`, both or nowhere."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pagefault.cli.console import atomic_file, atomic_path, check_writable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


@contextlib.contextmanager
def event_writer(given: Mapping[str, Any]) -> Iterator[Callable[[str], object] | None]:
    """What takes the lines of the log, None if nobody wants them.

    The files appear when the block ends, whole, and not at all if it raises.

    Raises:
        InputError: A file cannot be written; before anything runs.
    """
    events, trace = given.get("events"), given.get("trace_out")
    for path in (events, trace):
        if path is not None:
            check_writable(path)
    if events is None and trace is None:
        yield None
        return
    with contextlib.ExitStack() as stack:
        if events is not None:
            log = stack.enter_context(atomic_path(events))
        else:
            log = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "events.jsonl"
        with log.open("w", encoding="utf-8", newline="") as stream:
            yield stream.write
        if trace is not None:
            from pagefault.report import read_events, write_chrome_trace

            with atomic_file(trace) as out:
                write_chrome_trace(read_events(log), out.write)
