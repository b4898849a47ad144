"""SHAKE-256 in plain Python, because Python 3.5 does not have it.

This code is slow: it takes one to two milliseconds for 136 bytes.
"""

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from typing import Any  # noqa: F401 - type comments name it

_RATE, _ROUNDS = 136, 24
_MASK = (1 << 64) - 1


def shake_256(data):
    # type: (bytes) -> Any
    """Return an object like that of `hashlib.shake_256`, with only the function `digest`."""

    def digest(size):
        # type: (int) -> bytes
        return _digest(data, size)

    digest.digest = digest  # pyright: ignore[reportFunctionMemberAccess]  (no class is defined in this folder)
    return digest


def _digest(data, size):
    # type: (bytes, int) -> bytes
    padded = bytearray(data + b"\x1f" + bytes(-(len(data) + 1) % _RATE))
    padded[-1] |= 0x80
    lanes = [0] * 25
    for start in range(0, len(padded), _RATE):
        for i in range(_RATE // 8):
            lanes[i] ^= int.from_bytes(padded[start + 8 * i : start + 8 * i + 8], "little")
        lanes = _permuted(lanes)
    out = b""
    while True:
        out += b"".join(lane.to_bytes(8, "little") for lane in lanes[: _RATE // 8])
        if len(out) >= size:
            return out[:size]
        lanes = _permuted(lanes)


def _permuted(lanes):
    # type: (list[int]) -> list[int]
    """Return the state after all rounds of Keccak-f[1600].

    The lane of column x and row y has the number x + 5 * y.
    """
    constant = 1
    for _ in range(_ROUNDS):
        sums = [
            lanes[x] ^ lanes[x + 5] ^ lanes[x + 10] ^ lanes[x + 15] ^ lanes[x + 20]
            for x in range(5)
        ]
        lanes = [
            lane ^ sums[(i - 1) % 5] ^ _rotated(sums[(i + 1) % 5], 1)
            for i, lane in enumerate(lanes)
        ]
        x, y, current = 1, 0, lanes[1]
        for step in range(24):
            x, y = y, (2 * x + 3 * y) % 5
            current, lanes[x + 5 * y] = (
                lanes[x + 5 * y],
                _rotated(current, (step + 1) * (step + 2) // 2),
            )
        for row in range(0, 25, 5):
            old = lanes[row : row + 5]
            for x in range(5):
                lanes[row + x] = old[x] ^ (~old[(x + 1) % 5] & old[(x + 2) % 5])
        for bit in range(7):
            constant = ((constant << 1) ^ ((constant >> 7) * 0x71)) % 256
            if constant & 2:
                lanes[0] ^= 1 << ((1 << bit) - 1)
        lanes = [lane & _MASK for lane in lanes]
    return lanes


def _rotated(lane, by):
    # type: (int, int) -> int
    return ((lane << (by % 64)) | (lane >> (64 - by % 64))) & _MASK if by % 64 else lane
