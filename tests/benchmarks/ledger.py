"""A ledger of a million answers: opening, looking up, and giving out what it holds again."""

from __future__ import annotations

import io
import random
import time
from datetime import UTC, datetime
from pathlib import Path

import fastavro

from groundrows.pipeline.emulator.discoveryengine.canned import canned_answer
from groundrows.pipeline.emulator.process import running_emulator
from groundrows.schemas.tables import TABLES
from groundrows.transforms.generate.ledger.base import Entry
from groundrows.transforms.generate.ledger.sqlite import SqliteLedger
from tests.benchmarks.tools import Table, archive, run_pipeline, verdict
from tests.support.runs import rows as table_rows

ENTRIES = 1_000_000
BATCH = 32
RESUMED = 20_000


def _key(number: int) -> bytes:
    return random.Random(number).randbytes(16)


def _fill(path: Path) -> None:
    moment = datetime.now(UTC)
    response = canned_answer()
    ledger = SqliteLedger(str(path))
    for start in range(0, ENTRIES, 10_000):
        ledger.put_many(
            [
                Entry(_key(number), f"q{number}", 0, "model", response, 1, 200.0, moment, moment)
                for number in range(start, start + 10_000)
            ]
        )
    ledger.close()


def _look_ups(path: Path) -> tuple[float, float]:
    """Seconds to open, and keys a second."""
    keys = [_key(number) for number in random.Random(1).sample(range(ENTRIES), 100_000)]
    started = time.perf_counter()
    ledger = SqliteLedger(str(path))
    assert len(ledger.get_many(keys[:1])) == 1
    opened = time.perf_counter()
    found = sum(len(ledger.get_many(keys[at : at + BATCH])) for at in range(0, len(keys), BATCH))
    done = time.perf_counter()
    assert found == len(keys)
    ledger.close()
    return opened - started, len(keys) / (done - opened)


def _bare_writes(output: Path) -> float:
    """Answers a second at which bare fastavro writes the very rows of a run."""
    tables = {table: table_rows(output, table) for table in TABLES}
    started = time.perf_counter()
    for table, rows in tables.items():
        fastavro.writer(io.BytesIO(), TABLES[table].schema, rows, codec="deflate")
    return len(tables["answers"]) / (time.perf_counter() - started)


def _resume(folder: Path) -> tuple[float, float]:
    """Stored answers a second that a run gives out again, start-up aside, and bare fastavro's rate."""
    source = archive(folder, RESUMED)
    few = archive(folder, 1_000)
    with running_emulator("--port=0", "--answers=canned") as emulator:
        run_pipeline(emulator.address, source, folder / "resumed")
        again = run_pipeline(emulator.address, source, folder / "resumed", "--overwrite")
        short = run_pipeline(
            emulator.address,
            few,
            folder / "resumed-few",
            f"--ledger=sqlite://{folder / 'resumed' / '.groundrows' / 'ledger.sqlite'}",
        )
    assert again.summary["calls"] == short.summary["calls"] == 0
    rate = (RESUMED - 1_000) / (again.seconds - short.seconds)
    return rate, _bare_writes(folder / "resumed")


def measure(folder: Path) -> list[Table]:
    """Fill, open, look up; then a run of which every answer is stored."""
    path = folder / "ledger.sqlite"
    _fill(path)
    opening, look_ups = _look_ups(path)
    emitted, bare = _resume(folder)
    size = path.stat().st_size / 1e6
    rows = [
        ("opening", f"{opening:.3f} s", f"<= 1 s {verdict(opening <= 1)}"),
        ("look-ups in batches of 32", f"{look_ups:,.0f} keys/s", f">= 20,000 {verdict(look_ups >= 20_000)}"),
        ("stored answers given out again", f"{emitted:,.0f}/s", f">= 1,000 {verdict(emitted >= 1_000)}"),
        ("bare fastavro, the same rows", f"{bare:,.0f}/s", f"ratio {emitted / bare:.2f}, goal 0.5"),
    ]
    kept = opening <= 1 and look_ups >= 20_000 and emitted >= 1_000
    return [Table(f"A ledger of {ENTRIES:,} answers, {size:,.0f} MB", ("", "", ""), rows, kept)]
