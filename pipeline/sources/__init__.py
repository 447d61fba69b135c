"""Where records come from: archives, messages, and failures of earlier runs."""
