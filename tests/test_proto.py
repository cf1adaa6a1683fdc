"""The generated protobuf code is that of the files it is made from."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = "tieline/wire/cursor/_pb"


def test_the_generated_code_is_current(tmp_path: Path) -> None:
    names = sorted(path.name for path in (ROOT / "proto" / "cursor").glob("*.proto"))
    command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={PACKAGE}={ROOT / 'proto' / 'cursor'}"]
    command += [f"--python_out={tmp_path}", f"--pyi_out={tmp_path}", *(f"{PACKAGE}/{name}" for name in names)]
    subprocess.run(command, check=True, timeout=60)  # noqa: S603 - our own compiler on our own files
    made = {path.name: path.read_text("utf-8") for path in (tmp_path / PACKAGE).iterdir()}
    kept = {path.name: path.read_text("utf-8") for path in (ROOT / "src" / PACKAGE).glob("*_pb2.py*")}
    assert made == kept, "run `make proto`"
