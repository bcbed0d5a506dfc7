"""What processes write, as `kubectl logs` shows it."""

import asyncio
import os
import re
from pathlib import Path

import pytest

from grove.clock import LoopClock
from grove.cluster.kubelet.process.container_log import LARGEST_FILE, LONGEST_LINE, ContainerLog
from tests.cluster.kubelet.process_cluster import ProcessCluster, leap, run_processes

COUNT = ("sh", "-c", "for i in 1 2 3 4 5; do echo line $i; done")


def test_output_and_errors_are_one_log_in_the_order_they_were_written() -> None:
    async def story(cluster: ProcessCluster) -> None:
        text = await cluster.output("a", "sh", "-c", "echo one; echo two >&2; echo three; printf four")
        assert text == "one\ntwo\nthree\nfour\n"

    run_processes(story)


def test_a_part_of_a_log_can_be_asked_for() -> None:
    async def story(cluster: ProcessCluster) -> None:
        await cluster.output("a", *COUNT)
        assert await cluster.log("a", tailLines="2") == "line 4\nline 5\n"
        assert await cluster.log("a", limitBytes="6") == "line 1"
        assert await cluster.log("a", sinceSeconds="3600") == await cluster.log("a")
        assert await cluster.log("a", sinceTime="2100-01-01T00:00:00Z") == ""
        stamped = (await cluster.log("a", timestamps="true")).splitlines()
        assert len(stamped) == 5
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z line 1", stamped[0])

    run_processes(story)


def test_of_two_containers_each_has_its_log() -> None:
    async def story(cluster: ProcessCluster) -> None:
        containers = [{"name": name, "image": "n", "command": ["echo", f"I am {name}"]} for name in ("one", "two")]
        await cluster.put("a", containers=containers)
        await cluster.ended("a")
        assert await cluster.log("a", container="one") == "I am one\n"
        assert await cluster.log("a", container="two") == "I am two\n"

    run_processes(story)


def test_a_followed_log_brings_each_line_when_it_is_written_and_ends_with_the_run(tmp_path: Path) -> None:
    async def story(cluster: ProcessCluster) -> None:
        script = f"for i in 1 2 3; do until test -e {tmp_path}/$i; do sleep 0.01; done; echo line $i; done"
        await cluster.put("a", "sh", "-c", script)
        await cluster.until("a", lambda pod: "running" in pod.state)
        async with asyncio.timeout(60), cluster.follow("a") as lines:
            for number in ("1", "2", "3"):
                # Nothing is written before, so nothing can have been told before.
                (tmp_path / number).touch()
                assert await anext(lines) == f"line {number}".encode()
            assert [line async for line in lines] == []

    run_processes(story)


def test_a_followed_log_ends_with_all_lines_when_the_pod_is_deleted() -> None:
    async def story(cluster: ProcessCluster) -> None:
        # Not a shell: it would also tell that its own child was asked to end.
        script = (
            "import signal, sys\n"
            "def leave(*_): sys.exit(print('bye'))\n"
            "signal.signal(signal.SIGTERM, leave)\n"
            "print('up', flush=True)\n"
            "signal.pause()\n"
        )
        await cluster.put("a", "python3", "-c", script)
        await cluster.lines("a")
        async with asyncio.timeout(60), cluster.follow("a") as lines:
            assert await anext(lines) == b"up"
            await cluster.delete("a")
            assert [line async for line in lines] == [b"bye"]

    run_processes(story)


def test_the_log_of_the_run_before_is_kept_and_no_older_one(tmp_path: Path) -> None:
    async def story(cluster: ProcessCluster) -> None:
        script = f"echo x >> {tmp_path}/runs; echo run $(wc -l < {tmp_path}/runs); exit 1"
        await cluster.put("a", "sh", "-c", script, restartPolicy="Always")
        await cluster.until("a", lambda pod: "back-off 10s" in str(pod.state))
        # Between two runs the last one is all there is.
        assert await cluster.log("a") == "run 2\n"
        assert await cluster.log("a", previous="true") == "run 2\n"
        leap(10)
        await cluster.until("a", lambda pod: "back-off 20s" in str(pod.state))
        assert await cluster.log("a", previous="true") == "run 3\n"

    run_processes(story)


def test_the_log_of_the_run_before_can_be_read_while_the_next_one_runs(tmp_path: Path) -> None:
    async def story(cluster: ProcessCluster) -> None:
        script = f"test -e {tmp_path}/mark && {{ echo second; sleep 1000; }}; touch {tmp_path}/mark; echo first; exit 1"
        await cluster.put("a", "sh", "-c", script, restartPolicy="OnFailure")
        await cluster.until("a", lambda pod: pod.container.get("restartCount") == 1 and "running" in pod.state)
        assert await cluster.lines("a") == ["second"]
        assert await cluster.log("a", previous="true") == "first\n"

    run_processes(story)


def test_a_process_that_writes_without_end_fills_no_disk() -> None:
    async def story(cluster: ProcessCluster) -> None:
        size = 3 * LARGEST_FILE
        script = f"yes 0123456789abcdef | head -c {size}; echo; echo the end"
        text = await cluster.output("a", "sh", "-c", script)
        assert text.endswith("the end\n")
        # Lines and their times together; at least one full file of the last ones.
        stamped = await cluster.log("a", timestamps="true")
        assert LARGEST_FILE <= len(stamped) <= 2 * LARGEST_FILE

    run_processes(story)


# --- the files -------------------------------------------------------------------------------------------------------


def written(path: Path, *chunks: bytes) -> list[str]:
    """The lines of a log that got these chunks."""

    async def write() -> list[str]:
        log = ContainerLog(path, LoopClock.starting_now())
        for chunk in chunks:
            os.write(log.write_end, chunk)
        log.close_write_end()
        await log.drained.wait()
        return [line.text for line in log.lines_from(0)[0]]

    return asyncio.run(write())


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([b"a\nb\n"], ["a", "b"]),
        ([b"a", b"b\nc"], ["ab", "c"]),
        ([b"\n\n"], ["", ""]),
        ([b"dos\r\n"], ["dos"]),
        ([b"10%\r20%\rdone\n"], ["10% 20% done"]),
        ([b"\xff\xfe\n"], ["\N{REPLACEMENT CHARACTER}" * 2]),
        (["ä €\n".encode()], ["ä €"]),
        ([b"x" * (LONGEST_LINE + 1) + b"\n"], ["x" * LONGEST_LINE, "x"]),
        ([], []),
    ],
)
def test_bytes_become_lines(tmp_path: Path, chunks: list[bytes], lines: list[str]) -> None:
    assert written(tmp_path / "log", *chunks) == lines


def test_whoever_follows_gets_every_line_once_also_when_files_are_turned_over(tmp_path: Path) -> None:
    numbers = [str(number) for number in range(LARGEST_FILE // 10_000 + 50)]

    async def story() -> list[str]:
        log = ContainerLog(tmp_path / "log", LoopClock.starting_now())
        has_news = asyncio.Event()
        log.subscribe("me", has_news.set)
        place, found = 0, []
        for number in numbers:
            has_news.clear()
            os.write(log.write_end, f"{number} {'x' * 10_000}\n".encode())
            await has_news.wait()
            lines, place = log.lines_from(place)
            found += [line.text.partition(" ")[0] for line in lines]
        log.close()
        return found

    assert asyncio.run(story()) == numbers
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "log.older"]
