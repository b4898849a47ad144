"""Number of rows of a Parquet file, read from its last bytes without pyarrow.

Importing pyarrow takes longer than a quick command.
"""

from pathlib import Path

_MAGIC = b"PAR1"
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_NUM_ROWS = 3
"""Id of the field `num_rows` in the structure FileMetaData."""


def n_rows(path: Path) -> int:
    """Return the number of rows of a Parquet file.

    Source: Apache Parquet's file format (`parquet.thrift`, FileMetaData) and Thrift's compact
    protocol.

    Raises:
        ValueError: the file is no Parquet file, or its footer lacks the number of rows.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - 8))
        end = file.read()
        if end[4:] != _MAGIC:
            raise ValueError(f"{path} is no Parquet file: it does not end with {_MAGIC.decode()}")
        length = int.from_bytes(end[:4], "little")
        file.seek(max(0, size - 8 - length))
        footer = file.read(length)
    try:
        return _Footer(footer).field(_NUM_ROWS)
    except IndexError:
        raise ValueError(f"the footer of {path} lacks the number of rows") from None


class _Footer:
    """Reader of Thrift's compact protocol that finds one field and skips the others."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def field(self, wanted: int) -> int:
        """Return the integer in a field of the outermost structure."""
        number = 0
        while (head := self._byte()) != 0:
            number = number + (head >> 4) if head >> 4 else self._signed()
            if number == wanted:
                return self._signed()
            self._skip(head & 15)
        raise IndexError(wanted)

    def _byte(self) -> int:
        self._at += 1
        return self._content[self._at - 1]

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def _signed(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)

    def _skip(self, kind: int, *, in_list: bool = False) -> None:
        if kind in (_TRUE, _FALSE):
            self._at += in_list
        elif kind == _BYTE:
            self._at += 1
        elif kind == _DOUBLE:
            self._at += 8
        elif kind == _BINARY:
            length = self._unsigned()
            self._at += length
        elif kind in (_LIST, _SET):
            head = self._byte()
            for _ in range(self._unsigned() if head >> 4 == 15 else head >> 4):
                self._skip(head & 15, in_list=True)
        elif kind == _STRUCT:
            while (head := self._byte()) != 0:
                if not head >> 4:
                    self._signed()
                self._skip(head & 15)
        else:
            self._unsigned()
