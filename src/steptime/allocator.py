"""A model of the caching allocator that PyTorch puts between tensors and a GPU's memory; its counts are exact.

Asking the device for memory (cudaMalloc) is slow, and giving it back waits for all running kernels. So blocks that are
freed are kept and handed out again. These are the rules, with the names they have in c10/core/AllocatorConfig.h and
c10/core/CachingDeviceAllocator.h of PyTorch 2.13:

- A size is rounded up to a multiple of 512 bytes (kMinBlockSize).
- Up to 1 MiB (kSmallSize) it belongs to the small pool, else to the large one.
- The smallest free block of that pool which is large enough is taken; of equals, that at the lowest address (here: in
  the oldest segment).
- What is left over of a block stays as a free block of its own: in the small pool if it is 512 bytes or more, in the
  large one if it is over 1 MiB and the request is smaller than max_split. Otherwise the whole block is handed out.
- A request smaller than max_split gets no block of max_split or more; a larger one gets none that is 20 MiB or more
  larger than itself (max_non_split_rounding).
- Where no block fits, a segment is asked for: 2 MiB for the small pool; 20 MiB for a request under 10 MiB
  (kMinLargeAlloc); else the request rounded up to 2 MiB (kRoundLarge).
- A freed block merges with its free neighbours in the same segment.
- Where the device has no room, segments that are wholly free are given back (with max_split first as few of those
  above it as do) and the request is tried again; then it is out of memory.
- With a collection threshold, segments of the large pool that are wholly free, and for as many requests as the average
  one, are given back before a segment is asked for, while more than that share of the capacity is reserved (in PyTorch
  only where set_per_process_memory_fraction sets the capacity).
- With expandable segments each pool is one long segment, which grows where it ends by pages of 2 or 20 MiB, so that
  what is free at its end is not lost; a block there is taken only if no other fits.

What the model leaves out: streams and events, private pools (CUDA graphs), holes in expandable segments (here
only free pages at the end are given back), and the options roundup_power2_divisions, large_segment_size_mb and
max_non_split_rounding_mb (20 MiB each here). The device is one number, its capacity; a real one can also be too
fragmented.
"""

import math
from dataclasses import dataclass, field

from steptime.style import COLOURS, Picture, figure

KIB, MIB = 2**10, 2**20
SMALLEST = 512
SMALL = 1 * MIB  # the largest request of the small pool
SMALL_SEGMENT, LARGE_SEGMENT = 2 * MIB, 20 * MIB
OWN_SEGMENT = 10 * MIB  # from this size on a request gets a segment of its own size
OWN_ROUNDING = 2 * MIB
SLACK = 20 * MIB  # how much larger than the request an unsplit block may be


class OutOfMemory(MemoryError):
    """The device has no room for a segment, even with all free segments given back."""


@dataclass(eq=False)
class Block:
    """A piece of a segment. size: bytes, rounding included. asked: bytes of the request. segment: where it lies."""

    size: int
    segment: "list[Block]" = field(repr=False)
    order: int = field(repr=False)  # of its segment
    is_small: bool = field(repr=False)
    asked: int = 0
    is_free: bool = True
    freed_at: int = field(default=0, repr=False)  # counted in requests to the large pool


