"""Clients that are slow, silent, too talkative, or gone: they are let go, and the others served."""

from __future__ import annotations

import json
import os
import resource
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from processes import Server, assert_whole, decisions_in, serving, until, user

from bccb.serve.body import MOST_BYTES

PATIENCE = 1.0  # seconds
HOOK = "import bccb.serve.connection as c; c.REQUEST_SECONDS = c.IDLE_SECONDS = {}"
HANGS = 60.0  # seconds after which something that must come has not
TEN_MEGABYTES = 10_000_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One service for all tests here: each leaves it as good as it was."""
    yield from soundly_serving(tmp_path_factory.mktemp("connections"), PATIENCE)


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service that lets nobody go for being slow; each test opens a campaign of its own."""
    yield from soundly_serving(tmp_path_factory.mktemp("patient"), 3_600.0)


def soundly_serving(folder: Path, patience: float) -> Iterator[Server]:
    with serving(folder / "data.sqlite", hook=HOOK.format(patience)) as started:
        yield started
        assert started.status("/readyz") == 200
        assert started.stop() == 0
        assert "Traceback" not in started.stderr()
    assert_whole(started.ledger)


@pytest.fixture(scope="module")
def campaign(server: Server) -> str:
    return server.open()


@contextmanager
def slow_clients(server: Server, campaign: str) -> Iterator[list[socket.socket]]:
    """Two hundred who have sent a part of their request, more or less of it."""
    slow = [server.connect() for _ in range(200)]
    try:
        for i, connection in enumerate(slow):
            with suppress(ConnectionError):
                connection.sendall(whole(campaign, f"slow-{i}")[: i % 150])
        yield slow
    finally:
        for connection in slow:
            connection.close()


def head(campaign: str, *headers: str) -> bytes:
    """The head of a request for decisions."""
    lines = [f"POST /v1/campaigns/{campaign}/decisions HTTP/1.1", "Host: localhost", *headers]
    return "\r\n".join([*lines, "Content-Type: application/json", "", ""]).encode()


def whole(campaign: str, id_: str, at_least: int = 0) -> bytes:
    """A whole request, whose body has at least so many bytes."""
    body = json.dumps(user(id_)).encode().ljust(at_least)
    return head(campaign, f"Content-Length: {len(body)}") + body


