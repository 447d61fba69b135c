"""Opens a run's rows as tables for queries. The report, the export and the reader use this."""
