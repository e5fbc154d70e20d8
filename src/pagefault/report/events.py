"""Reads event logs: what docs/events.md describes, as arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from pagefault.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

FORMAT, VERSION = "pagefault-events", 1


class Header(msgspec.Struct, forbid_unknown_fields=False):
    """The first line of a run.

    Attributes:
        about: What ran; `command` is there, the rest depends on the command.
        pool_blocks: Frames.
        block_size: Tokens a frame.
        config: Every setting of the scheduler.
    """

    about: dict[str, Any]
    pool_blocks: int
    block_size: int
    config: dict[str, Any]

    @property
    def name(self) -> str:
        """What to call the run."""
        about = self.about
        if "run" in about:
            return str(about["run"])
        return f"{about.get('model', 'a model')} on {about.get('gpu', 'a GPU')}"

    @property
    def command(self) -> str:
        """What made it."""
        return str(self.about.get("command", "pagefault sim"))


class Line(msgspec.Struct):
    """Any other line; what a kind of line does not have keeps its default. See docs/events.md for the keys."""

    t: int
    e: str
    id: int = -1
    prompt: int = 0
    output: int = 0
    row: int = -1
    hit: int = 0
    beneficiary: int = msgspec.field(default=-1, name="for")
    how: str = ""
    frames: int = 0
    lost: int = 0
    tokens: int = 0
    preemptions: int = 0
    n: int = 0
    prefill: int = 0
    decode: int = 0
    stalled: int = 0
    running: int = 0
    waiting: int = 0
    swapped: int = 0
    free: int = 0
    tables: list[list[int]] = []
    on: list[int] = []
    off: list[int] = []
    stalled_on: list[int] = []
    stalled_off: list[int] = []
    lengths: list[list[int]] = []
    cached: list[int] = []
    complete: bool = True
    steps: int = 0


class _First(msgspec.Struct):
    format: str = ""
    version: int = 0


STEP_COLUMNS = ("t", "prefill", "decode", "stalled", "running", "waiting", "swapped", "free")


@dataclass
class RunLog:
    """One run of a log.

    Attributes:
        header: Its first line.
        lines: Every other line but the last, in order.
        complete: Whether the run came to its end.
    """

    header: Header
    lines: list[Line] = field(default_factory=list)
    complete: bool = False

    @property
    def end_ns(self) -> int:
        """When the last thing happened."""
        return self.lines[-1].t if self.lines else 0

    def steps(self) -> Iterator[Line]:
        """The lines of steps."""
        return (line for line in self.lines if line.e == "step")

    def sequence_events(self) -> Iterator[Line]:
        """The lines about sequences."""
        return (line for line in self.lines if line.e != "step")

    def columns(self) -> dict[str, Ints]:
        """The steps as arrays, int64 [steps]: `t` is when each ended, the others as in the log."""
        steps = list(self.steps())
        return {name: np.array([getattr(step, name) for step in steps], np.int64) for name in STEP_COLUMNS}


def is_event_log(path: Path) -> bool:
    """Whether a file begins like one."""
    with path.open("rb") as stream:
        return FORMAT.encode() in stream.readline(4096)


def read_events(path: Path | str) -> list[RunLog]:
    """All runs of a log, in order.

    Raises:
        InputError: The file cannot be read, is no event log, is of a version that is not known, or has a line that is
            broken; the message names file and line.
    """
    path = Path(path)
    runs: list[RunLog] = []
    first, header, line = (
        msgspec.json.Decoder(_First),
        msgspec.json.Decoder(Header),
        msgspec.json.Decoder(Line),
    )
    try:
        with path.open("rb") as stream:
            for number, text in enumerate(stream, 1):
                try:
                    if text.startswith(b'{"format"'):
                        found = first.decode(text)
                        if found.version != VERSION:
                            raise InputError(
                                f"{path}: events of version {found.version}; this PageFault reads {VERSION}: write the "
                                "log again with pagefault sim --events"
                            )
                        runs.append(RunLog(header.decode(text)))
                        continue
                    if not runs:
                        raise InputError(
                            f"{path} is no event log: write one with pagefault sim --events {path}"
                        )
                    event = line.decode(text)
                except msgspec.MsgspecError as error:
                    raise InputError(
                        f"{path}:{number}: {error}; expected a line as docs/events.md describes it: the log is broken "
                        "or was cut off"
                    ) from None
                if event.e == "end":
                    runs[-1].complete = event.complete
                else:
                    runs[-1].lines.append(event)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    if not runs:
        raise InputError(f"{path} is empty; expected an event log of pagefault sim --events")
    return runs
