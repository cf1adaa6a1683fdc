"""What requests use and cost, and the limits of keys.

`meter` is what a leg calls, `accounts` holds what each key has used, `sums` adds entries up, `limits` and `prices` are
values. The package does no I/O: `app` stores the entries and reports what the ledger knows.
"""
