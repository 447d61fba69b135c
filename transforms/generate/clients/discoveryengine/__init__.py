"""The Grounded Generation API as a backend."""
