"""AddressPool and names of pods on one machine: how the programs of a gang find each other."""

from pathlib import Path
from random import Random
from typing import Any

from grove.api.types.meta import Uid
from grove.cluster.kubelet.process.pod_addresses import AddressPool, Host, HostsFiles, hostname_of
from tests.cluster.kubelet.process_cluster import ProcessCluster, run_processes

LISTEN = """
import socket
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(("", 5000))
server.listen()
print(server.getsockname()[0], flush=True)
while True:
    peer, address = server.accept()
    peer.sendall(socket.gethostname().encode())
    peer.close()
"""
ASK = """
import socket, sys
def ask(connect):
    while True:
        try:
            with connect() as peer:
                return peer.recv(100).decode()
        except OSError:
            pass
def plain(name):
    peer = socket.socket()
    peer.connect((name, 5000))
    return peer
for name in sys.argv[1:]:
    print(ask(lambda: socket.create_connection((name, 5000))), ask(lambda: plain(name)))
    print(*sorted({found[4][0] for found in socket.getaddrinfo(name, 5000)}))
"""


def text_of(path: str) -> str:
    return Path(path).read_text()


def member(hostname: str, **more: Any) -> dict[str, Any]:
    return {"hostname": hostname, "subdomain": "gang", **more}


def test_addresses_are_unique_and_come_up_again_only_after_all_others() -> None:
    addresses = AddressPool(Random(3))
    first = [addresses.allocate() for _ in range(1000)]
    assert len(frozenset(first)) == 1000
    for address in first:
        addresses.release(address)
    assert not frozenset(first) & frozenset(addresses.allocate() for _ in range(1000))
    assert all(address.startswith("127.") and not address.endswith((".0", ".255")) for address in first)
    assert not any(address.startswith("127.0.") for address in first)


def test_a_taken_address_is_passed_over_when_all_have_been_given_out() -> None:
    addresses = AddressPool(Random(3))
    held = addresses.allocate()
    addresses._next -= 1
    assert addresses.allocate() != held


def test_the_file_of_a_namespace_has_the_names_that_are_known_in_it(tmp_path: Path) -> None:
    hosts = HostsFiles(tmp_path / "hosts")
    hosts.add(Uid("1"), Host(namespace="a", hostname="w-0", subdomain="gang", address="127.1.0.1"))
    hosts.add(Uid("2"), Host(namespace="b", hostname="w-0", subdomain="gang", address="127.1.0.2"))
    hosts.add(Uid("3"), Host(namespace="b", hostname="alone", subdomain="", address="127.1.0.3"))
    hosts.write()
    full = "w-0.gang.{0}.svc.cluster.local w-0.gang.{0}.svc w-0.gang.{0}"
    service = "gang.{0}.svc.cluster.local gang.{0}.svc gang.{0}"
    assert hosts.file("a").read_text().splitlines() == [
        f"127.1.0.2 {full.format('b')} {service.format('b')}",
        f"127.1.0.1 {full.format('a')} w-0.gang {service.format('a')} gang",
    ]
    hosts.remove(Uid("1"))
    hosts.write()
    assert hosts.file("a").read_text().splitlines() == [f"127.1.0.2 {full.format('b')} {service.format('b')}"]
    assert hosts.file("b").read_text().startswith("127.1.0.2 w-0.gang.b.svc.cluster.local")


def test_of_two_pods_with_one_name_the_newer_stands_first(tmp_path: Path) -> None:
    hosts = HostsFiles(tmp_path / "hosts")
    for number in ("1", "2"):
        hosts.add(Uid(number), Host(namespace="a", hostname="w", subdomain="g", address=f"127.1.0.{number}"))
    hosts.write()
    assert [line.split()[0] for line in hosts.file("a").read_text().splitlines()] == ["127.1.0.2", "127.1.0.1"]


def test_a_host_name_is_short_enough() -> None:
    assert hostname_of("p" * 62 + "-x", "") == "p" * 62
    assert hostname_of("pod", "wanted") == "wanted"


def test_python_programs_find_each_other_by_name_and_may_all_use_one_port() -> None:
    async def story(cluster: ProcessCluster) -> None:
        for name in ("w-0", "w-1"):
            await cluster.put(name, "python3", "-c", LISTEN, **member(name))
            pod = await cluster.ready(name)
            assert await cluster.lines(name) == [pod.status["podIP"]]
        ips = [(await cluster.ready(name)).status["podIP"] for name in ("w-0", "w-1")]
        names = ("w-0.gang", "W-1.gang.default.svc.cluster.local")
        text = await cluster.output("asker", "python3", "-c", ASK, *names, **member("asker"))
        assert text.splitlines() == ["w-0 w-0", ips[0], "w-1 w-1", ips[1]]

    run_processes(story)


def test_the_name_of_a_service_has_the_addresses_of_all_its_pods() -> None:
    async def story(cluster: ProcessCluster) -> None:
        script = "import socket; print(*sorted(socket.gethostbyname_ex('gang.default.svc.cluster.local')[2]))"
        for name in ("w-0", "w-1"):
            await cluster.put(name, "sleep", "1000", **member(name))
        ips = sorted([(await cluster.ready(name)).status["podIP"] for name in ("w-0", "w-1")])
        assert await cluster.output("asker", "python3", "-c", script) == " ".join(ips) + "\n"

    run_processes(story)


def test_a_pod_finds_itself_by_its_host_name_and_others_as_ever() -> None:
    async def story(cluster: ProcessCluster) -> None:
        script = "import socket; print(socket.gethostbyname(socket.gethostname()), socket.gethostbyname('localhost'))"
        await cluster.put("a", "python3", "-c", script, hostname="me")
        pod = await cluster.ended("a")
        assert await cluster.log("a") == f"{pod.status['podIP']} 127.0.0.1\n"

    run_processes(story)


def test_a_server_of_asyncio_that_listens_on_all_addresses_has_only_its_own() -> None:
    async def story(cluster: ProcessCluster) -> None:
        script = (
            "import asyncio\n"
            "async def main():\n"
            "    server = await asyncio.start_server(lambda *_: None, None, 5000)\n"
            "    print(*(each.getsockname()[0] for each in server.sockets))\n"
            "asyncio.run(main())\n"
        )
        await cluster.put("a", "python3", "-c", script)
        pod = await cluster.ended("a")
        assert await cluster.log("a") == f"{pod.status['podIP']}\n"

    run_processes(story)


def test_python_can_be_left_as_it_is_and_keeps_its_own_path(tmp_path: Path) -> None:
    async def story(cluster: ProcessCluster) -> None:
        (tmp_path / "mine.py").write_text("print('mine')\n")
        script = "import mine, socket; print(socket.getaddrinfo.__module__)"
        env = [{"name": "PYTHONPATH", "value": str(tmp_path)}]
        assert await cluster.output("a", "python3", "-c", script, main={"env": env}) == "mine\nsitecustomize\n"
        env.append({"name": "GROVE_RESOLVER", "value": "off"})
        assert await cluster.output("b", "python3", "-c", script, main={"env": env}) == "mine\nsocket\n"

    run_processes(story)


def test_a_pod_that_has_ended_is_no_longer_found() -> None:
    async def story(cluster: ProcessCluster) -> None:
        await cluster.put("w", "sh", "-c", "cat $GROVE_HOSTS_FILE; echo $GROVE_HOSTS_FILE", **member("w"))
        pod = await cluster.ended("w")
        line, path = (await cluster.log("w")).splitlines()
        assert line.split()[:2] == [pod.status["podIP"], "w.gang.default.svc.cluster.local"]
        assert text_of(path) == ""

    run_processes(story)
