"""DNS for Python programs in pods: the `sitecustomize` module that resolves the names of pods.

`pod_addresses.py` copies it into a directory that is first in `PYTHONPATH`; it imports nothing of Grove. In a pod:
* A name in the file `GROVE_HOSTS_FILE` has the addresses of that file, and the pod's own hostname has its address.
  Other names are resolved as usual.
* Listening on all addresses means on the address of the pod. So two pods can use one port, and are not reachable from
  outside.
`GROVE_RESOLVER=off` disables it.
"""

import os
import socket
import sys
from typing import Any

_WILDCARDS = ("", "0.0.0.0", "::")


def _addresses(name: str) -> list[str]:
    """Return the address of a pod, or those of all pods of a service; empty for any other name."""
    wanted = name.rstrip(".").lower()
    if wanted.replace(".", "").isdecimal():
        return []
    if wanted == os.environ.get("HOSTNAME", "").lower():
        return [os.environ["GROVE_POD_IP"]]
    try:
        with open(os.environ["GROVE_HOSTS_FILE"]) as file:
            lines = [line.split() for line in file]
    except OSError:
        return []
    return [line[0] for line in lines if wanted in line[1:]]


def _text(host: Any) -> str:
    return host.decode("ascii", "replace") if isinstance(host, bytes | bytearray) else str(host)


def _first(address: Any) -> Any:
    """Return the address to connect to, with the name of a pod resolved."""
    if isinstance(address, tuple) and address and isinstance(address[0], str | bytes):
        found = _addresses(_text(address[0]))
        return (found[0], *address[1:]) if found else address
    return address


def _own(sock: socket.socket, address: Any) -> Any:
    """Return the address to listen on."""
    if sock.family == socket.AF_INET and isinstance(address, tuple) and _text(address[0]) in _WILDCARDS:
        return (os.environ["GROVE_POD_IP"], *address[1:])
    return _first(address)


def install() -> None:
    """Replace the functions and methods that resolve names."""
    getaddrinfo, gethostbyname, gethostbyname_ex = socket.getaddrinfo, socket.gethostbyname, socket.gethostbyname_ex
    plain = socket.socket
    connect, connect_ex, bind = plain.connect, plain.connect_ex, plain.bind

    def find(host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0) -> Any:  # noqa: A002
        is_passive = bool(flags & socket.AI_PASSIVE) and (host is None or _text(host) in _WILDCARDS)
        named = [os.environ["GROVE_POD_IP"]] if is_passive else [] if host is None else _addresses(_text(host))
        if not named or family == socket.AF_INET6:
            return getaddrinfo(host, port, family, type, proto, flags)
        return [found for each in named for found in getaddrinfo(each, port, family, type, proto, flags)]

    def all_of(name: str) -> Any:
        return (name, [], found) if (found := _addresses(name)) else gethostbyname_ex(name)

    socket.getaddrinfo = find
    socket.gethostbyname = lambda name: next(iter(_addresses(name)), None) or gethostbyname(name)
    socket.gethostbyname_ex = all_of
    socket.gethostname = lambda: os.environ["HOSTNAME"]
    vars_of_class: Any = plain
    vars_of_class.connect = lambda self, address: connect(self, _first(address))
    vars_of_class.connect_ex = lambda self, address: connect_ex(self, _first(address))
    vars_of_class.bind = lambda self, address: bind(self, _own(self, address))


def _import_the_next() -> None:
    """Import the `sitecustomize` of the machine, which this one hides."""
    here = os.path.dirname(os.path.abspath(__file__))
    path = sys.path[:]
    sys.path[:] = [each for each in path if os.path.abspath(each) != here]
    this = sys.modules.pop("sitecustomize")
    try:
        __import__("sitecustomize")
    except ImportError:
        sys.modules["sitecustomize"] = this
    finally:
        sys.path[:] = path


if __name__ == "sitecustomize":
    if os.environ.get("GROVE_RESOLVER") != "off" and "GROVE_HOSTS_FILE" in os.environ:
        install()
    _import_the_next()
