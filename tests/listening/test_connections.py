"""How many connections one network may hold and for how long, on a real server: others are served whatever
somebody does with theirs."""

import resource
import select
import socket
import time
from pathlib import Path
from typing import Any

import studies
from serving import Server, Visitor

STEPS: list[Any] = ["consent", {"name": "abx", "trials": 1}]
ASK = b"GET /static/page.css HTTP/1.1\r\nHost: x\r\n\r\n"


def connect(server: Server, address: str, buffer: int = 0) -> socket.socket:
    made = socket.socket()
    if buffer:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    made.bind((address, 0))
    made.connect(("127.0.0.1", server.port))
    made.settimeout(30)
    return made


def first_line(connection: socket.socket) -> bytes:
    connection.sendall(ASK)
    return connection.recv(65536).partition(b"\r\n")[0]


def test_one_network_holds_few_connections_and_has_them_again_when_they_end(tmp_path: Path) -> None:
    with Server(studies.write(tmp_path / "s", STEPS)) as server:
        held = [connect(server, "127.0.1.1") for _ in range(64)]
        assert {first_line(connection) for connection in held} == {b"HTTP/1.1 200 OK"}
        crowded = connect(server, "127.0.1.1")
        assert crowded.recv(65536).startswith(b"HTTP/1.1 429 Too Many Requests")
        assert crowded.recv(1) == b""
        visitor = Visitor(server, "127.0.1.2")
        assert visitor.take(visitor.begin()[1])["done"]
        for connection in held:
            connection.close()
        deadline = time.monotonic() + 30
        while Visitor(server, "127.0.1.1").ask("GET", "/")[0] == 429:  # until the server has seen them end
            assert time.monotonic() < deadline


def test_a_laboratory_and_a_trusted_proxy_hold_more(tmp_path: Path) -> None:
    with Server(studies.write(tmp_path / "s", STEPS), limits={"begin_burst": 10}) as server:
        for address, count in (("127.0.1.1", 80), ("127.0.0.1", 100)):
            held = [connect(server, address) for _ in range(count)]
            assert {first_line(connection) for connection in held} == {b"HTTP/1.1 200 OK"}
            for connection in held:
                connection.close()


def test_who_asks_for_much_and_reads_nothing_is_cut_off(tmp_path: Path) -> None:
    with Server(studies.write(tmp_path / "s", STEPS), limits={"request_s": 1}) as server:
        connection = connect(server, "127.0.1.1", buffer=4096)
        connection.settimeout(0.2)
        try:
            for _ in range(20):
                connection.sendall(900 * ASK)
        except OSError:
            pass  # the server takes no more before something is read
        ended = select.poll()
        ended.register(connection, 0)  # errors and ends only
        assert ended.poll(30_000)
        connection.close()
        visitor = Visitor(server)
        assert visitor.take(visitor.begin()[1])["done"]
        assert "Traceback" not in server.log()


def test_who_reads_slowly_gets_everything(tmp_path: Path) -> None:
    with Server(studies.write(tmp_path / "s", STEPS), limits={"request_s": 2}) as server:
        size = len(Visitor(server).ask("GET", "/static/page.css")[1])
        connection = connect(server, "127.0.1.1", buffer=4096)
        count = 3_000_000 // size  # more than what lies between the two takes
        connection.sendall(count * ASK)
        got, slow_until = 0, time.monotonic() + 4
        while got < count * size and (part := connection.recv(200_000)):
            got += len(part)
            if time.monotonic() < slow_until:
                time.sleep(0.02)
        assert got >= count * size
        connection.close()


def test_the_server_may_open_as_many_files_as_the_system_allows(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 200), hard))
    try:
        server = Server(studies.write(tmp_path / "s", STEPS))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with server:
        Visitor(server).ask("GET", "/")
        assert resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE) == (hard, hard)
