"""Select the lines of trees that fit a height: broken ones first, healthy ones folded into `8 replicas ready`. Pure.

Lines below the same parent with the same noun and state form a group. A group is shown as one folded line, or its
members are shown one by one; the rest of a group that is shown in part stays folded.
"""

from collections.abc import Iterator, Sequence
from operator import attrgetter

import msgspec

from grove.api.types.podgang import GangPhase
from grove.cli.common.output import Cell, Tone
from grove.cli.status.tree import PodCounts
from grove.cli.status.tree_lines import LineHealth, TreeLine, ready_cell

# Members of a group that needs attention, if there is no room for all of them.
FEW = 3
UNLIMITED = 1_000_000_000
_FOLDED_TONES = {LineHealth.BROKEN: Tone.BAD, LineHealth.WAITING: Tone.WAITING, LineHealth.HEALTHY: Tone.GOOD}


class TreeRow(msgspec.Struct, frozen=True, kw_only=True):
    """A line with the branches in front of it, or a text below or after a line."""

    stem: str = ""
    line: TreeLine | None = None
    text: Cell = Cell("")


class FoldedTree(msgspec.Struct, frozen=True, kw_only=True):
    rows: tuple[TreeRow, ...]
    # Whether all lines are shown.
    is_whole: bool


def fold_trees(roots: Sequence[TreeLine], height: int = UNLIMITED) -> FoldedTree:
    """Return at most `height` rows. Without a height all lines are shown."""
    folding = _Folding(roots, height)
    folding.fold()
    return FoldedTree(rows=tuple(folding.rows())[:height], is_whole=folding.is_whole())


class _Group:
    """The lines below one parent that have the same noun and state."""

    def __init__(self, members: list[tuple[int, TreeLine]], state: str) -> None:
        self.members = members
        self.health = min(line.health for _, line in members)
        self.state = state
        self.shown: list[_Branch] = []

    @property
    def hidden(self) -> int:
        """Return how many members are folded."""
        return len(self.members) - len(self.shown)

    def folded_line(self) -> TreeLine:
        hidden = [line for _, line in self.members[len(self.shown) :]]
        noun = hidden[0].noun if len(hidden) == 1 else f"{hidden[0].noun}s"
        name = f"{len(hidden)} {noun} {self.state}"
        counts = _sum([line.counts for line in hidden])
        return TreeLine(
            noun=hidden[0].noun,
            name=name,
            short_name=name,
            tone=_FOLDED_TONES[self.health],
            phase=self.state,
            health=self.health,
            status=Cell(""),
            counts=counts,
            ready=Cell("") if hidden[0].noun == "pod" else ready_cell(counts),
        )


class _Branch:
    """A line that is shown. It is open if lines below it are shown, too."""

    def __init__(self, line: TreeLine, position: int = 0) -> None:
        self.line = line
        self.position = position
        self.is_open = False
        self.has_texts = False
        self.has_hint = False
        self.groups = _group_lines(line.children)

    @property
    def shown(self) -> list["_Branch"]:
        return [branch for group in self.groups for branch in group.shown] if self.is_open else []


def _group_lines(lines: Sequence[TreeLine]) -> list[_Group]:
    found: dict[tuple[str, str], list[tuple[int, TreeLine]]] = {}
    for position, line in enumerate(lines):
        found.setdefault((line.noun, _state(line)), []).append((position, line))
    groups = [
        _Group(sorted(members, key=lambda each: (each[1].health, each[0])), key[1]) for key, members in found.items()
    ]
    return sorted(groups, key=lambda group: group.health)


def _state(line: TreeLine) -> str:
    """Return what a folded line says about its members."""
    if line.phase != GangPhase.RUNNING:
        return line.phase
    return "ready" if line.health is LineHealth.HEALTHY else "not complete"


def _parent_of(roots: Sequence[TreeLine]) -> TreeLine:
    """Return a line that is never shown itself, above all roots."""
    health = min(line.health for line in roots)
    return TreeLine(
        noun="", name="", short_name="", phase="", health=health, status=Cell(""), counts=PodCounts(),
        children=tuple(roots),
    )  # fmt: skip