class Allocator:
    """A device's memory behind the cache. All sizes are in bytes.

    capacity: of the device, or the part of it that set_per_process_memory_fraction allows; without end unless told.
    max_split, collect_above, expandable: max_split_size_mb (here in bytes), garbage_collection_threshold and
    expandable_segments of PYTORCH_ALLOC_CONF.
    allocated: bytes in blocks that are in use; reserved: bytes in segments. device_mallocs, device_frees: calls to the
    device so far. retries: how often a request came through only after segments were given back.
    curve: (allocated, reserved) after each request, each free, and each time the cache was emptied.
    Raises ValueError where an option makes no sense.
    """

    def __init__(self, capacity=math.inf, max_split=math.inf, collect_above=None, expandable=False):
        if not capacity > 0:
            raise ValueError(f"Allocator: capacity is in bytes, above 0, not {capacity!r}.")
        if not max_split > LARGE_SEGMENT:
            raise ValueError(f"Allocator: max_split must be above {LARGE_SEGMENT:,} bytes (20 MiB), not {max_split!r}.")
        if collect_above is not None and not (0 < collect_above < 1 and capacity < math.inf):
            raise ValueError("Allocator: collect_above is a share of a finite capacity, between 0 and 1.")
        self.capacity, self.max_split = capacity, max_split
        self.collect_above, self.expandable = collect_above, expandable
        self.allocated = self.reserved = self.device_mallocs = self.device_frees = self.retries = 0
        self.curve = []
        self._segments = []  # each a list of blocks in the order of their addresses
        self._opened = self._large_requests = 0

    def malloc(self, size):
        """A Block for `size` bytes. Raises OutOfMemory, with the figures, and ValueError for a size below 1."""
        if not size >= 1:
            raise ValueError(f"malloc: size is in bytes, 1 or more, not {size!r}.")
        rounded = SMALLEST * math.ceil(size / SMALLEST)
        self._large_requests += rounded > SMALL
        block = self._find(rounded) or self._ask(rounded, size)
        self._split(block, rounded)
        block.is_free, block.asked = False, size
        self._note(block.size)
        return block

    def free(self, block):
        """Take a block back into the cache. Raises ValueError where it is free already."""
        if block.is_free:
            raise ValueError("free: this block is free already.")
        size, segment = block.size, block.segment
        block.is_free, block.asked, block.freed_at = True, 0, self._large_requests
        place = segment.index(block)
        for first in (place, place - 1):
            pair = segment[first : first + 2] if first >= 0 else []
            if len(pair) == 2 and pair[0].is_free and pair[1].is_free:
                pair[0].size += pair[1].size
                pair[0].freed_at = self._large_requests
                del segment[first + 1]
        self._note(-size)

    def empty_cache(self):
        """Give back to the device what is wholly free: torch.cuda.empty_cache()."""
        for segment in tuple(self._segments):
            if self.expandable:
                self._shrink(segment)
            elif _is_free(segment):
                self._give_back(segment)
        self._note(0)

    def plot(self):
        """A Picture of the bytes allocated and reserved, over the calls of malloc and free."""
        canvas, axes = figure()
        for name, values, colour in zip(
            ("reserved", "allocated"),
            ([r for _, r in self.curve], [a for a, _ in self.curve]),
            (COLOURS["threshold"], COLOURS["estimate"]),
            strict=True,
        ):
            axes.plot([value / MIB for value in values], color=colour, label=name, linewidth=1)
        axes.set(xlabel="calls of malloc and free", ylabel="MiB", ylim=0)
        axes.legend(frameon=False, ncols=2, loc="lower left", bbox_to_anchor=(0, 1), fontsize="small")
        top = max((reserved for _, reserved in self.curve), default=0)
        alt = f"Reserved memory reaches {top / MIB:,.0f} MiB with {self.device_mallocs} device mallocs."
        return Picture(canvas, alt, "What lies between the two lines is kept in the cache.")

    def __repr__(self):
        calls = f"{self.device_mallocs} device mallocs, {self.device_frees} frees"
        return f"{self.allocated / MIB:,.1f} MiB allocated, {self.reserved / MIB:,.1f} MiB reserved, {calls}"

    def _find(self, size):
        """The best free block for a rounded size, or None."""
        blocks = [
            block
            for segment in self._segments
            for block in segment
            if block.is_free and block.is_small == (size <= SMALL) and block.size >= size
        ]
        best = min(blocks, key=self._fitness, default=None)  # the first of equals
        if best is None or (size < self.max_split <= best.size):
            return None
        return None if size >= self.max_split and best.size >= size + SLACK else best

    def _fitness(self, block):
        """Smaller is better; the end of an expandable segment can grow, so it counts as the largest."""
        return self.expandable and block is block.segment[-1], block.size, block.order

    def _ask(self, size, asked):
        """A new free block of at least `size` bytes from the device."""
        if self.collect_above is not None:
            self._collect()
        block = self._open(size)
        if block is None and self.max_split < math.inf and self._release_oversize(size):
            block = self._open(size)
        if block is None:
            self.empty_cache()
            self.retries += 1
            block = self._open(size)
        if block is None:
            raise OutOfMemory(
                f"Out of memory: {asked:,} bytes asked for, {self.capacity:,} on the device, "
                f"{self.allocated:,} allocated, {self.reserved - self.allocated:,} reserved but free in pieces."
            )
        return block

    def _open(self, size):
        """A segment, or more pages of an expandable one; None where the device has no room."""
        is_small = size <= SMALL
        if self.expandable:
            return self._expand(size, is_small)
        length = SMALL_SEGMENT if is_small else LARGE_SEGMENT
        if size >= OWN_SEGMENT:
            length = OWN_ROUNDING * math.ceil(size / OWN_ROUNDING)
        return self._append(length, [], is_small)

    def _expand(self, size, is_small):
        segment = next((segment for segment in self._segments if segment[0].is_small == is_small), [])
        rest = segment[-1].size if segment and segment[-1].is_free else 0
        page = SMALL_SEGMENT if is_small else LARGE_SEGMENT
        block = self._append(page * math.ceil((size - rest) / page), segment, is_small)
        if block and rest:
            segment.pop()
            segment[-1].size += block.size
        return block and segment[-1]

    def _append(self, length, segment, is_small):
        """A free block from the device at the end of a segment; None where the device has no room."""
        if self.reserved + length > self.capacity:
            return None
        if not segment:
            self._segments.append(segment)
            self._opened += 1
        segment.append(Block(length, segment, self._opened, is_small))
        self.reserved += length
        self.device_mallocs += 1
        return segment[-1]

    def _split(self, block, size):
        rest = block.size - size
        least = SMALLEST
        if not (block.is_small or self.expandable):
            least = SMALL + 1 if size < self.max_split else math.inf
        if rest >= least:
            block.size = size
            place = block.segment.index(block) + 1
            block.segment.insert(place, Block(rest, block.segment, block.order, block.is_small))

    def _give_back(self, segment):
        self.reserved -= segment[0].size
        self.device_frees += 1
        self._segments = [other for other in self._segments if other is not segment]

    def _shrink(self, segment):
        """Give back the free pages at the end of an expandable segment."""
        page = SMALL_SEGMENT if segment[0].is_small else LARGE_SEGMENT
        pages = segment[-1].size // page if segment[-1].is_free else 0
        if not pages:
            return
        segment[-1].size -= pages * page
        self.reserved -= pages * page
        self.device_frees += 1
        if not segment[-1].size:
            segment.pop()
        if not segment:
            self._segments = [other for other in self._segments if other is not segment]

    def _release_oversize(self, size):
        """Give back free segments of max_split or more: the smallest that is large enough, or else the largest ones."""
        if size <= SMALL:
            return False
        wanted = max(size, self.max_split)
        free = [s for s in self._segments if not s[0].is_small and _is_free(s) and s[0].size >= self.max_split]
        free.sort(key=lambda segment: segment[0].size)
        enough = [segment for segment in free if segment[0].size >= wanted][:1]
        released = 0
        for segment in enough or reversed(free):
            if released >= wanted:
                break
            released += segment[0].size
            self._give_back(segment)
        return released >= wanted

    def _collect(self):
        """Give back free large segments of at least average age until enough is free, or none is left."""
        if self.expandable:
            return
        too_much = self.reserved - self.collect_above * self.capacity
        free = [segment for segment in self._segments if not segment[0].is_small and _is_free(segment)]
        while too_much > 0 and free:
            ages = {id(segment): self._large_requests - segment[0].freed_at for segment in free}
            average = sum(ages.values()) / len(free)
            for segment in [segment for segment in free if ages[id(segment)] >= average]:
                too_much -= segment[0].size
                self._give_back(segment)
                free.remove(segment)

    def _note(self, change):
        self.allocated += change
        self.curve.append((self.allocated, self.reserved))


def _is_free(segment):
    return len(segment) == 1 and segment[0].is_free
