"""What a client's tools can do, judged by their names and schemas."""
