"""`groundrows browse`: a reader of all answers of a run or two, served to this machine alone."""
