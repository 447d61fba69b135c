"""What is the Grounded Generation API's own: its messages, its rules, and requests built from records."""
