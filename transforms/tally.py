"""What happened in this process before there was a question, for a display of progress.

The runner's own counters can be read only when a run is over.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Tally:
    """Counts for people to look at: threads may lose one to each other.

    Attributes:
        broken: Records that became a failure without being asked.
    """

    broken: int = 0


TALLY = Tally()
"""The process's own."""
