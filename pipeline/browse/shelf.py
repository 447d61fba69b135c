"""A run, or two, opened for reading: their indexes, the words in them, and the verdicts on their answers."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType

import duckdb
import pyarrow as pa

from groundrows.pipeline.browse import index, place, words
from groundrows.pipeline.browse.pairs import pair
from groundrows.pipeline.browse.verdicts import Verdicts
from groundrows.pipeline.query.run import Run

THIS, OTHER = "this", "other"
MEMORY = "512MB"
# Searches whose hits stay in memory; those of a million are 8 MB.
MOST_SEARCHES = 8


class Shelf:
    """The run and, for a comparison, the earlier one. It may be used from several threads."""

    def __init__(self, run: Run, earlier: Run | None, say: index.Say) -> None:
        """Open the indexes, and make those that are not there.

        Raises:
            UsageError: A file can't be read.
        """
        self.run = run
        self.earlier = earlier
        self.verdicts = Verdicts(run.directory)
        self._name = place.name_of(run)
        self._stack = ExitStack()
        self._lock = threading.Lock()
        self._searches: OrderedDict[str, words.Hits | None] = OrderedDict()
        self._state: tuple[int, int] | None = None
        try:
            self._stack.callback(self.verdicts.close)
            self._db = self._stack.enter_context(duckdb.connect(config={"memory_limit": MEMORY}))
            self._db.execute("SET enable_progress_bar = false")
            self._db.execute("SET parquet_metadata_cache = true")
            folder = self._attached(THIS, run, say)
            self._words = words.Reader(folder)
            self._stack.callback(self._words.close)
            if earlier is not None:
                self._attached(OTHER, earlier, say)
                pair(self._db)
            self._db.execute(
                "CREATE TABLE verdicts (no UINTEGER, verdict VARCHAR, note VARCHAR, version BIGINT)"
            )
            ((self.answers, self.failures),) = self._db.execute(
                "SELECT count(*) FILTER (kind = 'answer'), count(*) FILTER (kind = 'failure') "
                "FROM this.entries"
            ).fetchall()
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Shelf:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _attached(self, schema: str, run: Run, say: index.Say) -> str:
        name, room = place.name_of(run), place.room_of(run.directory)
        folder = self._stack.enter_context(
            place.kept(room, name, lambda folder: index.build(run, folder, say))
        )
        database = str(Path(folder) / index.DATABASE).replace("'", "''")
        self._db.execute(f"ATTACH '{database}' AS {schema} (READ_ONLY)")
        index.view_rows(self._db, folder, schema, temporary=False)
        return folder

    @property
    def is_current(self) -> bool:
        """Whether the files are as they were when the index was made."""
        return place.name_of(self.run) == self._name

    @contextmanager
    def opened(self, hits: words.Hits | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection of one's own, with the tables `hits` and `first` of a search where there was one."""
        self._take_up_verdicts()
        with self._db.cursor() as db:
            if hits is not None:
                db.register("hits", pa.table({"no": hits.found}))
                db.register("first", pa.table({"no": hits.in_question}))
            yield db

    def search(self, text: str) -> words.Hits | None:
        """The entries that hold what a person typed; None where that has no word.

        Raises:
            UsageError: It is too long.
        """
        with self._lock:
            if text in self._searches:
                self._searches.move_to_end(text)
                return self._searches[text]
        found = self._words.search(text)
        with self._lock:
            self._searches[text] = found
            while len(self._searches) > MOST_SEARCHES:
                self._searches.popitem(last=False)
        return found

    def _take_up_verdicts(self) -> None:
        """Bring the table of verdicts up to date, with what other processes wrote, too."""
        state = self.verdicts.state()
        with self._lock:
            if state == self._state:
                return
            given = self.verdicts.all()
            with self._db.cursor() as db:
                db.register(
                    "given",
                    pa.table(
                        {
                            "run_id": pa.array([each.run_id for each, _ in given], pa.string()),
                            "id": pa.array([each.answer_id for each, _ in given], pa.string()),
                            "moment": pa.array([each.answered_at for each, _ in given], pa.int64()),
                            "verdict": pa.array([each.verdict for _, each in given], pa.string()),
                            "note": pa.array([each.note for _, each in given], pa.string()),
                            "version": pa.array([each.version for _, each in given], pa.int64()),
                        }
                    ),
                )
                db.execute("BEGIN")
                db.execute("DELETE FROM memory.verdicts")
                db.execute(
                    "INSERT INTO memory.verdicts SELECT no, verdict, note, version "
                    "FROM this.entries JOIN given USING (run_id, id, moment) WHERE kind = 'answer'"
                )
                db.execute("COMMIT")
            self._state = state
