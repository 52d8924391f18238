"""Two ends of a connection: a refusal, its offer, an echo.

Needs a server with interfaces ``a`` and ``b`` that are joined, each of which sends at most 10^6
cells/s (``$CELLGATE_SOCKET`` names its socket)::

    python examples/connection.py

Prints, where interfaces send 40,000 cells/s::

    transmit_bandwidth: 2000000 cells/s needed, 38000 free
    admitted: cbr,aal5:pcr=38000,max_sdu=1500
    ping, then pong
"""

import asyncio

import cellgate


def open_as_offered(address: str, contract: str) -> cellgate.Connection:
    """Opens a connection; where that is too much, with what there is."""
    try:
        return cellgate.connect(address, contract)
    except cellgate.Refused as refused:
        if refused.offer is None:
            raise
        print(f"{refused.resource}: {refused.needed} {refused.unit} needed, {refused.free} free")
        return cellgate.connect(address, refused.offer)


async def answer(connection: cellgate.Connection) -> None:
    """Answers every ping."""
    async for sdu in connection:
        await connection.asend(sdu.replace(b"ping", b"pong"))


async def main() -> None:
    contract = "cbr,aal5:pcr=2000000,max_sdu=1500"
    with open_as_offered("a.0.200", contract) as a:
        print(f"admitted: {a.contract}")
        with cellgate.connect("b.0.200", a.contract) as b:
            answers = asyncio.create_task(answer(b))
            await a.asend(b"ping")
            print(f"ping, then {(await a.arecv()).decode()}")
            answers.cancel()


asyncio.run(main())
