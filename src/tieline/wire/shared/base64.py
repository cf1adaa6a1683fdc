"""Validate base64 without decoding it, in a fraction of the time that decoding takes."""

from binascii import a2b_base64

_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_PADDING = (b"", b"=", b"==")


def check_base64(text: str) -> None:
    """Raise ValueError with the reason if a strict decoder would reject the text."""
    data = text.encode()
    rest = data.translate(None, _ALPHABET)
    if len(data) % 4 or rest not in _PADDING or not data.endswith(rest):
        a2b_base64(data, strict_mode=True)
