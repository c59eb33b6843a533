"""64-bit hashes of ids, and filters that tell which ids may have come before. Vectorised."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from latecomer.model.array_types import Flags, Integers, Unsigned

_WORD = 8
_SEED, _LENGTH, _STEP = map(np.uint64, (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9))
_FINAL = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_BITS_AN_ID = 16
_PROBES = tuple(map(np.uint64, (0, 6, 12, 18)))
_HALF, _SIX_BITS, _ONE = np.uint64(32), np.uint64(63), np.uint64(1)


def hash_ids(ids: pa.Array) -> Unsigned:
    """A hash for each id; ids must not be null. Two ids may share one, so a hash proves nothing.

    >>> first, second, third = hash_ids(pa.array(["a", "b", "a"]))
    >>> bool(first == third), bool(first == second)
    (True, False)
    """
    if not len(ids):
        return np.empty(0, np.uint64)
    offsets, data = _bytes_of(ids)
    starts, lengths = offsets[:-1], np.diff(offsets)
    padded = np.concatenate([data[: offsets[-1]], np.zeros(_WORD, np.uint8)])
    words = np.ndarray((len(padded) - _WORD + 1,), "<u8", padded, strides=(1,))
    found = _SEED ^ (lengths.astype(np.uint64) * _LENGTH)
    whole = int(lengths.min()) // _WORD * _WORD
    for at in range(0, whole, _WORD):  # words that all ids have
        found = _mixed(found, words[starts + at])
    longer = np.flatnonzero(lengths > whole)
    for at in range(whole, int(lengths.max()), _WORD):
        longer = longer[lengths[longer] > at]
        left = np.minimum(lengths[longer] - at, _WORD).astype(np.uint64)
        word = words[starts[longer] + at] & (~np.uint64(0) >> (np.uint64(64) - left * np.uint64(8)))
        found[longer] = _mixed(found[longer], word)
    found = (found ^ (found >> np.uint64(30))) * _FINAL[0]
    found = (found ^ (found >> np.uint64(27))) * _FINAL[1]
    return np.asarray(found ^ (found >> np.uint64(31)), np.uint64)


def _mixed(found: Unsigned, word: Unsigned) -> Unsigned:
    """The hashes so far, mixed with the next eight bytes."""
    mixed = (found ^ word) * _STEP
    return np.asarray(mixed ^ (mixed >> np.uint64(29)), np.uint64)


def _bytes_of(ids: pa.Array) -> tuple[Integers, npt.NDArray[np.uint8]]:
    """Where each id starts and the last one ends, and the bytes."""
    binary = ids.cast(pa.large_binary())
    _, offsets, data = binary.buffers()
    places = np.frombuffer(offsets, np.int64)[binary.offset : binary.offset + len(binary) + 1]
    whole = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return places - places[0], whole[places[0] :]


class Filter:
    """A Bloom filter of two bytes an id: of ids that it does not hold, about one in 200 passes.

    The bits of an id are within one word, so a look-up is one access. Words are in the order of the hashes, so sorted
    hashes go through the filter once.
    """

    def __init__(self, ordered: Unsigned) -> None:
        self.words = np.zeros(len(ordered) * _BITS_AN_ID // 64 + 1, np.uint64)
        if len(ordered):
            places, bits = self._places(ordered), filter_bits(ordered)
            firsts = np.flatnonzero(np.diff(places, prepend=-1))
            self.words[places[firsts]] = np.bitwise_or.reduceat(bits, firsts)

    def may_hold(self, hashes: Unsigned, bits: Unsigned) -> Flags:
        """Which of the hashes the filter may hold; `bits` are their `filter_bits`."""
        return np.asarray((self.words[self._places(hashes)] & bits) == bits)

    def _places(self, hashes: Unsigned) -> Integers:
        return np.asarray(((hashes >> _HALF) * np.uint64(len(self.words))) >> _HALF, np.uint64).astype(
            np.int64
        )


def filter_bits(hashes: Unsigned) -> Unsigned:
    """The bits that each hash has in its word of a filter."""
    bits = np.zeros(len(hashes), np.uint64)
    for shift in _PROBES:
        bits |= _ONE << ((hashes >> shift) & _SIX_BITS)
    return bits
