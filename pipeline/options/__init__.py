"""Every flag, and what it may be; checked without importing Beam."""
