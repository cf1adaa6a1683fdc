"""Another user of the machine and the running gateway, with a real second uid."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cli_support import WAIT, serving

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the owner of a socket"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user"),
]

ASK = """
import encodings.idna, http.client, json, os, sys
os.setgroups([])
os.setgid(int(sys.argv[1]))
os.setuid(int(sys.argv[1]))
answers = []
for method, path, body, key in json.loads(sys.argv[3]):
    connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[2]), timeout=60)
    headers = {"content-type": "application/json", **({"x-api-key": key} if key else {})}
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    answers.append([response.status, response.read().decode()])
    connection.close()
print(json.dumps(answers))
"""

NOBODY = 65534
QUESTION = json.dumps({"model": "demo/scripted", "max_tokens": 99, "messages": [{"role": "user", "content": "hi"}]})
REQUESTS = [
    ("POST", "/v1/chat/completions", QUESTION),
    ("POST", "/v1/messages", QUESTION),
    ("GET", "/v1/models", None),
    ("GET", "/api/inbox", None),
    ("GET", "/api/inbox/watch", None),
    ("POST", "/api/inbox/abc", '{"option":"allow"}'),
    ("GET", "/api/rules", None),
    ("GET", "/api/state", None),
    ("GET", "/api/traffic", None),
    ("GET", "/metrics", None),
    ("GET", "/", None),
]


def asked(uid: int, port: int, requests: list[tuple[str, str, str | None]], key: str = "") -> list[tuple[int, Any]]:
    given = json.dumps([(*request, key) for request in requests])
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", ASK, str(uid), str(port), given],
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=True,
    )
    return [(status, body) for status, body in json.loads(done.stdout)]


def test_another_user_reaches_nothing_but_the_sign_of_life(tmp_path: Path) -> None:
    with serving(tmp_path, "--tools") as (_, port):
        answers = asked(NOBODY, port, REQUESTS)
        assert [status for status, _ in answers] == [401] * len(REQUESTS)
        assert "another user" in json.loads(answers[0][1])["error"]["message"]
        assert json.loads(answers[1][1])["type"] == "error"
        assert "TIELINE_KEY" in json.loads(answers[1][1])["error"]["message"]
        assert asked(NOBODY, port, [("GET", "/healthz", None)])[0][0] == 200
        assert asked(0, port, REQUESTS[:4])[0][0] == 200, "its own user needs nothing"


def test_another_user_with_the_key_is_served(tmp_path: Path) -> None:
    with serving(tmp_path, TIELINE_KEY="a-long-random-text") as (_, port):
        assert asked(NOBODY, port, REQUESTS[:1], "a-long-random-text")[0][0] == 200
        assert asked(NOBODY, port, REQUESTS[:1])[0][0] == 401
