"""The contract with both sides: what a question record may say, and what a row looks like.

The lowest floor: nothing here imports `transforms` or `pipeline`.
"""
