"""Makes the calls of a process on one event loop.

Some words that these modules use:

- A *question* is one record to ask. It has one *turn*, or several when it is a conversation.
- An *attempt* is one call for a turn. A turn whose attempt fails gets another one, up to a maximum.
- The *ledger* stores the response to each turn, so that no turn is paid for twice.
- A *lease* in the ledger says which process may ask a turn. It prevents two processes from asking the same.
- A *claim* in the ledger says which record was the first to ask a question. Later ones are duplicates.
- A *bundle* is the part of a PCollection that Beam processes as one unit. Beam may run it again.
- A *shard* is a part of the questions, with its own part of the rate limit and of the budget.
"""
