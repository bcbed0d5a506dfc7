"""What is kept: nothing that somebody was told of is lost, nothing is half there, whatever happens to the disk."""

import asyncio
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grove.cluster.storage.store import ChangeType, CompactedError, NotPersistedError
from grove.errors import UserError
from tests.cluster.kept_store import CONFIGS, Disk, Keeping, State, config, keep, reopened, state, turns
from tests.seeds import examples, is_deep

_Write = tuple[str, str, str, str]
_WRITES = st.lists(
    st.tuples(st.sampled_from(["put", "remove", "wait"]), st.sampled_from("de"), st.sampled_from("abc"), st.text()),
    max_size=25,
)


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path / "disk")


# --- what a new process finds ----------------------------------------------------------------------------------------


def test_objects_and_revisions_go_on_after_a_restart(disk: Disk) -> None:
    async def first(kept: Keeping) -> None:
        kept.put("a", 1)
        kept.put("b", "ü \u2028 \U0001f333")
        kept.put("a", 2)
        kept.remove("b")

    keep(disk, first)
    found = reopened(disk)
    assert found.revision == 4
    assert [(entry.name, entry.obj["data"], entry.revision) for entry in found.table(CONFIGS).entries(None)] == [
        ("a", {"value": 2}, 3)
    ]
    assert found.put(CONFIGS, "d", "c", config("c")).obj["metadata"]["resourceVersion"] == "5"


def test_watches_go_on_where_they_were(disk: Disk) -> None:
    async def first(kept: Keeping) -> None:
        for number in range(5):
            kept.put("a", number)
        kept.remove("a")

    keep(disk, first)
    table = reopened(disk).table(CONFIGS)
    later = table.log[table.cursor_after(3) - table.dropped_count :]
    assert [(change.type, change.revision, change.entry.obj["data"]["value"]) for change in later] == [
        (ChangeType.MODIFIED, 4, 3),
        (ChangeType.MODIFIED, 5, 4),
        (ChangeType.DELETED, 6, 4),
    ]
    assert [change.before and change.before.revision for change in later] == [3, 4, 5]


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(writes=_WRITES, history=st.sampled_from([1, 3, 10_000]))
def test_a_new_process_finds_what_the_old_one_had(
    tmp_path_factory: pytest.TempPathFactory, writes: list[_Write], history: int
) -> None:
    disk = Disk(tmp_path_factory.mktemp("here") / "disk")

    async def first(kept: Keeping) -> State:
        for write in writes:
            await _carry_out(kept, write)
        await kept.journal.wait_persisted()
        return state(kept.store)

    before = keep(disk, first, history=history)
    after = state(reopened(disk, history=history))
    # Of history, the newest part: it may begin later than it did in memory.
    for kind, changes in after["history"].items():
        assert changes == before["history"][kind][len(before["history"][kind]) - len(changes) :]
    if history == 10_000:
        assert after["history"] == before["history"]
    if before["revision"]:
        assert {key: after[key] for key in ("revision", "shown", "objects")} == {
            key: before[key] for key in ("revision", "shown", "objects")
        }


async def _carry_out(kept: Keeping, write: _Write) -> None:
    verb, namespace, name, value = write
    if verb == "wait":
        await kept.journal.wait_persisted()
    elif verb == "put":
        kept.put(name, value, namespace)
    elif kept.store.table(CONFIGS).find(namespace, name) is not None:
        kept.remove(name, namespace)


@pytest.mark.parametrize(("writes", "oldest"), [(5, 0), (6, 0), (7, 2), (8, 3), (30, 25)])
def test_history_has_an_end_and_what_is_older_is_said_to_be_gone(disk: Disk, writes: int, oldest: int) -> None:
    async def first(kept: Keeping) -> None:
        for number in range(writes):
            kept.put("a", number)
            await kept.journal.wait_persisted()
        # What is no longer needed goes with the next write.
        assert kept.log.floor == oldest

    keep(disk, first, history=5)
    table = reopened(disk, history=5).table(CONFIGS)
    assert table.compacted == oldest
    assert [change.revision for change in table.log] == list(range(oldest + 1, writes + 1))
    if oldest:
        with pytest.raises(CompactedError):
            table.cursor_after(oldest - 1)
    table.cursor_after(oldest)


