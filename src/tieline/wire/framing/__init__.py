"""How bytes are cut into messages."""
