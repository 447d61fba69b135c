"""What a record says of the generation → a request's configuration, and the headers that go with it."""

from __future__ import annotations

from typing import Any

from groundrows.schemas.errors import RuleError
from groundrows.schemas.gemini import values
from groundrows.schemas.gemini.platform import model_name
from groundrows.schemas.gemini.values import Reader, read_members
from groundrows.schemas.names import camel

THROUGHPUT_HEADER = "X-Vertex-AI-LLM-Request-Type"
TRAFFIC_HEADER = "X-Vertex-AI-LLM-Shared-Request-Type"

_THROUGHPUT = {"PROVISIONED_THROUGHPUT_ONLY": "dedicated", "PAY_AS_YOU_GO_ONLY": "shared"}
_UNSET = "PROVISIONED_THROUGHPUT_SETTING_UNSPECIFIED"


def read_generation(value: object, path: str, *, agent_platform: bool) -> dict[str, Any]:
    """Read a generation spec.

    Returns:
        What of `model`, `generationConfig` and `headers` it sets.

    Raises:
        RuleError: A field can't be used; the message says which and what to do.
    """
    said = read_members(value, path, GENERATION_FIELDS)
    read: dict[str, Any] = {}
    if "model_id" in said:
        read["model"] = said.pop("model_id")
    throughput = said.pop("provisioned_throughput_setting", _UNSET)
    if throughput != _UNSET:
        if not agent_platform:
            raise RuleError(
                "NEEDS_AGENT_PLATFORM",
                f"{path}.provisioned_throughput_setting is known to the Agent Platform only: give "
                "--location=projects/P/locations/L or take it out",
            )
        read["headers"] = {THROUGHPUT_HEADER: _THROUGHPUT[throughput]}
    if said:
        read["generationConfig"] = {camel(name): item for name, item in said.items()}
    return read


def read_model(value: object, path: str) -> str:
    """Read the name of a model."""
    name = model_name(values.text(value, path))
    if name is None:
        raise RuleError("INVALID_MODEL", f"{path} names no model: give a name such as gemini-2.5-flash")
    return name


def _no_language(value: object, path: str) -> object:
    raise RuleError(
        "NO_COUNTERPART",
        f"{path} has no counterpart in Gemini: say in the system instruction in which language to answer",
    )


GENERATION_FIELDS: dict[str, Reader] = {
    "model_id": read_model,
    "language_code": _no_language,
    "temperature": values.number,
    "top_p": values.number,
    "top_k": values.number,
    "frequency_penalty": values.number,
    "presence_penalty": values.number,
    "seed": values.whole,
    "max_output_tokens": values.whole_between(1, 2**31 - 1),
    "provisioned_throughput_setting": values.one_of(*_THROUGHPUT, _UNSET),
}
"""Fields of a record's `generation_spec`."""
