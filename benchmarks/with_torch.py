"""Imported before PyTorch by the programs that need it: ends them in one line where it is not installed."""

from __future__ import annotations

import sys
from importlib.util import find_spec

if find_spec("torch") is None:
    sys.stderr.write("this benchmark needs PyTorch: pip install '.[gpu]' in the checkout\n")
    sys.exit(2)
