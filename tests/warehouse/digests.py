"""Whether two tables hold the same rows."""

import hashlib

from duckdb import DuckDBPyConnection

from warehouse.connect import identifier


def table_digest(connection: DuckDBPyConnection, table: str) -> str:
    """Hex digest of all rows of a table or view, whatever their order: equal for equal contents."""
    rows = connection.execute(
        f"select to_json(t)::varchar as line from {identifier(table)} as t order by line"
    ).fetchall()
    digest = hashlib.sha256()
    for (line,) in rows:
        digest.update(line.encode())
        digest.update(b"\n")
    return digest.hexdigest()
