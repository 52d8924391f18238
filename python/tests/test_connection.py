"""Live connections, over a server of the tests' own."""

import array
import asyncio
import os
import pickle
import select
import signal
import threading
import time

import pytest

import cellgate
from conftest import PATIENCE_S


def test_each_end_receives_what_the_other_sends(pair):
    a, b = pair
    assert (a.address, b.address) == ("a.0.100", "b.0.100")
    assert a.contract.startswith("cbr,aal5:pcr=4000,max_sdu=1000")
    assert a.transmit_max_sdu == a.receive_max_sdu == 1000
    a.send(b"ping")
    assert b.recv(timeout=PATIENCE_S) == b"ping"
    b.send(b"pong")
    assert a.recv(timeout=PATIENCE_S) == b"pong"


def test_what_has_a_buffer_is_sent_and_received_into(pair):
    a, b = pair
    numbers = array.array("h", range(8))
    room = bytearray(1000)
    for data in [bytearray(b"octets"), memoryview(b"octets.....")[:6], numbers, b"x" * 1000]:
        a.send(data)
        octets = b.recv_into(room, timeout=PATIENCE_S)
        assert room[:octets] == bytes(data)
    # Octets that do not lie in a row.
    a.send(memoryview(b"o-c-t-e-t-s-")[::2])
    into = array.array("h", bytes(1000))
    assert b.recv_into(into, timeout=PATIENCE_S) == 6
    assert into.tobytes()[:6] == b"octets"


def test_a_buffer_that_is_too_short_takes_nothing(pair):
    a, b = pair
    a.send(b"kept")
    with pytest.raises(ValueError, match="a buffer of 999 octets: .* SDUs of 1000"):
        b.recv_into(bytearray(999), timeout=PATIENCE_S)
    with pytest.raises(BufferError, match="writable"):
        b.recv_into(bytes(1000))
    assert b.recv(timeout=PATIENCE_S) == b"kept"


def test_what_the_contract_has_not_is_a_value_error(server, pair):
    a, _ = pair
    with pytest.raises(ValueError, match="1001 octets, the contract allows 1000"):
        a.send(bytes(1001))
    with pytest.raises(ValueError, match="0 octets"):
        a.send(b"")
    with pytest.raises(TypeError):
        a.send("text")
    with pytest.raises(ValueError, match="no contract"):
        server.connect("a.0.101", "cbr,aal5:pce=1000")
    with pytest.raises(ValueError, match="no address"):
        server.connect("somewhere", "ubr,aal5")
    with pytest.raises(ValueError, match="-1 is no time"):
        a.recv(timeout=-1)


def test_a_reader_waits_no_longer_than_it_says(pair):
    a, _ = pair
    before = time.monotonic()
    with pytest.raises(TimeoutError, match="no PDU has arrived within 0.2 s"):
        a.recv(timeout=0.2)
    assert 0.2 <= time.monotonic() - before < PATIENCE_S
    with pytest.raises(TimeoutError):
        a.recv(timeout=0)
    assert a.try_recv() is None


def test_a_writer_waits_for_credit(server):
    # 21 cells an SDU: 100 of them take a second.
    with server.connect("a.0.102", "cbr,aal5:pcr=2100,max_sdu=1000") as a:
        before = time.monotonic()
        for _ in range(50):
            a.send(bytes(1000))
        assert time.monotonic() - before > 0.3
        while a.try_send(bytes(1000)):
            pass
        with pytest.raises(TimeoutError, match="within 0 s"):
            a.send(bytes(1000), timeout=0)


def test_a_refusal_has_an_offer_that_is_admitted(server):
    with pytest.raises(cellgate.Refused) as refused:
        server.connect("a.0.103", "cbr,aal5:pcr=100000,max_sdu=1000")
    told = refused.value
    assert (told.resource, told.unit) == ("transmit_bandwidth", "cells/s")
    assert told.needed == 100_000 > told.free
    assert str(told).startswith("not enough transmit bandwidth: 100000 cells/s")
    assert told.offer in str(told)
    copy = pickle.loads(pickle.dumps(told))
    assert (str(copy), copy.offer, copy.free) == (str(told), told.offer, told.free)
    with server.connect("a.0.103", told.offer) as a:
        assert a.contract == told.offer
        with pytest.raises(cellgate.Refused, match="in use") as refused:
            server.connect("a.0.103", "ubr,aal5")
        assert refused.value.offer is None


def test_without_a_server_nothing_is_opened(tmp_path):
    with pytest.raises(cellgate.NoServer, match="no cellgate server at .*nobody"):
        cellgate.connect("a.0.100", "ubr,aal5", socket=tmp_path / "nobody")
    assert issubclass(cellgate.NoServer, ConnectionError)


def test_the_end_of_a_with_closes(server):
    with server.connect("a.0.104", "cbr,aal5:pcr=1000,max_sdu=1000") as a:
        assert not a.closed
        for _ in range(3):
            a.send(bytes(1000))
    assert a.closed
    a.close()
    for use in [a.recv, a.fileno, a.arm, lambda: a.send(b"x"), lambda: a.contract]:
        with pytest.raises(ValueError, match="closed"):
            use()
    assert list(a) == []
    # It is free at once.
    server.connect("a.0.104", "ubr,aal5").close()
    with pytest.raises(KeyError), server.connect("a.0.104", "ubr,aal5") as a:
        raise KeyError
    assert a.closed