class _Folding:
    """The rows that are left, and what is shown so far."""

    def __init__(self, roots: Sequence[TreeLine], height: int) -> None:
        self._top = _Branch(_parent_of(roots))
        # Every group of roots is shown, even if that needs more rows.
        self._left = max(height, len(self._top.groups))

    def fold(self) -> None:
        """Show what needs attention, one path first, then more of it; then healthy lines, level by level."""
        self._open(self._top)
        for health in (LineHealth.BROKEN, LineHealth.WAITING):
            self._drill(self._top, health, 1)
        for branch in self._top.shown:
            branch.has_hint = bool(branch.line.hint) and self._take(1)
        for health in (LineHealth.BROKEN, LineHealth.WAITING):
            self._drill(self._top, health, FEW)
        for health in (LineHealth.BROKEN, LineHealth.WAITING):
            self._unfold(self._top, health)
        for group in self._top.groups:
            self._show_while_room(group)
        for branch in self._top.shown:
            self._open_levels(branch)

    def is_whole(self) -> bool:
        return all(_is_whole(branch) for branch in self._top.shown) and not any(g.hidden for g in self._top.groups)

    def _take(self, rows: int) -> bool:
        """Reserve rows if there are so many left."""
        if rows > self._left:
            return False
        self._left -= rows
        return True

    def _open(self, branch: _Branch) -> bool:
        """Show the groups below a line, all of them folded. A group of one is the line itself."""
        if branch.is_open:
            return True
        if not branch.line.children or not self._take(len(branch.groups)):
            return False
        branch.is_open = True
        for group in branch.groups:
            if len(group.members) == 1:
                self._append(group)
        return True

    def _append(self, group: _Group) -> None:
        """Show the next member, whose row is reserved, with its texts if there is room for them."""
        position, line = group.members[len(group.shown)]
        branch = _Branch(line, position)
        group.shown.append(branch)
        branch.has_texts = self._take(len(line.remarks) + len(line.notes))

    def _show_next(self, group: _Group) -> bool:
        """Show the next member of a folded group. The last one takes the row of the folded line."""
        if not self._take(1 if group.hidden > 1 else 0):
            return False
        self._append(group)
        return True

    def _drill(self, branch: _Branch, health: LineHealth, limit: int) -> None:
        """Show lines of this health or worse, at most `limit` of each group, down to the pods."""
        if branch.line.health > health or not self._open(branch):
            return
        for group in branch.groups:
            if group.health > health:
                continue
            while len(group.shown) < min(limit, len(group.members)) and self._show_next(group):
                pass
            for shown in group.shown[:limit]:
                self._drill(shown, health, limit)

    def _unfold(self, branch: _Branch, health: LineHealth) -> None:
        """Show all members of groups that need attention, where there is room for all of them."""
        for group in branch.groups if branch.is_open else ():
            if group.health <= health and group.hidden - 1 <= self._left:
                self._show_while_room(group)
            for shown in group.shown:
                if shown.line.health <= health and self._open(shown):
                    self._unfold(shown, health)

    def _show_while_room(self, group: _Group) -> None:
        while group.hidden and self._show_next(group):
            pass

    def _open_levels(self, root: _Branch) -> None:
        """Show healthy lines below a root, one level after the other: all of a level, or its groups, or none of it."""
        level = [root]
        while level:
            closed = [branch for branch in level if not branch.is_open and branch.line.children]
            folded = [g for b in level if b.is_open for g in b.groups if g.health is LineHealth.HEALTHY and g.hidden]
            rows = sum(len(branch.line.children) for branch in closed) + sum(g.hidden - 1 for g in folded)
            if rows <= self._left:
                for branch in closed:
                    self._open(branch)
                for group in (group for branch in closed for group in branch.groups):
                    self._show_while_room(group)
                for group in folded:
                    self._show_while_room(group)
            else:
                # The line of a clique has the count of its pods.
                groups = [branch for branch in closed if branch.line.noun != "clique"]
                if sum(len(branch.groups) for branch in groups) <= self._left:
                    for branch in groups:
                        self._open(branch)
            level = [shown for branch in level for shown in branch.shown]

    def rows(self) -> Iterator[TreeRow]:
        for line, branch in _in_order(self._top):
            yield TreeRow(line=line)
            if branch is None:
                continue
            if branch.has_texts:
                bar = "│  " if branch.is_open else "   "
                yield from (TreeRow(text=Cell(text.text, text.tone, bar)) for text in line.remarks)
            yield from _rows_below(branch, "")
            if branch.has_texts:
                yield from (TreeRow(text=text) for text in line.notes)
            if branch.has_hint:
                yield TreeRow(text=Cell(line.hint, Tone.FAINT))


def _rows_below(branch: _Branch, stem: str) -> Iterator[TreeRow]:
    below = list(_in_order(branch))
    for number, (line, child) in enumerate(below, start=1):
        is_last = number == len(below)
        yield TreeRow(stem=stem + ("└─ " if is_last else "├─ "), line=line)
        if child is None:
            continue
        below_line = stem + ("   " if is_last else "│  ")
        if child.has_texts:
            bar = below_line + ("│  " if child.is_open else "   ")
            yield from (TreeRow(text=Cell(text.text, text.tone, bar)) for text in line.remarks)
        yield from _rows_below(child, below_line)


def _in_order(branch: _Branch) -> Iterator[tuple[TreeLine, _Branch | None]]:
    """Yield the shown members in their order, then the folded lines, worst first."""
    if not branch.is_open:
        return
    for shown in sorted(branch.shown, key=attrgetter("position")):
        yield shown.line, shown
    yield from ((group.folded_line(), None) for group in branch.groups if group.hidden)


def _is_whole(branch: _Branch) -> bool:
    if not branch.line.children:
        return True
    return branch.is_open and all(not g.hidden and all(map(_is_whole, g.shown)) for g in branch.groups)


def _sum(counts: list[PodCounts]) -> PodCounts:
    return PodCounts(
        wanted=sum(each.wanted for each in counts),
        ready=sum(each.ready for each in counts),
        scheduled=sum(each.scheduled for each in counts),
        succeeded=sum(each.succeeded for each in counts),
    )