def test_an_object_that_is_gone_stays_gone_while_its_rows_go_one_by_one(disk: Disk) -> None:
    async def first(kept: Keeping) -> list[tuple[Disk, State]]:
        crashes = []
        kept.put("a", 1)
        kept.put("a", 2)
        kept.remove("a")
        for number in range(5):
            kept.put("b", number)
            await kept.journal.wait_persisted()
            crashes.append((disk.crash(), state(kept.store)["objects"]))
        return crashes

    for left, objects in keep(disk, first, history=1):
        assert state(reopened(left, history=1))["objects"] == objects


def test_the_file_does_not_grow_with_the_number_of_writes(disk: Disk) -> None:
    sizes: list[int] = []

    async def first(kept: Keeping) -> None:
        for number in range(600):
            kept.put(f"a{number % 3}", "x" * 2000)
            await kept.journal.wait_persisted()
            if number in (299, 599):
                sizes.append(disk.file.stat().st_size + disk.write_ahead.stat().st_size)

    keep(disk, first, history=20)
    assert sizes[1] <= sizes[0] * 1.5
    assert len(list(reopened(disk).table(CONFIGS).entries(None))) == 3


# --- crashes ---------------------------------------------------------------------------------------------------------


def test_a_crash_between_any_two_writes_loses_none_that_was_told(disk: Disk) -> None:
    crashes: list[tuple[Disk, State]] = []

    async def first(kept: Keeping) -> None:
        before = state(kept.store)
        for number in range(12):
            kept.put(f"a{number % 5}", number)
            if number % 3 == 0:
                kept.remove(f"a{number % 5}")
            # Written, and nobody was told: not there yet.
            crashes.append((disk.crash(), before))
            await kept.journal.wait_persisted()
            before = state(kept.store)
            crashes.append((disk.crash(), before))

    keep(disk, first)
    assert len(crashes) == 24
    for left, before in crashes:
        assert state(reopened(left)) == before


def test_a_crash_while_the_disk_is_busy_shows_all_of_a_turn_or_nothing(disk: Disk) -> None:
    async def first(kept: Keeping) -> None:
        kept.put("a")
        await kept.journal.wait_persisted()
        kept.log.is_free.clear()
        kept.put("a", "marked")
        kept.remove("a")
        kept.put("b")
        told = asyncio.ensure_future(kept.journal.wait_persisted())
        await turns()
        assert (kept.store.revision, kept.store.visible_revision, told.done()) == (4, 1, False)
        assert reopened(disk.crash()).revision == 1
        kept.log.is_free.set()
        await told
        assert reopened(disk.crash()).revision == 4

    keep(disk, first)


def _cuts(size: int, frame: int) -> list[int]:
    """Every byte of every header and around every boundary, and some of each page between them."""
    near = [cut for start in range(32, size, frame) for cut in range(start - 3, start + 30)]
    return sorted({cut for cut in [*range(34), *near, *range(0, size, 509), size - 1, size] if 0 <= cut <= size})


def test_a_torn_end_is_cut_and_what_was_told_before_is_there(disk: Disk) -> None:
    ends: list[tuple[int, State]] = []

    async def first(kept: Keeping) -> Disk:
        for number in range(6):
            for name in "abc"[: number % 3 + 1]:
                kept.put(name, f"{number}" * 3000)
            await kept.journal.wait_persisted()
            ends.append((disk.write_ahead.stat().st_size, state(kept.store)))
        return disk.crash()

    crashed = keep(disk, first)
    cuts = _cuts(ends[-1][0], 8192 + 24)[:: 1 if is_deep() else 4]
    nothing = state(reopened(Disk(disk.folder.with_name("new"))))
    assert len(cuts) > examples(400)
    for cut in cuts:
        left = crashed.crash(cut)
        told = [found for end, found in ends if end <= cut]
        assert state(reopened(left)) == (told[-1] if told else nothing), cut
        left.remove()