def test_select_waits_for_the_descriptor(pair):
    a, b = pair

    def receive():
        # What the server tells on the way is a reason to try again, too.
        while (sdu := b.try_recv()) is None:
            if b.arm():
                assert select.select([b], [], [], PATIENCE_S) == ([b], [], [])
        return sdu

    sends = threading.Timer(0.1, a.send, (b"an SDU",))
    sends.start()
    assert receive() == b"an SDU"
    sends.join()
    a.send(b"at once")
    assert receive() == b"at once"
    # Credit comes with time.
    while a.try_send(bytes(1000)):
        pass
    while not a.try_send(bytes(1000)):
        if a.arm(receive=False, send=1000):
            assert select.select([a], [], [], PATIENCE_S) == ([a], [], [])


def test_one_thread_receives_while_another_sends(pair):
    a, b = pair

    def echo():
        for _, sdu in zip(range(60), b):
            b.send(sdu)

    def send():
        for i in range(60):
            a.send(i.to_bytes(2))

    threads = [threading.Thread(target=run, daemon=True) for run in (echo, send)]
    for thread in threads:
        thread.start()
    received = [a.recv(timeout=PATIENCE_S) for _ in range(60)]
    assert received == [i.to_bytes(2) for i in range(60)]
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_two_threads_receive_each_sdu_once(pair):
    a, b = pair
    received = []

    def receive():
        for _ in range(100):
            received.append(b.recv(timeout=PATIENCE_S))

    threads = [threading.Thread(target=receive, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for i in range(200):
        a.send(i.to_bytes(2))
    for thread in threads:
        thread.join(PATIENCE_S)
    assert sorted(received) == [i.to_bytes(2) for i in range(200)]


def test_other_threads_run_while_one_waits(pair):
    a, b = pair
    waits = threading.Thread(target=b.recv, daemon=True)
    waits.start()
    before = time.monotonic()
    sum(range(100_000))
    assert waits.is_alive() and time.monotonic() - before < PATIENCE_S
    a.send(b"x")
    waits.join(PATIENCE_S)
    assert not waits.is_alive()


def test_a_thread_that_waits_hears_that_it_is_closed(server):
    a = server.connect("a.0.105", "ubr,aal5")
    ends = threading.Thread(target=lambda: list(a), daemon=True)
    ends.start()
    time.sleep(0.05)
    a.close()
    ends.join(PATIENCE_S)
    assert not ends.is_alive()


def test_a_signal_ends_a_wait(pair):
    a, _ = pair
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        a.recv(timeout=PATIENCE_S)


def test_tasks_receive_and_send_side_by_side(pair):
    a, b = pair

    async def echo():
        async for sdu in b:
            await b.asend(sdu)

    async def main():
        async with asyncio.timeout(PATIENCE_S):
            echoes = asyncio.create_task(echo())
            received = asyncio.create_task(receive())
            for i in range(200):
                await a.asend(i.to_bytes(2))
            assert await received == [i.to_bytes(2) for i in range(200)]
            echoes.cancel()
            await asyncio.gather(echoes, return_exceptions=True)
            assert echoes.cancelled()

    async def receive():
        return [await a.arecv() for _ in range(200)]

    asyncio.run(main())
    # In another loop, too.
    asyncio.run(main())


def test_a_task_that_gives_up_loses_nothing(pair):
    a, b = pair

    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await b.arecv()
        a.send(b"late")
        async with asyncio.timeout(PATIENCE_S):
            assert await b.arecv() == b"late"
        # One that waits when it is closed is told so.
        waits = asyncio.create_task(b.arecv())
        await asyncio.sleep(0.01)
        b.close()
        with pytest.raises(ValueError, match="closed"):
            await waits

    asyncio.run(main())


def test_a_connection_goes_on_when_the_server_is_killed(server, pair):
    a, b = pair
    server.kill()
    try:
        # The adapter is another process.
        a.send(b"nobody governs")
        assert b.recv(timeout=PATIENCE_S) == b"nobody governs"
        with pytest.raises(cellgate.NoServer):
            server.connect("a.0.106", "ubr,aal5")
    finally:
        server.start()
    a.send(b"the next does")
    assert b.recv(timeout=PATIENCE_S) == b"the next does"
    with pytest.raises(cellgate.Refused, match="in use"):
        server.connect("a.0.100", "ubr,aal5")


def test_a_connection_goes_on_with_another_adapter(server, pair):
    a, b = pair
    received = []
    waits = threading.Thread(target=lambda: received.append(b.recv()), daemon=True)
    waits.start()
    time.sleep(0.1)
    server.kill_adapter()
    # What is sent before the next adapter is there is lost.
    deadline = time.monotonic() + PATIENCE_S
    while waits.is_alive() and time.monotonic() < deadline:
        a.send(b"again")
        waits.join(0.1)
    assert received == [b"again"]


def test_a_task_goes_on_with_another_adapter(server, pair):
    a, b = pair

    async def main():
        waits = asyncio.create_task(b.arecv())
        await asyncio.sleep(0.1)
        server.kill_adapter()
        async with asyncio.timeout(PATIENCE_S):
            while not waits.done():
                await a.asend(b"again")
                await asyncio.wait([waits], timeout=0.1)
            assert waits.result() == b"again"

    asyncio.run(main())


def test_an_address_without_its_interface_says_which_there_are(server):
    with pytest.raises(ValueError, match="name one of: a, b"):
        server.connect("0.100", "ubr,aal5")


def test_it_tells_in_brief_what_it_is(server):
    a = server.connect("a.0.107", "ubr,aal5")
    assert repr(a).startswith("<cellgate.Connection a.0.107: ubr,aal5")
    a.close()
    assert repr(a) == "<cellgate.Connection a.0.107: closed>"
