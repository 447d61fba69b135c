import subprocess
import sys


def run(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_question_costs_no_import_of_the_clients_or_of_beam() -> None:
    run(
        "import sys\n"
        "from groundrows.schemas.question import RecordSettings, parse_question\n"
        "from groundrows.schemas.record import Record\n"
        "assert not [m for m in sys.modules if 'google.cloud.discoveryengine' in m]\n"
        "parse_question(Record(b'{\"question\": \"Why?\"}', ''), RecordSettings())\n"
        "assert not {'apache_beam', 'grpc', 'google.api_core', 'google.cloud.discoveryengine_v1'} & sys.modules.keys()\n"
        "assert not [m for m in sys.modules if 'discoveryengine_v1beta' in m]\n"
    )


def test_whoever_imports_the_whole_library_later_gets_it_with_the_same_classes() -> None:
    run(
        "from groundrows.schemas.discoveryengine.messages import request_class, response_class\n"
        "request, response = request_class('v1'), response_class('v1')\n"
        "from google.cloud import discoveryengine_v1 as library\n"
        "assert library.GroundedGenerationServiceAsyncClient\n"
        "assert library.GenerateGroundedContentRequest.pb() is request\n"
        "assert library.GenerateGroundedContentResponse.pb() is response\n"
        "assert library.types.Document\n"
    )


def test_a_library_imported_before_is_used_as_it_is() -> None:
    run(
        "from google.cloud import discoveryengine_v1beta as library\n"
        "from groundrows.schemas.discoveryengine.messages import request_class\n"
        "assert library.GenerateGroundedContentRequest.pb() is request_class('v1beta')\n"
    )
