"""Addresses and names of pods: every pod has its own loopback address.

There is no DNS server. For each namespace a file in the format of /etc/hosts has the names that its pods can resolve.
`dns_resolver.py` makes Python programs read it.
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

# The first addresses of 127.0.0.0/8 are in use: localhost, the name of the machine, local DNS servers.
_FIRST = int(IPv4Address("127.1.0.0"))
_LAST = int(IPv4Address("127.254.255.255"))
_LONGEST_HOSTNAME = 63


class AddressPool:
    """Loopback addresses, allocated in order from a random start, so that two clusters rarely collide.

    An address is reused only after all others, some sixteen million.
    """

    def __init__(self, random: Random) -> None:
        self._next = random.randint(_FIRST, _LAST)
        self._allocated: dict[str, None] = {}

    def allocate(self) -> str:
        while True:
            number = self._next
            self._next = number + 1 if number < _LAST else _FIRST
            address = str(IPv4Address(number))
            # These look like network and broadcast addresses.
            if not address.endswith((".0", ".255")) and address not in self._allocated:
                self._allocated[address] = None
                return address

    def release(self, address: str) -> None:
        self._allocated.pop(address, None)


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """The names and the address of one pod."""

    namespace: str
    hostname: str
    subdomain: str
    address: str


def hostname_of(name: str, hostname: str) -> str:
    """Return the hostname of a pod."""
    return hostname or name[:_LONGEST_HOSTNAME].rstrip("-.")


class HostsFiles:
    """The hosts files of all namespaces. Files are replaced atomically."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        self._folder = folder
        self._hosts: dict[Uid, Host] = {}
        self._stale: dict[str, None] = {}
        self.python_path = folder / "python"
        self.python_path.mkdir()
        shutil.copyfile(dns_resolver.__file__, self.python_path / "sitecustomize.py")

    def file(self, namespace: str) -> Path:
        """Return the hosts file of a namespace that has or had a pod."""
        return self._folder / f"{namespace}.hosts"

    def add(self, uid: Uid, host: Host) -> None:
        """Add a pod. Other pods see it after the next `write`."""
        self._hosts[uid] = host
        self._mark_stale(host)

    def remove(self, uid: Uid) -> None:
        host = self._hosts.pop(uid, None)
        if host is not None:
            self._mark_stale(host)

    def write(self) -> None:
        """Write the files that changed."""
        for namespace in tuple(self._stale):
            path = self.file(namespace)
            new = path.with_suffix(".new")
            new.write_text("".join(f"{line}\n" for line in self._lines(namespace)))
            os.replace(new, path)
        self._stale.clear()

    def _mark_stale(self, host: Host) -> None:
        # A full name is resolved in every namespace.
        self._stale |= dict.fromkeys([host.namespace, *(each.namespace for each in self._hosts.values())])

    def _lines(self, namespace: str) -> Iterator[str]:
        # Newest first: of two pods with one name, the older one is terminating.
        for host in reversed(self._hosts.values()):
            names = [*_names(host, namespace)]
            if names:
                yield " ".join([host.address, *names])


def _names(host: Host, namespace: str) -> Iterator[str]:
    """Yield the names of this pod, and of the service of its subdomain, for pods of `namespace`."""
    if not host.subdomain:
        return
    for first in (f"{host.hostname}.{host.subdomain}", host.subdomain):
        yield f"{first}.{host.namespace}.svc.cluster.local"
        yield f"{first}.{host.namespace}.svc"
        yield f"{first}.{host.namespace}"
        if host.namespace == namespace:
            yield first
