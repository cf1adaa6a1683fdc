"""The table in which Windows lists connections, and the process that has the client's end of one."""

import struct

from tieline.net.server.windows_owner import find_process

CLIENT, SERVER = ("127.0.0.1", 50000), ("127.0.0.1", 18741)
LOOPBACK = bytes((127, 0, 0, 1))
LOOPBACK_6 = bytes(15) + b"\1"


def row(near: int, far: int, process: int, address: bytes = LOOPBACK) -> bytes:
    """A row as in the documentation of MIB_TCPROW_OWNER_PID, with arbitrary bytes where Windows defines none."""
    return (
        struct.pack("<I", 5)
        + address
        + struct.pack(">H", near)
        + b"\xab\xcd"
        + LOOPBACK
        + struct.pack(">H", far)
        + b"\xef\x01"
        + struct.pack("<I", process)
    )


def row_6(near: int, far: int, process: int) -> bytes:
    """A row as in the documentation of MIB_TCP6ROW_OWNER_PID."""
    ends = (LOOPBACK_6 + struct.pack("<I", 7) + struct.pack(">H", port) + b"\xab\xcd" for port in (near, far))
    return b"".join(ends) + struct.pack("<II", 5, process)


def table(*rows: bytes) -> bytes:
    """A table in a buffer that is longer than the table."""
    return struct.pack("<I", len(rows)) + b"".join(rows) + bytes(100)


def test_the_client_has_its_end_of_the_connection() -> None:
    other_end = row(18741, 50000, 11)
    other_client = row(50001, 18741, 12)
    other_address = row(50000, 18741, 13, bytes((127, 0, 0, 2)))
    found = table(other_end, other_client, other_address, row(50000, 18741, 14))
    assert find_process(found, CLIENT, SERVER) == 14


def test_a_connection_over_ipv6_is_found() -> None:
    found = table(row_6(18741, 50000, 11), row_6(50000, 18741, 12))
    assert find_process(found, ("::1", 50000), ("::1", 18741)) == 12


def test_a_connection_that_is_closed_or_not_listed_has_no_process() -> None:
    assert find_process(table(row(50000, 18741, 0)), CLIENT, SERVER) is None
    assert find_process(table(row(50002, 18741, 14)), CLIENT, SERVER) is None
    assert find_process(table(), CLIENT, SERVER) is None


def test_what_follows_the_table_in_its_buffer_is_not_read() -> None:
    stale = row(50000, 18741, 14)
    assert find_process(struct.pack("<I", 1) + row(50001, 18741, 12) + stale, CLIENT, SERVER) is None
