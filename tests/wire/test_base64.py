"""Base64 is checked without decoding it, and judged as a strict decoder does."""

import re
from binascii import a2b_base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline.wire.shared.base64 import check_base64


@given(st.text("AB+/=\n-é", max_size=12))
def test_the_check_agrees_with_a_strict_decoder(text: str) -> None:
    try:
        a2b_base64(text.encode(), strict_mode=True)
    except ValueError as error:
        with pytest.raises(ValueError, match=re.escape(str(error))):
            check_base64(text)
    else:
        check_base64(text)
