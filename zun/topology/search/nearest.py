# SPDX-License-Identifier: Apache-2.0
"""Requests near a refused one that the host could have taken: the part of a refusal that a user can act on.

Amounts are exact. An amount that is one number is bisected, because a smaller amount fits wherever a larger one does.
For a list with one entry a cell, the least reduction is a cheapest matching of parts and cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, islice, permutations, product
from math import prod

from zun.topology import amounts
from zun.topology.device_request import DevicePolicy, DeviceRequest, DeviceSame
from zun.topology.host_topology import HostTopology
from zun.topology.placement import Plan
from zun.topology.refusal import Change, Dimension
from zun.topology.request import MICRO, CPUPolicy, Isolation, MemPolicy, NUMAAffinity, PlacementRequest, ThreadPolicy
from zun.topology.search.matching import cheapest_matching
from zun.topology.search.question import Question
from zun.topology.search.steps import FURTHER_STEPS, STEPS, Steps
from zun.topology.usage import Usage
from zun.topology.view import CellView

LOOK = 4
"""Steps that a look at one cell of one request counts for, whatever the search after that."""

MOST_TRIES = 256
"""Up to so many choices of policies or counts, every choice of them is tried."""

MOST_ORDERS = 1000
"""Up to so many assignments of parts to cells are tried where cells have memory in common."""

Planner = Callable[[HostTopology, Usage, PlacementRequest, Steps], Plan | None]
Fits = Callable[[PlacementRequest], bool]


def nearest(
    topology: HostTopology, usage: Usage, request: PlacementRequest, plan: Planner, questions: Sequence[Question],
    spent: Steps,
) -> PlacementRequest | None:
    """Return the first alternative that ``plan`` grants, in the order of ``Refusal.nearest``, or None.

    The steps are taken off ``spent`` too.
    """
    fits = further(topology, usage, plan, spent)
    for _, others in chain(_smaller_parts(request, fits), _device_conditions(request, fits)):
        found = next((other for other in others if fits(other)), None)
        if found is not None:
            return found
    fewer, less = _fewer_cpus(request, fits, questions), _less_memory(request, fits, questions)
    if fewer is not None and less is not None:
        return less if _loss(request, less) < _loss(request, fewer) else fewer
    if fewer is not None or less is not None:
        return fewer or less
    relaxed = next((other for other in _relaxed(topology, request) if fits(other)), None)
    return relaxed or _less_of_both(request, fits)


def changes(
    topology: HostTopology, usage: Usage, request: PlacementRequest, plan: Planner, questions: Sequence[Question],
    spent: Steps,
) -> tuple[Change, ...]:
    """Return the smallest change that ``plan`` grants in each dimension, without dimensions that have none.

    The steps are taken off ``spent`` too.
    """
    fits = further(topology, usage, plan, spent)
    found = (
        (Dimension.CPUS, _fewer_cpus(request, fits, questions)),
        (Dimension.MEMORY, _less_memory(request, fits, questions)),
        *(
            (dimension, next((other for other in others if fits(other)), None))
            for dimension, others in chain(
                _conditions(topology, request), _smaller_parts(request, fits), _device_conditions(request, fits)
            )
        ),
    )
    return tuple(Change(dimension, other) for dimension, other in found if other is not None)


def further(topology: HostTopology, usage: Usage, plan: Planner, spent: Steps) -> Fits:
    """Return a function that tells whether ``plan`` grants a request on this host.

    All its answers together take ``FURTHER_STEPS``, one answer at most half of what is left. It is False if no plan is
    found with these steps, although there may be one. The steps are taken off ``spent`` too.
    """
    own = Steps(FURTHER_STEPS)

    def fits(other: PlacementRequest) -> bool:
        if own.over:
            return False
        steps = Steps(min(STEPS, own.left // 2))
        found = plan(topology, usage, other, steps)
        for each in (own, spent):
            each.spend(steps.spent + LOOK * len(topology.cells))
        return found is not None

    return fits


def _loss(request: PlacementRequest, smaller: PlacementRequest) -> float:
    """Return the larger of the two fractions given up, of CPUs and of memory. Example: 0.25 for 3 of 4 CPUs."""
    cpus = 1 - smaller.cpus / request.cpus if request.cpus else 0.0
    memory = 1 - smaller.memory_mib / request.memory_mib if request.memory_mib else 0.0
    return max(cpus, memory)


# Less of an amount


def _fewer_cpus(request: PlacementRequest, fits: Fits, questions: Sequence[Question]) -> PlacementRequest | None:
    """Return the request with the most CPUs below ``request`` that fits, or None."""
    if request.mixed:
        return _fewer_of_both_kinds(request, fits)
    unit, least = (1, 1) if request.dedicated else (MICRO, 0)
    if request.numa_cpus is None:
        total = round(request.cpus * unit)
        fewest = least and request.numa_nodes
        return _largest(fewest, total - 1, lambda most: replace(request, cpus=most / unit), fits)

    def of(entries: Sequence[int]) -> PlacementRequest:
        parts = tuple(entry / unit for entry in entries)
        return replace(request, cpus=amounts.exact(sum(parts)), numa_cpus=parts)

    entries = [round(entry * unit) for entry in request.numa_cpus]
    if request.numa_affinity != NUMAAffinity.REQUIRE:
        return _largest_total(entries, least, of, fits)
    able = (_fewer_on_own_cells(question, entries, least) for question in questions)
    return _best((of(each) for each in able if each is not None), fits)


def _fewer_of_both_kinds(request: PlacementRequest, fits: Fits) -> PlacementRequest | None:
    """Return the mixed request with the most CPUs below ``request`` that fits, or None.

    Neither kind of CPUs grows, and there are some of each. Of equal totals, the one with the most CPUs of its own.
    """
    best = None
    for own in range(request.own_cpus, 0, -1):
        least = 1 if best is None else round(best.cpus * MICRO) - own * MICRO + 1
        most = request.demand - (own == request.own_cpus)

        def of(demand: int, own: int = own) -> PlacementRequest:
            return replace(request, cpus=amounts.exact(own + demand / MICRO), dedicated_cpus=own)

        best = _largest(least, most, of, fits) or best
    return best


def _less_memory(request: PlacementRequest, fits: Fits, questions: Sequence[Question]) -> PlacementRequest | None:
    """Return the request with the most memory below ``request`` that fits, at least 1 MiB, or None."""
    if request.numa_mem is None:
        return _largest(1, request.memory_mib - 1, lambda most: replace(request, memory_mib=most), fits)

    def of(entries: Sequence[int]) -> PlacementRequest:
        return replace(request, memory_mib=sum(entries), numa_mem=tuple(entries))

    if request.numa_affinity != NUMAAffinity.REQUIRE:
        return _largest_total(list(request.numa_mem), 1, of, fits)
    able = (_less_on_own_cells(question, request.numa_mem) for question in questions)
    return _best((of(each) for each in able if each is not None and any(each)), fits)


def _largest(
    least: int, most: int, at_most: Callable[[int], PlacementRequest], fits: Fits
) -> PlacementRequest | None:
    """Return the largest request between ``least`` and ``most`` that fits, found by bisection, or None."""
    if most < least or not fits(at_most(least)):
        return None
    while least < most:
        middle = (least + most + 1) // 2
        if fits(at_most(middle)):
            least = middle
        else:
            most = middle - 1
    return at_most(least)


def _largest_total(
    entries: Sequence[int], least: int, of: Callable[[Sequence[int]], PlacementRequest], fits: Fits
) -> PlacementRequest | None:
    """Return the request with the largest total below ``entries`` that fits, if cells may share out the total."""
    fewest = sum(min(entry, least) for entry in entries)
    return _largest(max(fewest, least), sum(entries) - 1, lambda total: of(_levelled(entries, total)), fits)


def _levelled(entries: Sequence[int], total: int) -> list[int]:
    """Return ``entries`` with the largest ones cut to one level, so that they add up to ``total``.

    Example: [5, 2, 5] cut to 9 is [4, 2, 3].
    """
    low, high = 0, max(entries)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(entry, middle) for entry in entries) <= total:
            low = middle
        else:
            high = middle - 1
    cut = [min(entry, low) for entry in entries]
    rest = total - sum(cut)
    for index, entry in enumerate(entries):
        if rest and entry > low:
            cut[index] += 1
            rest -= 1
    return cut


def _best(candidates: Iterator[PlacementRequest], fits: Fits) -> PlacementRequest | None:
    """Return the largest candidate that fits, or None."""
    fitting = [each for each in candidates if fits(each)]
    return max(fitting, key=lambda each: (each.cpus, each.memory_mib), default=None)


def _fewer_on_own_cells(question: Question, entries: Sequence[int], least: int) -> list[int] | None:
    """Return the most CPUs of each part, if every part keeps its memory and has a cell of its own, or None."""
    needs = [question.need(mib) for _, mib in question.request.parts]
    if not question.strict and sum(needs) > question.anywhere:
        return None

    def given(part: int, cell: CellView) -> int | None:
        cpus = min(entries[part], question.capacity(cell))
        return cpus if cpus >= least and question.remembers(cell, needs[part]) else None

    return _most(entries, question, given, lambda cells, most: most if _lasting(question, cells, needs) else None)


def _less_on_own_cells(question: Question, entries: Sequence[int]) -> list[int] | None:
    """Return the most MiB of each part, if every part keeps its CPUs and has a cell of its own, or None."""
    parts = [cpus for cpus, _ in question.request.parts]

    def given(part: int, cell: CellView) -> int | None:
        if question.cpu_offer(cell, parts[part]) is None:
            return None
        mib = entries[part]
        if question.strict:
            mib = min(mib, _in_whole_mib(question.reach(cell), question.page_kib))
        return mib if mib >= min(1, entries[part]) else None

    most = _most(entries, question, given, lambda cells, amounts: _most_lasting(question, cells, amounts))
    if most is None or question.strict:
        return most
    return _within(entries, question)


def _most(
    entries: Sequence[int],
    question: Question,
    given: Callable[[int, CellView], int | None],
    together: Callable[[Sequence[CellView], list[int]], list[int] | None],
) -> list[int] | None:
    """Return the amount of each part with the largest total, over all assignments of parts to cells, or None.

    ``given`` tells the amount of a part on a cell, at most its entry. If cells have memory in common, ``together``
    tells what remains of the amounts of all parts, or None, and ``MOST_ORDERS`` assignments are tried.
    """
    cells = question.view.cells
    if not cells or len(entries) > len(cells):
        return None
    amounts = [[given(part, cell) for cell in cells] for part in range(len(entries))]
    if question.lends:
        found = []
        for columns in islice(permutations(range(len(cells)), len(entries)), MOST_ORDERS):
            row = [each[column] for each, column in zip(amounts, columns, strict=True)]
            sizes = [amount for amount in row if amount is not None]
            left = together([cells[column] for column in columns], sizes) if len(sizes) == len(row) else None
            if left is not None:
                found.append(left)
        return max(found, key=sum, default=None)
    missing = [
        [None if amount is None else entry - amount for amount in row]
        for entry, row in zip(entries, amounts, strict=True)
    ]
    matched = cheapest_matching(missing)
    if matched is None:
        return None
    return [row[column] or 0 for row, column in zip(amounts, matched.columns, strict=True)]


def _lasting(question: Question, cells: Sequence[CellView], needs: Sequence[int]) -> bool:
    """Return whether these cells together have the memory that each needs, in units."""
    return question.poured([*zip(cells, needs, strict=True)]) is not None


def _most_lasting(question: Question, cells: Sequence[CellView], mib: list[int]) -> list[int] | None:
    """Return the most MiB, at most ``mib``, that these cells have together, with some for each part that has any."""
    left = [min(1, each) for each in mib]
    for part, most in enumerate(mib):
        low, high = left[part] - 1, most
        while low < high:
            left[part] = (low + high + 1) // 2
            if _lasting(question, cells, [question.need(each) for each in left]):
                low = left[part]
            else:
                high = left[part] - 1
        left[part] = low
        if low < min(1, most):
            return None
    return left


def _in_whole_mib(units: int, page_kib: int | None) -> int:
    """Return the whole MiB in so many units, rounded down."""
    return units if page_kib is None else units * page_kib // 1024


def _within(entries: Sequence[int], question: Question) -> list[int] | None:
    """Return ``entries`` with the fewest MiB taken off so that the whole host has room for all, or None."""
    page_kib, room = question.page_kib, question.anywhere
    if page_kib is None or page_kib <= 1024:
        total = min(sum(entries), _in_whole_mib(room, page_kib))
        return _levelled(entries, total) if total >= sum(min(1, entry) for entry in entries) else None
    needs = [question.need(entry) for entry in entries]
    excess = sum(needs) - room
    cut = list(entries)
    # The last page of an entry may be partly empty, so giving it up costs least. Further pages are full.
    spare = sorted((entries[i] - _in_whole_mib(needs[i] - 1, page_kib), i) for i in range(len(needs)) if needs[i] > 1)
    for _, i in spare[: max(0, excess)]:
        needs[i] -= 1
        excess -= 1
        cut[i] = _in_whole_mib(needs[i], page_kib)
    for i in range(len(needs)):
        more = min(max(0, excess), needs[i] - 1)
        if more > 0:
            needs[i] -= more
            excess -= more
            cut[i] = _in_whole_mib(needs[i], page_kib)
    return cut if excess <= 0 else None


# Other conditions


def _conditions(
    topology: HostTopology, request: PlacementRequest
) -> Iterator[tuple[Dimension, Iterator[PlacementRequest]]]:
    """Yield by dimension the requests with the same amounts and one other condition, smallest change first."""
    even = replace(request, numa_cpus=None, numa_mem=None)
    if request.numa_affinity == NUMAAffinity.REQUIRE and not request.mixed:
        yield Dimension.NODES, (replace(even, numa_nodes=nodes) for nodes in _other_counts(topology, request))
        if even != request and _can_be_even(request):
            yield Dimension.SHAPE, iter((even,))
        yield Dimension.AFFINITY, iter((replace(request, numa_affinity=NUMAAffinity.PREFER),))
    if request.dedicated and request.thread_policy != ThreadPolicy.PREFER:
        yield Dimension.THREADS, iter((replace(request, thread_policy=ThreadPolicy.PREFER),))
    yield Dimension.ISOLATION, (replace(request, isolation=grade) for grade in _lower_grades(request))
    yield Dimension.PAGES, (replace(request, page_size=size) for size in _smaller_pages(topology, request))
    if request.dedicated and request.mempolicy == MemPolicy.STRICT:
        yield Dimension.MEMPOLICY, iter((replace(request, mempolicy=MemPolicy.PREFERRED),))


def _smaller_parts(
    request: PlacementRequest, fits: Fits
) -> Iterator[tuple[Dimension, Iterator[PlacementRequest]]]:
    """Yield by dimension the requests with a smaller part of the caches, smallest change first.

    Yield nothing if the request does not fit without its part either.
    """
    if not request.wants_cache or not fits(request.without_cache()):
        return
    for dimension, name in (
        (Dimension.CACHE, "cache_ways"), (Dimension.CACHE, "cache_mib"), (Dimension.BANDWIDTH, "memory_bandwidth")
    ):

        def at_most(most: int, name: str = name) -> PlacementRequest:
            return replace(request, **{name: most})  # type: ignore[arg-type]

        less = _largest(0, getattr(request, name) - 1, at_most, fits)
        if less is not None:
            yield dimension, iter((less,))


def _device_conditions(
    request: PlacementRequest, fits: Fits
) -> Iterator[tuple[Dimension, Iterator[PlacementRequest]]]:
    """Yield by dimension the requests with other conditions on devices, smallest change first.

    Yield nothing if the request does not fit without devices either.
    """
    if not request.devices or not fits(without_devices(request)):
        return
    yield Dimension.DEVICE_POLICY, _weaker_policies(request)
    wider = _WIDER.get(DeviceSame(request.device_same), ())
    yield Dimension.DEVICE_SAME, (replace(request, device_same=each) for each in wider)
    fewer = _fewer_devices(request, fits)
    yield Dimension.DEVICES, iter(() if fewer is None else (fewer,))


def _with_devices(request: PlacementRequest, devices: Sequence[DeviceRequest]) -> PlacementRequest:
    """Return the request for these devices instead, without requests for none."""
    left = tuple(each for each in devices if each.count)
    return replace(request, devices=left, device_same=request.device_same if left else DeviceSame.NONE)


def without_devices(request: PlacementRequest) -> PlacementRequest:
    """Return the request for the same CPUs and memory, and no devices."""
    return _with_devices(request, ())


def weaker(request: DeviceRequest, policy: DevicePolicy) -> DeviceRequest:
    """Return the request with this policy if that is weaker than its own, else as it is."""
    return replace(request, numa_policy=max(request.numa_policy, policy, key=STRICTEST_FIRST.index))


_WIDER: Mapping[DeviceSame, Sequence[DeviceSame]] = {
    DeviceSame.LINK: (DeviceSame.HOST,),  # links join devices of several switches and cells
    DeviceSame.SWITCH: (DeviceSame.CELL, DeviceSame.HOST),
    DeviceSame.CELL: (DeviceSame.HOST,),
}
"""The larger parts of the host that the devices of a group can share instead, smallest first."""

STRICTEST_FIRST = [*map(str, (DevicePolicy.REQUIRED, DevicePolicy.SOCKET, DevicePolicy.PREFERRED, DevicePolicy.NONE))]


def _weaker_policies(request: PlacementRequest) -> Iterator[PlacementRequest]:
    """Yield the requests with weaker policies, fewest steps first; of many requests, all with the same least policy."""
    levels = [STRICTEST_FIRST.index(each.numa_policy) for each in request.devices]
    if prod(len(STRICTEST_FIRST) - level for level in levels) > MOST_TRIES:
        choices = [tuple(max(level, least) for level in levels) for least in range(len(STRICTEST_FIRST))]
    else:
        choices = [*product(*[range(level, len(STRICTEST_FIRST)) for level in levels])]
    for choice in sorted(choices, key=sum):
        if sum(choice) > sum(levels):
            devices = [weaker(each, DevicePolicy(STRICTEST_FIRST[level])) for each, level in zip(
                request.devices, choice, strict=True)]
            yield _with_devices(request, devices)


def _fewer_devices(request: PlacementRequest, fits: Fits) -> PlacementRequest | None:
    """Return the request with the most devices below ``request`` that fits, or None.

    Of equally many, the requests that come first keep most. With many choices, the last request gives up first.
    """
    counts = [each.count for each in request.devices]
    if prod(count + 1 for count in counts) > MOST_TRIES:
        fronts = [tuple(min(count, max(0, total - sum(counts[:row]))) for row, count in enumerate(counts))
                  for total in range(sum(counts))]
    else:
        fronts = [*product(*[range(count + 1) for count in counts])]

    def of(numbers: Sequence[int]) -> PlacementRequest:
        pairs = zip(request.devices, numbers, strict=True)
        return _with_devices(request, [replace(each, count=number) for each, number in pairs])

    @cache
    def best(total: int) -> PlacementRequest | None:
        some = (of(numbers) for numbers in reversed(fronts) if sum(numbers) == total)
        return next((other for other in some if fits(other)), None)

    low, high = 0, sum(counts) - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if best(middle) is not None else (low, middle - 1)
    return best(low) if sum(counts) else None


def _other_counts(topology: HostTopology, request: PlacementRequest) -> list[int]:
    """Return numbers of cells to try, nearest to ``numa_nodes`` first, the larger of two equally near ones."""
    cells = sum(1 for cell in topology.cells if cell.cpus)
    most = min(cells, int(request.cpus)) if request.dedicated else cells
    wanted = request.numa_nodes
    return sorted((n for n in range(1, most + 1) if n != wanted), key=lambda n: (abs(n - wanted), -n))


def _can_be_even(request: PlacementRequest) -> bool:
    """Return whether an even split gives each cell a CPU."""
    return not request.dedicated or request.cpus >= request.numa_nodes


def _lower_grades(request: PlacementRequest) -> list[Isolation]:
    """Return the isolation grades below that of the request, highest first."""
    if request.isolation == Isolation.ISOLATED:
        return [Isolation.THREAD]  # grade isolated has CPUs of its own, so only thread is another choice
    grades = [*Isolation]
    return grades[: grades.index(Isolation(request.isolation))][::-1]


def _smaller_pages(topology: HostTopology, request: PlacementRequest) -> list[int | None]:
    """Return page sizes of the host below the one asked for, largest first; None is ordinary pages."""
    size = request.page_size
    if request.ordinary_pages or size == "any":
        return []
    huge = {each for cell in topology.cells for each, count in cell.pages.items() if count}
    smaller = [each for each in huge if isinstance(size, int) and each < size]
    return [*sorted(smaller, reverse=True), None]


def _relaxed(topology: HostTopology, request: PlacementRequest) -> Iterator[PlacementRequest]:
    """Yield requests with the same amounts and fewer conditions, nearest first."""
    cells = len(topology.cells)
    even = replace(request, numa_cpus=None, numa_mem=None)
    if request.numa_affinity == NUMAAffinity.REQUIRE and not request.mixed:
        most = min(cells, int(request.cpus)) if request.dedicated else cells
        for nodes in range(request.numa_nodes + 1, most + 1):
            yield replace(even, numa_nodes=nodes)
        yield replace(even, numa_nodes=1, numa_affinity=NUMAAffinity.NONE)
    if request.dedicated and request.thread_policy != ThreadPolicy.PREFER:
        yield replace(request, thread_policy=ThreadPolicy.PREFER)
        if not request.mixed:
            yield replace(even, numa_nodes=1, numa_affinity=NUMAAffinity.NONE, thread_policy=ThreadPolicy.PREFER)
    if request.isolation != "thread":
        yield replace(request, isolation="thread")
    for size in _smaller_pages(topology, request):
        yield replace(request, page_size=size)
    if request.wants_cache:
        yield request.without_cache()


def _less_of_both(request: PlacementRequest, fits: Fits) -> PlacementRequest | None:
    """Return the request with the most CPUs that fit with 1 MiB, then the most memory for them, or None."""
    free = replace(
        without_devices(request).without_cache(), numa_nodes=1, numa_cpus=None, numa_mem=None,
        thread_policy=ThreadPolicy.PREFER,
        numa_affinity=NUMAAffinity.REQUIRE if request.mixed else NUMAAffinity.NONE, isolation="thread",
        page_size=None, memory_mib=min(1, request.memory_mib),
    )
    if request.mixed:
        fewest = replace(free, cpus=1 + 1 / MICRO, dedicated_cpus=1)
    else:
        fewest = replace(free, cpus=1 if request.cpu_policy == CPUPolicy.DEDICATED else 0)
    start = free if fits(free) else _fewer_cpus(free, fits, ())
    if start is None or not fits(fewest):
        return None
    return _less_memory(replace(start, memory_mib=request.memory_mib + 1), fits, ()) or start
