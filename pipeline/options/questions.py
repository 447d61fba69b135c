"""The flags that say which fields of a record are read, and how a question is made from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from groundrows.pipeline.options.flag import Flag, Only, Parameter, flag


@dataclass(frozen=True, kw_only=True)
class QuestionOptions:
    """How a question, or an answer to check, is made from a record."""

    GROUP: ClassVar[str] = "what to ask"

    mode: str = flag(
        "generate",
        Flag(
            "What to do with a record: generate an answer to its question, or check the `answer` that it "
            "holds against the `facts` that it holds.",
            choices=("generate", "check"),
        ),
    )
    question_field: str = flag(
        "question", Flag("The field that holds the question.", metavar="NAME", empty="refused")
    )
    id_field: str = flag("id", Flag("The field that identifies a question.", metavar="NAME", empty="refused"))
    reference_field: str | None = flag(
        None,
        Flag(
            "The field that holds the right answer, or a list of right answers. Each answer is compared with "
            "them in the columns reference_exact, reference_contained and reference_f1. They are never sent "
            "to the service.",
            metavar="NAME",
            empty="refused",
            only=Only.GENERATING,
        ),
    )
    question_template: tuple[str, ...] = flag(
        (),
        Flag(
            "The text to ask, with names of the record's fields in {braces}. Repeat the flag for the next "
            "turn of the conversation.",
            metavar="TEXT",
            repeated=True,
            only=Only.GENERATING,
        ),
    )
    answer_field: str = flag(
        "answer",
        Flag(
            "The field that holds the answer to check, with --mode=check.",
            metavar="NAME",
            empty="refused",
            only=Only.CHECKING,
        ),
    )
    request_defaults: str | None = flag(
        None,
        Flag(
            "A JSON file with a partial request. Its fields apply to every request, unless the record sets "
            "them.",
            metavar="FILE",
            only=Only.GENERATING,
            template=Parameter("GCS_READ_FILE"),
        ),
    )
