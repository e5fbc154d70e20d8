"""The exception tree: everything PageFault raises on purpose has one base class.

A message is for a person: it names what was given, what was expected and what to do. The command
line prints it as one line and exits with code 2; whoever embeds the library catches the class.
"""

from __future__ import annotations


class PageFaultError(Exception):
    """Base of every error that PageFault raises on purpose."""


class InputError(PageFaultError, ValueError):
    """Something a person gave is wrong: an option, a shape, a file."""


class ConfigError(InputError):
    """A model configuration that cannot be read or is not understood; the message names the field."""


class TraceError(InputError):
    """A trace that cannot be read; the message names the file, the line and what was expected."""


class PagingError(PageFaultError):
    """A call on the pager that changed nothing because it could not be done."""


class OutOfFrames(PagingError):
    """The pool has too few free frames *now*; when sequences finish, the same call can succeed.

    Attributes:
        short: How many frames are missing.
    """

    def __init__(self, message: str, short: int) -> None:
        super().__init__(message)
        self.short = short


class NeverFits(PagingError):
    """What was asked for is larger than the whole pool or table: no amount of waiting helps."""


class BadHandle(PagingError):
    """A frame or row that the caller does not hold: out of range, never given out, or given back twice."""


class InvariantBroken(PageFaultError):
    """`check()` found a broken invariant; the message names it with both sides of the equation."""


class CheckFailed(PageFaultError):
    """A computed result is outside its tolerance of the reference."""


class MissingExtra(PageFaultError, ImportError):
    """An optional dependency is not installed; the message names the extra to install."""
