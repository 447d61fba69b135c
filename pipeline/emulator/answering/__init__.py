"""Where answers come from, whatever API they are for: texts, the search in them, and what an answer says."""