def answer(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    result = b""
    with suppress(ConnectionError):
        while more := connection.recv(65_536):
            result += more
    return result


def test_a_body_of_ten_megabytes_is_refused_unread(server: Server, campaign: str) -> None:
    with server.connect() as connection:
        connection.sendall(head(campaign, f"Content-Length: {TEN_MEGABYTES}"))
        reply = answer(connection)  # though not one byte of it has come
    assert reply.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in reply.lower()
    assert b"urn:bccb:problem:too-large" in reply


def test_a_file_has_more_time_to_arrive_than_other_requests(server: Server) -> None:
    waiting = server.open(name="waits for a file", learned_from="upload")
    with server.connect() as connection:
        file = ["Content-Type: application/octet-stream", "Content-Length: 10", "Connection: close"]
        lines = [f"PUT /v1/campaigns/{waiting}/learning HTTP/1.1", "Host: localhost", *file]
        connection.sendall("\r\n".join([*lines, "", ""]).encode() + b"12345")
        time.sleep(2 * PATIENCE)
        connection.sendall(b"67890")
        assert answer(connection).startswith(b"HTTP/1.1 422 ")  # it has come whole


def test_a_body_of_ten_megabytes_in_pieces_is_refused(server: Server, campaign: str) -> None:
    with server.connect() as connection:
        connection.sendall(head(campaign, "Transfer-Encoding: chunked"))
        sent = 0
        with suppress(ConnectionError):
            while sent < TEN_MEGABYTES:
                connection.sendall(b"%x\r\n%s\r\n" % (100_000, b" " * 100_000))
                sent += 100_000
        reply = answer(connection)
    assert reply == b"" or reply.startswith(b"HTTP/1.1 413 ")
    assert reply or sent < TEN_MEGABYTES


def test_the_largest_body_is_taken(server: Server, campaign: str) -> None:
    body = json.dumps(user("largest")).encode().ljust(MOST_BYTES)
    result = server.client.post(
        f"/v1/campaigns/{campaign}/decisions",
        content=body,
        headers={"content-type": "application/json"},
    )
    assert result.status_code == 200


def test_clients_that_fall_silent_are_let_go(server: Server, campaign: str) -> None:
    parts = {
        "nothing": b"",
        "half a line": b"POST /v1/camp",
        "half a head": head(campaign)[:-2],
        "half a body": whole(campaign, "silent-half")[:-1],
        "chunks": head(campaign, "Transfer-Encoding: chunked") + b"5\r\n[    \r\n",
    }
    begin = time.monotonic()
    silent = {name: server.connect() for name in parts}
    for name, connection in silent.items():
        connection.sendall(parts[name])
    for name, connection in silent.items():
        connection.settimeout(HANGS)
        assert b" 200 " not in answer(connection), name
        assert time.monotonic() - begin > PATIENCE / 2, name
        connection.close()
    assert not [id_ for id_ in decisions_in(server.ledger) if id_.startswith("silent")]


HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
EARLY = b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n"


THEN_SILENT = [
    (HEALTH, b""),
    (HEALTH, b"\r\n"),
    (HEALTH, b"\r\n" * 1_000),
    (HEALTH, b"GET /hea"),
    (HEALTH, HEALTH[:-2]),
    (HEALTH, HEALTH + b"\r\n"),
    (HEALTH, HEALTH + b"GET /hea"),
    (HEALTH, HEALTH * 2 + b"GET / HTTP/1.1\r\nContent-Length: 9\r\n\r\n1"),
    (EARLY, b"1234"),  # answered before its body came
    (EARLY, b"12"),
]


def test_clients_that_fall_silent_after_an_answer_are_let_go(server: Server) -> None:
    silent = []
    for asked, then in THEN_SILENT:
        connection = server.connect()
        connection.sendall(asked)
        assert connection.recv(65_536).startswith(b"HTTP/1.1 ")
        connection.sendall(then)
        connection.settimeout(HANGS)
        silent.append(connection)
    for connection in silent:
        answer(connection)  # it ends
        connection.close()


def test_blank_lines_gain_no_time(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(HEALTH)
        begin = time.monotonic()
        with pytest.raises(ConnectionError):
            while time.monotonic() < begin + HANGS / 2:
                connection.sendall(b"\r\n")
                time.sleep(PATIENCE / 20)
        assert time.monotonic() - begin > PATIENCE / 2


def test_blank_lines_without_end_are_cut_off(patient: Server) -> None:
    with patient.connect() as connection, pytest.raises(ConnectionError):
        for _ in range(1_000):
            connection.sendall(b"\r\n" * 10_000)


def test_some_requests_may_come_at_once_but_not_any_number(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(HEALTH * 20)
        assert answer(connection).count(b"HTTP/1.1 200 ") == 20
    with server.connect() as connection:
        with suppress(ConnectionError):
            connection.sendall(HEALTH * 2_000)
        assert answer(connection).count(b"HTTP/1.1 200 ") < 100


@pytest.mark.parametrize("endless", [b"a", b"a: b\r\n"], ids=["line", "lines"])
def test_a_head_without_end_is_cut_off_before_it_fills_the_memory(
    server: Server, endless: bytes
) -> None:
    sent = 0
    with server.connect() as connection, suppress(ConnectionError):
        connection.sendall(b"GET /" if endless == b"a" else b"GET / HTTP/1.1\r\n")
        while sent < TEN_MEGABYTES:
            sent += connection.send(endless * 10_000)
    assert sent < TEN_MEGABYTES  # except what lies in buffers on the way


@pytest.mark.parametrize("part", ["head", "body"])
def test_a_client_that_sends_byte_by_byte_is_let_go(
    server: Server, campaign: str, part: str
) -> None:
    request = whole(campaign, f"slow-{part}", at_least=600)
    at = 0 if part == "head" else request.index(b"\r\n\r\n") + 4
    with server.connect() as connection:
        connection.sendall(request[:at])
        with pytest.raises(ConnectionError):
            for byte in request[at:]:
                connection.sendall(bytes([byte]))
                time.sleep(PATIENCE / 10)
    assert f"slow-{part}" not in decisions_in(server.ledger)


def test_a_client_that_is_quick_enough_keeps_its_connection(server: Server, campaign: str) -> None:
    """Patience is for one request: a connection may last longer."""
    with server.connect() as connection:
        for i in range(4):
            connection.sendall(whole(campaign, f"patient-{i}"))
            reply = b""
            while not reply.endswith(b"}"):
                reply += connection.recv(65_536)
            assert reply.startswith(b"HTTP/1.1 200 ")
            time.sleep(PATIENCE / 2)


def test_many_slow_clients_are_let_go(server: Server, campaign: str) -> None:
    with slow_clients(server, campaign) as slow:
        for connection in slow:
            connection.settimeout(HANGS)
            assert b" 200 " not in answer(connection)
    assert not [id_ for id_ in decisions_in(server.ledger) if id_.startswith("slow")]


def test_many_slow_clients_hold_up_nobody(patient: Server) -> None:
    """Those who come after them are answered, while they themselves still hang."""
    campaign = patient.open(name="quick")
    with slow_clients(patient, campaign) as slow:
        for i in range(50):
            assert patient.decide(campaign, f"quick-{i}").status_code == 200
        for connection in slow:
            connection.setblocking(False)
            with pytest.raises(BlockingIOError):
                connection.recv(1)
    made = [id_ for id_ in decisions_in(patient.ledger) if id_.startswith(("quick", "slow"))]
    assert made == [f"quick-{i}" for i in range(50)]


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_decision_whose_client_has_gone_is_made_once(
    server: Server, campaign: str, how: str
) -> None:
    ids = [f"gone-{how}-{i}" for i in range(30)]
    for id_ in ids:
        with server.connect() as connection:
            if how == "reset":
                linger = struct.pack("ii", 1, 0)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            connection.sendall(whole(campaign, id_))
    first = [server.decide(campaign, id_).json() for id_ in ids]
    assert [server.decide(campaign, id_).json() for id_ in ids] == first
    made = decisions_in(server.ledger)
    assert [made.count(id_) for id_ in ids] == [1] * len(ids)


@pytest.mark.parametrize(
    "noise",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
        b"GET / HTTP/9.9\r\n\r\n",
        b"\r\n\r\n\r\n",
        b"POST /v1/campaigns HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/campaigns HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"POST /v1/campaigns HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\n[1]",
        b"POST /v1/campaigns HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        bytes(range(256)) * 20,
    ],
    ids=lambda noise: repr(noise[:24]),
)
def test_what_is_no_request_is_refused_and_harms_nobody(
    server: Server, campaign: str, noise: bytes
) -> None:
    with server.connect() as connection:
        with suppress(ConnectionError):
            connection.sendall(noise)
        connection.settimeout(HANGS)
        reply = answer(connection)
    assert reply == b"" or reply.split()[1][:1] == b"4", reply[:100]
    assert server.status("/healthz") == 200


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A patient service for eight connections."""
    hook = f"{HOOK.format(3_600.0)}; c.MOST_CONNECTIONS = 8"
    with serving(tmp_path_factory.mktemp("small") / "bccb.sqlite", hook=hook) as started:
        yield started


def test_silent_connections_give_way_to_new_ones(small: Server) -> None:
    crowd = [small.connect() for _ in range(30)]
    for _ in range(5):
        with small.connect() as connection:
            connection.sendall(HEALTH + b"\r\n")
            assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")
    for connection in crowd:
        connection.close()


def test_those_within_are_served_and_those_beyond_are_refused(small: Server) -> None:
    campaign = small.open()  # on a connection that stays
    with small.connect() as kept:
        kept.sendall(whole(campaign, "kept-0")[:-1])
        crowd = [small.connect() for _ in range(7)]
        for connection in crowd:
            connection.sendall(HEALTH)
            assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")
            connection.sendall(HEALTH[:-2])
        with small.connect() as connection:
            connection.sendall(HEALTH)
            reply = answer(connection)
        assert reply.startswith(b"HTTP/1.1 503 ")
        assert b"urn:bccb:problem:overloaded" in reply
        assert b"retry-after" in reply.lower()
        kept.sendall(whole(campaign, "kept-0")[-1:])
        assert kept.recv(65_536).startswith(b"HTTP/1.1 200 ")
        for connection in crowd:
            connection.close()


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="there is no prlimit here")
def test_as_many_files_may_be_open_as_the_system_allows(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    hard = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 4_000)
    hook = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (100, {hard}))"
    with serving(tmp_path / "data" / "bccb.sqlite", hook=hook) as started:
        assert started.status("/healthz") == 200
        assert resource.prlimit(started.pid, resource.RLIMIT_NOFILE) == (hard, hard)


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="there is no prlimit here")
def test_more_connections_than_files_can_be_open(patient: Server) -> None:
    campaign = patient.open(name="crowded")
    open_files = Path(f"/proc/{patient.pid}/fd")
    most = len(os.listdir(open_files)) + 5
    soft, hard = resource.prlimit(patient.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(patient.pid, resource.RLIMIT_NOFILE, (most, hard))
    crowd = [patient.connect() for _ in range(30)]
    until(lambda: len(os.listdir(open_files)) >= most)
    assert patient.decide(campaign, "inside").status_code == 200  # on its old connection
    resource.prlimit(patient.pid, resource.RLIMIT_NOFILE, (soft, hard))
    for connection in crowd:
        connection.close()
    with patient.connect() as connection:
        connection.settimeout(HANGS)
        connection.sendall(whole(campaign, "after"))
        until(lambda: connection.recv(65_536).startswith(b"HTTP/1.1 200 "))


@pytest.mark.parametrize("piece", [b"a: b\r\n" * 1_000, b"a" * 8_000])
def test_trailers_without_end_are_cut_off_before_they_fill_the_memory(
    server: Server, piece: bytes
) -> None:
    with server.connect() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        connection.sendall(b"Transfer-Encoding: chunked\r\n\r\n0\r\n")
        sent = 0
        with pytest.raises(OSError, match="reset|Broken pipe"):
            while sent < TEN_MEGABYTES:
                connection.sendall(piece)
                sent += len(piece)
    assert sent < TEN_MEGABYTES
    assert server.status("/healthz") == 200


def test_a_large_body_in_one_request_takes_nothing_from_the_next(
    server: Server, campaign: str
) -> None:
    with server.connect() as connection:
        for i in range(3):
            request = whole(campaign, f"large-{i}", at_least=200_000)
            head_size = request.index(b"\r\n\r\n") + 4
            for part in (request[:head_size], request[head_size:100_000], request[100_000:]):
                connection.sendall(part)
                time.sleep(0.05)  # so that the parts arrive apart, as they do over a network
            assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")
