"""The neutral vocabulary: what is said, spelled in no protocol's dialect."""
