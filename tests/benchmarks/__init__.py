"""Measurements: `make bench` prints them as tables. Timings are ratios within one run, or name their limit."""
