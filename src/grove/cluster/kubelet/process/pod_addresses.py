"""Addresses and names of pods: each has its own address on the loopback, and files say who has which.

There is no DNS server. A file per namespace, in the form of /etc/hosts, holds the names that pods of that namespace
know each other by; `dns_resolver.py` teaches Python programs to look there first.
"""

import os
import shutil
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path
from random import Random

import msgspec

from grove.api.types.meta import Uid
from grove.cluster.kubelet.process import dns_resolver

# The first numbers of 127.0.0.0/8 are taken by others: localhost, the machine's own name, local DNS servers.
_FIRST = int(IPv4Address("127.1.0.0"))
_LAST = int(IPv4Address("127.254.255.255"))
_LONGEST_HOSTNAME = 63


class Addresses:
    """Given out one after the other from a place that chance decides, so that clusters side by side hardly meet.

    An address comes up again only after all others, some sixteen million.
    """

    def __init__(self, random: Random) -> None:
        self._next = random.randint(_FIRST, _LAST)
        self._taken: dict[str, None] = {}

    def take(self) -> str:
        while True:
            number = self._next
            self._next = number + 1 if number < _LAST else _FIRST
            address = str(IPv4Address(number))
            # Those look like the address of a network, or of everybody in it.
            if not address.endswith((".0", ".255")) and address not in self._taken:
                self._taken[address] = None
                return address

    def give_back(self, address: str) -> None:
        self._taken.pop(address, None)


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """One pod as others look for it."""

    namespace: str
    hostname: str
    subdomain: str
    address: str


def hostname_of(name: str, wanted: str) -> str:
    """What a pod of this name calls itself."""
    return wanted or name[:_LONGEST_HOSTNAME].rstrip("-.")


class Hosts:
    """Who is there. Files are replaced as a whole, so a reader sees the old or the new one."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        self._folder = folder
        self._hosts: dict[Uid, Host] = {}
        self._stale: dict[str, None] = {}
        self.python_path = folder / "python"
        self.python_path.mkdir()
        shutil.copyfile(dns_resolver.__file__, self.python_path / "sitecustomize.py")

    def file(self, namespace: str) -> Path:
        """Of a namespace in which somebody is, or was."""
        return self._folder / f"{namespace}.hosts"

    def add(self, uid: Uid, host: Host) -> None:
        """Known to all after the next `write`."""
        self._hosts[uid] = host
        self._mark(host)

    def remove(self, uid: Uid) -> None:
        host = self._hosts.pop(uid, None)
        if host is not None:
            self._mark(host)

    def write(self) -> None:
        """Bring the files up to date, if anything has changed."""
        for namespace in tuple(self._stale):
            path = self.file(namespace)
            new = path.with_suffix(".new")
            new.write_text("".join(f"{line}\n" for line in self._lines(namespace)))
            os.replace(new, path)
        self._stale.clear()

    def _mark(self, host: Host) -> None:
        # A full name is known in every namespace.
        self._stale |= dict.fromkeys([host.namespace, *(each.namespace for each in self._hosts.values())])

    def _lines(self, namespace: str) -> Iterator[str]:
        # The newest first: of two pods with one name, the other is about to go.
        for host in reversed(self._hosts.values()):
            names = [*_names(host, namespace)]
            if names:
                yield " ".join([host.address, *names])


def _names(host: Host, namespace: str) -> Iterator[str]:
    """How pods of `namespace` call this one, and the service that its subdomain names."""
    if not host.subdomain:
        return
    for first in (f"{host.hostname}.{host.subdomain}", host.subdomain):
        yield f"{first}.{host.namespace}.svc.cluster.local"
        yield f"{first}.{host.namespace}.svc"
        yield f"{first}.{host.namespace}"
        if host.namespace == namespace:
            yield first
