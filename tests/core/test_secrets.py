"""Secrets are removed from messages, also those that become known while the gateway runs."""

from tieline.core.watch.secrets import Secrets


def test_a_secret_that_is_added_later_is_hidden_beside_the_earlier_ones() -> None:
    secrets = Secrets(["first-secret"])
    secrets.add(["second-secret", "first-secret-and-more"])
    hidden = secrets.hide("first-secret second-secret first-secret-and-more other")
    assert hidden == "*** *** *** other"


def test_a_short_text_is_no_secret() -> None:
    secrets = Secrets()
    secrets.add(["short"])
    assert secrets.hide("a short text") == "a short text"