# --- damage ----------------------------------------------------------------------------------------------------------


def test_a_damaged_write_ahead_file_is_named_and_nothing_is_deleted(disk: Disk) -> None:
    async def first(kept: Keeping) -> Disk:
        for number in range(6):
            kept.put("a", f"{number}" * 5000)
            await kept.journal.wait_persisted()
        return disk.crash()

    crashed = keep(disk, first)
    frame = 8192 + 24
    size = crashed.write_ahead.stat().st_size
    last_end = size - 3 * frame
    for at in range(32 + 24 + 100, last_end, 1777):
        left = crashed.crash()
        left.flip("cluster.db-wal", at)
        before = left.contents()
        with pytest.raises(UserError, match=r"cluster\.db: is damaged \(cluster\.db-wal, wrong checksum at byte \d+\)"):
            reopened(left)
        assert left.contents() == before
        left.remove()


def test_a_damaged_file_is_named_or_the_damage_means_nothing(disk: Disk) -> None:
    async def first(kept: Keeping) -> State:
        for number in range(40):
            kept.put(f"a{number}", f"{number} " * 300)
        kept.remove("a7")
        await kept.journal.wait_persisted()
        return state(kept.store)

    before = keep(disk, first)
    assert not disk.write_ahead.exists()
    places = [*range(0, 120, 7), *range(120, disk.file.stat().st_size, 131)]
    words = []
    for at in places:
        left = disk.crash()
        left.flip("cluster.db", at)
        try:
            assert state(reopened(left)) == before, at
        except UserError as error:
            words.append(str(error).removeprefix(str(left.file)))
        assert left.file.exists()
        left.remove()
    assert {word.partition(" (")[0] for word in words} <= {": is damaged", ": cannot be opened"}
    assert len(words) > len(places) / 2


def test_what_is_no_database_is_named(disk: Disk) -> None:
    disk.file.write_bytes(b"something else entirely" * 1000)
    with pytest.raises(UserError, match=r"cluster\.db: is damaged \(file is not a database\); nothing was deleted"):
        reopened(disk)
    assert disk.file.read_bytes() == b"something else entirely" * 1000


# --- a disk that refuses ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["full", "broken"])
def test_a_write_that_the_disk_refuses_never_was(disk: Disk, fault: str) -> None:
    async def first(kept: Keeping) -> None:
        kept.put("a", "x" * 9000, role="r")
        kept.put("b", 1)
        await kept.journal.wait_persisted()
        table = kept.store.table(CONFIGS)
        assert [entry.name for entry in table.find_candidates([("role", "r")])] == ["a"]
        before = state(kept.store)
        heard: list[tuple[str, str]] = []
        kept.store.subscribe(lambda change: heard.append((change.type.value, change.entry.name)))
        with _fault(kept, fault):
            kept.put("a", 2)
            kept.put("c", 3, role="r")
            kept.remove("b")
            with pytest.raises(NotPersistedError, match=r"cluster\.db: "):
                await kept.journal.wait_persisted()
        assert state(kept.store) == before
        assert [entry.name for entry in table.find_candidates([("role", "r")])] == ["a"]
        assert heard == [
            ("MODIFIED", "a"), ("ADDED", "c"), ("DELETED", "b"),
            ("ADDED", "b"), ("DELETED", "c"), ("MODIFIED", "a"),
        ]  # fmt: skip
        assert state(reopened(disk.crash())) == before
        kept.put("c", 4)
        await kept.journal.wait_persisted()
        assert kept.store.revision == 3
        assert state(reopened(disk.crash())) == state(kept.store)

    keep(disk, first)


