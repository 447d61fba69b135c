from groundrows.pipeline.run.expected import Needs, expected_of
from groundrows.schemas.spending import Need, Spent


def needs_of(*needs):
    found = {}
    for need in needs:
        found.setdefault(need.model, Needs()).add(need)
    return found


NEEDS = needs_of(
    Need("flash", prompt=100, most_answer=None, may_search=True),
    Need("flash", prompt=300, most_answer=200, may_search=True),
    Need("flash", prompt=50, most_answer=9_000, may_search=False),
    Need("pro", prompt=7, most_answer=None, may_search=False),
)


def test_an_answer_takes_what_is_supposed_unless_its_request_allows_less():
    expected = expected_of(NEEDS, 500, 1.5)
    flash = Spent(prompt=450, answer=1_200, total=1_650, searches=3, searched_calls=2)
    assert expected == {"flash": flash, "pro": Spent(prompt=7, answer=500, total=507)}


def test_of_a_part_of_the_requests_a_part_is_expected():
    flash = expected_of(NEEDS, 500, 0.0, share=0.5)["flash"]
    assert flash == Spent(prompt=225, answer=600, total=825)
