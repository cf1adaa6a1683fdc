"""Keys of clients: the rules of a key, the table of stored keys, and the keys that the gateway holds in memory."""
