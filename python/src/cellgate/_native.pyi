import os

from typing_extensions import Buffer, disjoint_base

__all__ = [
    "Connection",
    "Violation",
    "experiment_json",
    "experiment_names",
    "run_json",
    "scenario_json",
]

class Violation(RuntimeError):
    """An invariant of the lab does not hold."""

@disjoint_base
class Connection:
    """A connection at an interface of the server; ``cellgate.Connection`` is made of it."""

    def __new__(
        cls,
        address: str,
        contract: str,
        *,
        socket: str | os.PathLike[str] | None = None,
        timeout: float = 30.0,
    ) -> Connection: ...
    @property
    def address(self) -> str:
        """Where it is, with its interface: ``a.0.100``."""
    @property
    def contract(self) -> str:
        """Its contract in canonical form."""
    @property
    def transmit_max_sdu(self) -> int | None:
        """Octets of the largest SDU that it sends; None: it does not send."""
    @property
    def receive_max_sdu(self) -> int | None:
        """Octets of the largest SDU that it receives; None: it does not receive."""
    @property
    def closed(self) -> bool:
        """Whether it was closed here."""
    def send(self, data: Buffer, timeout: float | None = None) -> None:
        """Sends an SDU."""
    def try_send(self, data: Buffer) -> bool:
        """Sends an SDU if it need not wait."""
    def recv(self, timeout: float | None = None) -> bytes:
        """Receives an SDU."""
    def try_recv(self) -> bytes | None:
        """Receives an SDU if there is one."""
    def recv_into(self, buffer: Buffer, timeout: float | None = None) -> int:
        """Receives an SDU into a buffer."""
    def fileno(self) -> int:
        """The descriptor to wait at, once ``arm`` has said True."""
    def arm(self, *, receive: bool = True, send: int | None = None) -> bool:
        """Has the descriptor become readable."""
    def close(self, linger: float = 10.0) -> None:
        """Closes it."""

def run_json(scenario: str, fast: bool) -> str: ...
def scenario_json(seed: int) -> str: ...
def experiment_names() -> list[str]: ...
def experiment_json(name: str, seed: int, changes: list[tuple[str, str]]) -> str: ...
