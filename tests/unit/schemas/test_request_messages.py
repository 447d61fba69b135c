import pytest

from groundrows.schemas.discoveryengine.messages import message_version, request_class, response_class


def test_classes_are_those_of_their_version() -> None:
    for version in ("v1", "v1beta"):
        package = f"google.cloud.discoveryengine.{version}"
        assert request_class(version).DESCRIPTOR.full_name == f"{package}.GenerateGroundedContentRequest"
        assert response_class(version).DESCRIPTOR.full_name == f"{package}.GenerateGroundedContentResponse"
        assert request_class(version) is request_class(version)


def test_v1alpha_has_no_messages_of_its_own() -> None:
    assert message_version("v1alpha") == "v1"
    assert request_class("v1alpha") is request_class("v1")


@pytest.mark.parametrize("version", ["v2", "", "V1"])
def test_unknown_versions_are_named(version: str) -> None:
    with pytest.raises(ValueError, match="v1, v1beta, v1alpha"):
        request_class(version)
