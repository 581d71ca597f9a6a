"""Libraries loaded where they are used, so that `import tensorc` and `tensorc --help` stay quick.

Some of them carry no types; they enter the project here, as Any, and nowhere else.
"""

from __future__ import annotations

import importlib
from typing import Any

from tensorc.errors import Unavailable


def library(name: str, install: str) -> Any:
    """The module `name`. Raises Unavailable, naming what installs it, if it cannot be imported."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Unavailable(f"{name} cannot be imported ({error}); pip install {install}") from error


def llvm() -> Any:
    """llvmlite's binding layer."""
    return library("llvmlite.binding", "'llvmlite>=0.50,<0.51'")
