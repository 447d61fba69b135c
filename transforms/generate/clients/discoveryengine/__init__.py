"""The clients of the Grounded Generation API."""
