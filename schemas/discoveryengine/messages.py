"""The service's messages: plain protobuf classes, loaded when first asked for.

Reading a response through the client library's own wrappers costs about ten times the plain message, so
everything here works on the plain ones.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from functools import cache
from types import ModuleType
from typing import Any, Literal, TypeAlias

from groundrows.schemas.service import Method

# The classes are made at run time: no type checker knows their fields.
Pb: TypeAlias = Any

ApiVersion = Literal["v1", "v1beta", "v1alpha"]
API_VERSIONS: tuple[ApiVersion, ...] = ("v1", "v1beta", "v1alpha")

_MESSAGES: dict[Method, str] = {"generate": "GenerateGroundedContent", "check": "CheckGrounding"}

_loading = threading.Lock()


def message_version(api_version: str) -> str:
    """The package whose messages an API version uses: v1alpha has none in Python and speaks v1's.

    Raises:
        ValueError: for a version that is none of `API_VERSIONS`.
    """
    if api_version not in API_VERSIONS:
        raise ValueError(f"api_version is {api_version!r}: give one of {', '.join(API_VERSIONS)}")
    return "v1" if api_version == "v1alpha" else api_version


@cache
def request_class(api_version: str, method: Method = "generate") -> type[Pb]:
    """The request message of `method` in `api_version`, as a plain protobuf class."""
    return _message_class(api_version, f"{_MESSAGES[method]}Request")


@cache
def response_class(api_version: str, method: Method = "generate") -> type[Pb]:
    """The response message of `method` in `api_version`, as a plain protobuf class."""
    return _message_class(api_version, f"{_MESSAGES[method]}Response")


def _message_class(api_version: str, name: str) -> type[Pb]:
    module = _types_module(message_version(api_version))
    pb: type[Pb] = getattr(module, name).pb()
    return pb


def _types_module(version: str) -> ModuleType:
    """The client library's module of message types, without the clients around it where that is possible."""
    package = f"google.cloud.discoveryengine_{version}"
    with _loading:
        if package not in sys.modules and importlib.util.find_spec(package) is not None:
            return _types_alone(package)
        return importlib.import_module(f"{package}.types.grounded_generation_service")


def _types_alone(package: str) -> ModuleType:
    """Import the one module of types below `package` without running the package's own `__init__`.

    That `__init__` imports the clients of all 25 services: 0.54 s and 79 MB against 0.06 s and 17 MB, in
    every worker process. An empty module stands in for `types` meanwhile, and is taken away again, so that
    whoever imports the whole package later gets it, with these same message classes inside.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.submodule_search_locations is None:  # pragma: no cover - checked by the caller
        raise ModuleNotFoundError(f"no package {package}", name=package)
    name = f"{package}.types"
    stand_in = ModuleType(name)
    stand_in.__path__ = [f"{location}/types" for location in spec.submodule_search_locations]
    sys.modules[name] = stand_in
    try:
        return importlib.import_module(f"{name}.grounded_generation_service")
    finally:
        del sys.modules[name]
