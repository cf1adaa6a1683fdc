"""Client keys: their rules, the table that stores them, and the copy that the gateway holds in memory."""
