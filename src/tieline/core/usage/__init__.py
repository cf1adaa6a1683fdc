"""What requests use and cost, and the limits of keys.

`meter` is what a leg calls, `accounts` holds what each key has used, `limits` and `prices` are values. The package does
no I/O: `app` writes the entries down and reports what the ledger knows.
"""