def test_what_was_written_while_the_disk_was_busy_goes_with_what_it_was_built_on(disk: Disk) -> None:
    async def first(kept: Keeping) -> None:
        kept.put("a", 1)
        await kept.journal.wait_persisted()
        kept.log.is_free.clear()
        kept.log.is_broken = True
        kept.put("a", 2)
        early = asyncio.ensure_future(kept.journal.wait_persisted())
        await turns()
        kept.put("a", 3)
        late = asyncio.ensure_future(kept.journal.wait_persisted())
        kept.log.is_free.set()
        done = await asyncio.gather(early, late, return_exceptions=True)
        assert [type(error) for error in done] == [NotPersistedError, NotPersistedError]
        assert kept.store.table(CONFIGS).find("d", "a") == kept.store.table(CONFIGS).log[-1].entry
        assert (kept.store.revision, kept.journal.is_behind) == (1, False)
        kept.log.is_broken = False
        kept.put("a", 4)
        await kept.journal.wait_persisted()

    keep(disk, first)
    assert [entry.obj["data"]["value"] for entry in reopened(disk).table(CONFIGS).entries(None)] == [4]


def test_it_heals_after_many_refusals(disk: Disk) -> None:
    async def first(kept: Keeping) -> None:
        kept.put("a", "x" * 9000)
        await kept.journal.wait_persisted()
        for number in range(20):
            with disk.full():
                kept.put("a", f"{number}" * (1000 * number))
                with pytest.raises(NotPersistedError):
                    await kept.journal.wait_persisted()
            if number % 4 == 0:
                kept.put("b", number)
                await kept.journal.wait_persisted()
            # Attempts that failed are no damage.
            assert state(reopened(disk.crash())) == state(kept.store)

    keep(disk, first)


@contextmanager
def _fault(kept: Keeping, fault: str) -> Iterator[None]:
    if fault == "full":
        with kept.disk.full():
            yield
        return
    kept.log.is_broken = True
    yield
    kept.log.is_broken = False


# --- many writes, one transaction ------------------------------------------------------------------------------------


def test_the_writes_of_a_turn_and_those_that_come_meanwhile_are_one_transaction_each(disk: Disk) -> None:
    async def first(kept: Keeping) -> None:
        kept.log.is_free.clear()
        for number in range(3):
            kept.put(f"a{number}")
        await turns(1)
        for number in range(50):
            kept.put(f"b{number}")
            await turns(1)
        kept.log.is_free.set()
        await kept.journal.wait_persisted()
        assert kept.log.sizes == [3, 50]

    keep(disk, first)


def test_nobody_waits_when_nothing_was_written(disk: Disk) -> None:
    async def first(kept: Keeping) -> None:
        kept.log.is_free.clear()
        assert not kept.journal.is_behind
        await kept.journal.wait_persisted()

    keep(disk, first)


def test_watches_see_a_change_when_it_is_kept(disk: Disk) -> None:
    async def first(kept: Keeping) -> None:
        table = kept.store.table(CONFIGS)
        woken: list[int] = []
        table.wake_on_change("me", lambda: woken.append(table.visible_end))
        kept.log.is_free.clear()
        kept.put("a")
        kept.put("b")
        await turns(1)
        assert (table.end, table.visible_end, kept.store.visible_revision, woken) == (2, 0, 0, [])
        kept.log.is_free.set()
        await kept.journal.wait_persisted()
        assert (table.end, table.visible_end, kept.store.visible_revision, woken) == (2, 2, 2, [2])

    keep(disk, first)


def test_only_the_owner_can_read_what_is_kept(tmp_path: Path) -> None:
    from grove.cluster.storage.data_dir import open_data_dir

    folder = tmp_path / "cluster"
    with open_data_dir(folder) as data_dir:
        data_dir.write_identity(b"secret")
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
        assert {"cluster.db", "format", "identity.json", "lock"} <= set(modes)
        assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
