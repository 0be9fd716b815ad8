"""Statements of this package on a DB-API 2 connection of the application."""

import inspect
import sys
from typing import Any, List, Mapping, Optional, Sequence

#: The drivers that this package knows, and what they talk to.
_DIALECTS = {"sqlite3": "sqlite", "psycopg": "postgres", "psycopg2": "postgres", "pymysql": "mysql", "MySQLdb": "mysql"}
#: MySQL: the characteristics of a transaction cannot be changed while it is in progress.
_IN_PROGRESS = 1568
#: PostgreSQL: a statement runs, or a transaction is open, or it has failed.
_OPEN = (1, 2, 3)


class Database:
    """A connection, and what its driver needs. Statements have a ``?`` for each value."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self._module = _module(connection)
        self.dialect = _DIALECTS[self._module.__name__]

    def run(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Runs a statement, and returns how many rows it has changed."""
        cursor = self.connection.cursor()
        try:
            self._execute(cursor, sql, values)
            return int(cursor.rowcount)
        finally:
            cursor.close()

    def row(self, sql: str, values: Sequence[Any]) -> Optional[List[Any]]:
        """Returns the first row, whatever rows look like on this connection."""
        cursor = self.connection.cursor()
        try:
            self._execute(cursor, sql, values)
            rows = cursor.fetchall()
        finally:
            cursor.close()
        if not rows:
            return None
        return list(rows[0].values() if isinstance(rows[0], Mapping) else rows[0])

    def _execute(self, cursor: Any, sql: str, values: Sequence[Any]) -> None:
        if self._module.paramstyle != "qmark":
            sql = sql.replace("?", "%s")
        if values:
            cursor.execute(sql, tuple(values))
        else:
            cursor.execute(sql)

    def is_open(self) -> bool:
        """Whether a transaction is in progress."""
        if self.dialect == "sqlite":
            return bool(self.connection.in_transaction)
        if self.dialect == "postgres":
            return int(self.connection.info.transaction_status) in _OPEN
        # MySQL has no other way to ask that all drivers share.
        try:
            self.run("SET TRANSACTION READ WRITE")
        except self._module.Error as error:
            if error.args and error.args[0] == _IN_PROGRESS:
                return True
            raise
        return False

    def joins(self) -> bool:
        """Whether the next statement belongs to a transaction that the application commits."""
        return not self._commits_each() or self.is_open()

    def _commits_each(self) -> bool:
        if self.dialect == "mysql":
            return bool(self.connection.get_autocommit())
        if self.dialect == "postgres":
            return bool(self.connection.autocommit)
        # Python 3.12 has the attribute. By default, isolation_level decides, and True commits each statement.
        autocommit = getattr(self.connection, "autocommit", -1)
        return self.connection.isolation_level is None if autocommit == -1 else bool(autocommit)

    def begin(self) -> None:
        """Begins a transaction in which this connection may write."""
        if self.dialect == "sqlite":
            self.run("BEGIN IMMEDIATE")
        elif self.dialect == "mysql":
            self.run("START TRANSACTION")
        elif self.connection.autocommit:
            self.run("BEGIN")

    def commit(self) -> None:
        """Commits what :meth:`begin` began."""
        if self._ends_by_statement():
            self.run("COMMIT")
        else:
            self.connection.commit()

    def rollback(self) -> None:
        """Rolls back what :meth:`begin` began, if that is not over."""
        if not self._ends_by_statement():
            self.connection.rollback()
        elif self.is_open():
            self.run("ROLLBACK")

    def _ends_by_statement(self) -> bool:
        """Whether the driver did not notice the beginning, so that its commit() might do nothing."""
        return self.dialect == "sqlite" or (self.dialect == "postgres" and bool(self.connection.autocommit))


def _module(connection: Any) -> Any:
    """The driver that has made this connection."""
    for kind in type(connection).__mro__:
        name = kind.__module__.partition(".")[0]
        if name in _DIALECTS:
            if inspect.iscoroutinefunction(getattr(connection, "commit", None)):
                raise TypeError("the connection is asynchronous: call this in a thread (asyncio.to_thread) with a synchronous one")
            return sys.modules[name]
    kind = type(connection)
    raise TypeError(
        f"{kind.__module__}.{kind.__qualname__} is not a connection of {', '.join(sorted(_DIALECTS))}: of a library that has "
        "one, such as an ORM, give that"
    )
