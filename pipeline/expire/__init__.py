"""Takes what Google Search found out of stored answers: of rows (`rows.py`) and of ledgers (`ledgers.py`)."""
