"""What is Gemini's own: its JSON, its rules, requests built from records, and responses read by hand."""
