"""Private databases for tests: SQLite, and MariaDB and PostgreSQL with each driver, if they are installed."""

import glob
import importlib
import os
import shutil
import sqlite3
import subprocess
import tempfile
import time
import unittest

DEADLINE = 90.0

_TYPES = {
    "sqlite": ("INTEGER PRIMARY KEY AUTOINCREMENT", "BLOB", "TEXT", ""),
    "mysql": ("BIGINT AUTO_INCREMENT PRIMARY KEY", "LONGBLOB", "LONGTEXT", "ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"),
    "postgres": ("BIGSERIAL PRIMARY KEY", "BYTEA", "TEXT", ""),
}


def create_tables(run, dialect):
    """Creates the tables of the fleet, and two for transfers, all empty."""
    seq, data, text, end = _TYPES[dialect]
    for table in ("streamfleet_outbox", "streamfleet_effects", "accounts", "transfers"):
        run(f"DROP TABLE IF EXISTS {table}")
    run(
        f"CREATE TABLE streamfleet_outbox (seq {seq}, job_id VARCHAR(128) NOT NULL, queue VARCHAR(64) NOT NULL, lane VARCHAR(8), "
        f"type VARCHAR(128) NOT NULL, payload {data} NOT NULL, encoding VARCHAR(8), headers {text}, run_at_ms BIGINT, options {text}, "
        f"created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, refused {text}) {end}"
    )
    run(
        "CREATE TABLE streamfleet_effects (queue VARCHAR(64) NOT NULL, job_id VARCHAR(128) NOT NULL, step VARCHAR(64) NOT NULL DEFAULT '', "
        f"fence_ms BIGINT NOT NULL, fence_seq BIGINT NOT NULL, result {data}, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, "
        f"PRIMARY KEY (queue, job_id, step)) {end}"
    )
    run(f"CREATE TABLE accounts (name VARCHAR(20) PRIMARY KEY, balance INTEGER NOT NULL) {end}")
    run(f"CREATE TABLE transfers (number INTEGER NOT NULL) {end}")
    run("INSERT INTO accounts VALUES ('ann', 0), ('bob', 0)")


class Server:
    """A server that runs as the user of its Debian package, if the tests run as root, because it refuses to run as root."""

    def __init__(self, user, program, package):
        if not os.access(program, os.X_OK):
            raise unittest.SkipTest(f"there is no {program} (Debian: {package})")
        self.folder = tempfile.mkdtemp(prefix="sf-")
        self.process = None
        self._switch = []
        if os.getuid() == 0:
            shutil.chown(self.folder, user)
            self._switch = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        self._log = tempfile.TemporaryFile()

    def start(self, install, server, connect):
        """Makes the files of the server, starts it, and waits until it takes connections."""
        files = {"stdin": subprocess.DEVNULL, "stdout": self._log, "stderr": self._log, "cwd": "/"}
        if subprocess.run([*self._switch, *install], **files).returncode != 0:
            raise AssertionError(self.log())
        self.process = subprocess.Popen([*self._switch, *server], **files)
        until = time.monotonic() + DEADLINE
        while True:
            try:
                connect().close()
                return self
            except Exception as error:
                if self.process.poll() is not None or time.monotonic() > until:
                    raise AssertionError(f"{server[0]} did not start: {error}\n{self.log()}") from error
            time.sleep(0.02)

    def log(self):
        self._log.seek(0)
        return self._log.read().decode("utf-8", "replace")

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self._log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _mariadb(connect):
    server = Server("mysql", "/usr/sbin/mariadbd", "mariadb-server")
    data, socket = f"--datadir={server.folder}/data", f"{server.folder}/socket"
    install = ["mariadb-install-db", "--no-defaults", data, "--auth-root-authentication-method=normal", "--skip-test-db"]
    command = ["/usr/sbin/mariadbd", "--no-defaults", data, f"--socket={socket}", f"--pid-file={server.folder}/pid", "--skip-networking"]
    command += ["--innodb-buffer-pool-size=32M", "--innodb-flush-log-at-trx-commit=0", "--max-allowed-packet=32M"]
    server.start(install, command, lambda: connect(socket, "mysql"))
    connection = connect(socket, "mysql")
    connection.cursor().execute("CREATE DATABASE fleet")
    connection.close()
    return server, socket


def _postgres(connect):
    folder = (sorted(glob.glob("/usr/lib/postgresql/*/bin")) or ["/usr/bin"])[-1]
    server = Server("postgres", f"{folder}/postgres", "postgresql")
    data = f"{server.folder}/data"
    install = [f"{folder}/initdb", "-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync"]
    command = [f"{folder}/postgres", "-D", data, "-k", server.folder, "-c", "listen_addresses=", "-c", "fsync=off", "-c", "shared_buffers=16MB"]
    server.start(install, command, lambda: connect(server.folder))
    return server, server.folder


#: A driver, its dialect, and where Debian has it.
DRIVERS = {
    "sqlite3": ("sqlite", "python3"),
    "psycopg": ("postgres", "python3-psycopg"),
    "psycopg2": ("postgres", "python3-psycopg2"),
    "pymysql": ("mysql", "python3-pymysql"),
    "MySQLdb": ("mysql", "python3-mysqldb"),
}
_servers = {}


def connect(driver, place, database="fleet", autocommit=False):
    """Connects to a database. A connection of sqlite3 has no attribute for that before Python 3.12."""
    if driver == "sqlite3":
        return sqlite3.connect(place, isolation_level=None if autocommit else "DEFERRED", timeout=60)
    module = importlib.import_module(driver)
    if driver.startswith("psycopg"):
        connection = module.connect(f"host={place} dbname=postgres user=postgres")
        connection.autocommit = autocommit
        return connection
    connection = module.connect(unix_socket=place, user="root", database=database, charset="utf8mb4")
    connection.autocommit(autocommit)
    return connection


def place_of(driver, folder):
    """Where the database of a driver is, with empty tables. Its server ends with :func:`stop_servers`."""
    dialect, package = DRIVERS[driver]
    try:
        importlib.import_module(driver)
    except ImportError:
        raise unittest.SkipTest(f"there is no {driver} (Debian: {package})") from None
    if dialect == "sqlite":
        place = os.path.join(folder, "db")
    else:
        if dialect not in _servers:
            start = _postgres if dialect == "postgres" else _mariadb
            _servers[dialect] = start(lambda *where: connect(driver, *where))
        place = _servers[dialect][1]
    connection = connect(driver, place, autocommit=True)
    create_tables(connection.cursor().execute, dialect)
    connection.close()
    return place


def stop_servers():
    while _servers:
        _servers.popitem()[1][0].stop()
