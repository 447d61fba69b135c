"""The API's methods, and its messages as plain protobuf classes.

Responses are made of v1beta's messages, which hold every field of v1's under the same number and type (a
test compares the descriptors); what v1 has no field for is never put into an answer to v1. A request is read
with its own version's message, so that v1 knows nothing of a field that only v1beta has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from google.protobuf import message_factory

from groundrows.pipeline.emulator.calls import Transport
from groundrows.schemas.discoveryengine.messages import ApiVersion, Pb, request_class, response_class

MethodName = Literal["GenerateGroundedContent", "StreamGenerateGroundedContent", "CheckGrounding"]
GrpcVersion = Literal["v1", "v1beta"]  # v1alpha is REST alone

Request = request_class("v1beta")
Response = response_class("v1beta")
CheckRequest = request_class("v1beta", "check")
CheckResponse = response_class("v1beta", "check")

_Metadata = Response.Candidate.GroundingMetadata
Retrieved = _Metadata.RetrievalMetadata
FactChunk = message_factory.GetMessageClass(
    _Metadata.DESCRIPTOR.fields_by_name["support_chunks"].message_type
)


@dataclass(frozen=True, slots=True)
class Origin:
    """What is called, and by which way.

    Attributes:
        method: The method's name, without package or service.
        version: The API's version.
        transport: How the call came.
    """

    method: MethodName
    version: ApiVersion
    transport: Transport
    api: ClassVar[str] = "discoveryengine"

    @property
    def streams(self) -> bool:
        """Whether the answer is told in parts."""
        return self.method == "StreamGenerateGroundedContent"

    @property
    def is_check(self) -> bool:
        """Whether the call checks an answer rather than asks for one."""
        return self.method == "CheckGrounding"

    @property
    def request_class(self) -> type[Pb]:
        """The message that the call's request is."""
        return request_class(self.version, "check" if self.is_check else "generate")


def text_of(content: Any) -> str:
    """The text parts of a `GroundedGenerationContent`, one after another."""
    return "".join(part.text for part in content.parts)


def user_turns(request: Any) -> list[str]:
    """The user's turns of a request, oldest first; a content without a role counts as the user's."""
    return [text_of(content) for content in request.contents if content.role in ("user", "")]
