"""What can go wrong with a connection, beside ``ValueError`` and ``TimeoutError``."""


class Refused(Exception):
    """The server said no.

    Where there is not enough of something, ``resource`` names it as the command's ``--json`` does
    (``transmit_bandwidth``, ``receive_bandwidth``, ``adapter_cpu``, ``worker_cpu``, ``memory``,
    ``connections``); ``needed`` and ``free`` are in ``unit``. ``offer`` is a contract that would
    fit, ``others`` are more of them. All are ``None``, and ``others`` is empty, where the server
    refuses for another reason, and ``offer`` is where nothing would fit.
    """

    __module__ = "cellgate"

    resource: str | None
    unit: str | None
    needed: int | None
    free: int | None
    offer: str | None
    others: tuple[str, ...]

    def __init__(
        self,
        text: str,
        resource: str | None = None,
        unit: str | None = None,
        needed: int | None = None,
        free: int | None = None,
        offer: str | None = None,
        others: tuple[str, ...] | list[str] = (),
    ) -> None:
        # The text alone is an argument: so it is all that is printed.
        super().__init__(text)
        self.resource, self.unit = resource, unit
        self.needed, self.free = needed, free
        self.offer, self.others = offer, tuple(others)


class NoServer(ConnectionError):
    """No server answers at the control socket."""

    __module__ = "cellgate"


class Ended(ConnectionError):
    """The connection has ended, and nobody here closed it: its interface was removed, for one."""

    __module__ = "cellgate"
