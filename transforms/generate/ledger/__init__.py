"""The ledger: a store of responses. Each is stored when it arrives, so that it is paid for only once."""
