"""Importing the API's messages without its clients.

The client package imports every client it has before the first message can be had, which takes 0.75 s
of a start that otherwise takes a third of that; a run with the emulator inside, and each test that
starts one, would wait for it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

_PACKAGE = "google.cloud.discoveryengine_v1beta"


def import_messages_alone() -> None:
    """Let `discoveryengine_v1beta.types` be imported without running the packages' own `__init__`.

    Only for a process that uses no client of the package afterwards. Does nothing when the package is
    imported already, or is not where it is expected.
    """
    import google.cloud

    if _PACKAGE in sys.modules:
        return
    for parent in google.cloud.__path__:
        package = Path(parent) / "discoveryengine_v1beta"
        if (package / "types" / "grounded_generation_service.py").is_file():
            for name, path in ((_PACKAGE, package), (f"{_PACKAGE}.types", package / "types")):
                module = ModuleType(name)
                module.__path__ = [str(path)]
                sys.modules[name] = module
            return
