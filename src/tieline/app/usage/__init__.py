"""The usage ledger: a spool on disk, which survives a crash, and tables in the database, which all replicas share."""
