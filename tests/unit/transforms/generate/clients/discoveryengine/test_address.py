import pytest

from groundrows.schemas.discoveryengine.messages import request_class
from groundrows.transforms.generate.calling.conversation import is_over, turn_request
from groundrows.transforms.generate.clients.discoveryengine.address import address_of
from tests.support.engines import LOCATION, make_check, make_question, make_settings


@pytest.mark.parametrize("version", ["v1", "v1beta", "v1alpha"])
def test_the_address_is_the_one_that_the_request_bears(version: str) -> None:
    for question in (make_question("q"), make_check("a")):
        method = question.method
        field, resource = address_of(make_settings(api_version=version, method=method))
        request = request_class(version, method).FromString(turn_request(question, (), LOCATION))
        assert getattr(request, field) == resource
        assert resource.startswith(LOCATION)


def test_the_two_methods_are_addressed_apart() -> None:
    assert address_of(make_settings()) == ("location", LOCATION)
    field, resource = address_of(make_settings(method="check"))
    assert (field, resource) == ("grounding_config", f"{LOCATION}/groundingConfigs/default_grounding_config")


def test_a_check_has_one_turn_and_any_response_ends_it() -> None:
    question = make_check("Tin melts.")
    assert len(question.turns) == 1
    assert not is_over(question, ())
