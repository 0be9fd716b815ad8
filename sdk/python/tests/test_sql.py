"""Effects and the outbox, on private databases, with each driver."""

import importlib
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from streamfleet import Fatal, Job, Submission, Superseded, once, outbox
from tests.databases import DRIVERS, connect, place_of, stop_servers
from tests.pool import SDK, environment

DEADLINE = 60.0
RESULT = {"number": 1, "share": 1.0, "text": "back\\slash 'ü'\0"}


def tearDownModule():
    stop_servers()


def order(**more):
    return Job("pay", **{"id": "order-7", "fence": "17-0", **more})


def transfer(connection):
    """Work that leaves a trace."""
    connection.cursor().execute("INSERT INTO transfers VALUES (1)")
    return RESULT


def until(what, holds):
    end = time.monotonic() + DEADLINE
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not happen within {DEADLINE} s")
        time.sleep(0.01)


class Drivers:
    """The tests of one driver, on connections of one kind."""

    driver = "sqlite3"
    autocommit = False

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = place_of(self.driver, folder.name)
        self.dialect = DRIVERS[self.driver][0]
        self.watcher = self.connect(True)
        self.connection = self.connect()

    def connect(self, autocommit=None):
        connection = connect(self.driver, self.place, autocommit=self.autocommit if autocommit is None else autocommit)
        self.addCleanup(connection.close)
        return connection

    def rows(self, sql):
        cursor = self.watcher.cursor()
        cursor.execute(sql)
        return [tuple(bytes(value) if isinstance(value, memoryview) else value for value in row) for row in cursor.fetchall()]

    def count(self, table):
        return self.rows(f"SELECT COUNT(*) FROM {table}")[0][0]

    def begin(self):
        if self.autocommit:
            self.connection.cursor().execute("BEGIN")

    def end(self, how="COMMIT"):
        if self.autocommit:
            self.connection.cursor().execute(how)
        else:
            getattr(self.connection, how.lower())()

    def refused(self, kind, text, call, *args, **options):
        with self.assertRaisesRegex(kind, text):
            call(*args, **options)

    def test_work_is_done_once(self):
        self.assertEqual(once(self.connection, order(), transfer), RESULT)
        for fence in ("17-0", "17-1", "18-0", "1700000000000-5"):
            # A repetition, and a replay, whose fence is newer.
            self.assertEqual(once(self.connection, order(fence=fence), lambda _: self.fail("it ran again")), RESULT)
        self.assertEqual(self.count("transfers"), 1)
        once(self.connection, order(id="ORDER-7"), transfer)
        once(self.connection, order(queue="other"), transfer)
        once(self.connection, order(), transfer, "refund")
        once(self.connection, order(step="charge"), transfer)
        once(self.connection, order(step="charge"), transfer, step="refund")
        self.assertEqual(self.count("transfers"), 6)
        steps = self.rows("SELECT step FROM streamfleet_effects WHERE job_id = 'order-7' AND queue = 'default' ORDER BY step")
        self.assertEqual(steps, [("",), ("charge",), ("charge/refund",), ("refund",)])

    def test_a_result_is_json_also_the_first_time(self):
        for number, (value, kept) in enumerate([(None, None), ((1, 2), [1, 2]), ({1: 2}, {"1": 2}), ("", ""), (False, False), (0, 0)]):
            for work in (lambda _, value=value: value, lambda _: self.fail("it ran again")):
                self.assertEqual(once(self.connection, order(id=f"job-{number}"), work), kept)
        # A row that was written by hand.
        self.watcher.cursor().execute("UPDATE streamfleet_effects SET result = NULL WHERE job_id = 'job-3'")
        self.assertIsNone(once(self.connection, order(id="job-3"), lambda _: 1))

    def test_an_outdated_attempt_is_told_so(self):
        once(self.connection, order(fence="18-5"), transfer)
        for fence in ("18-4", "17-9"):
            self.refused(Superseded, "a later attempt of the job order-7", once, self.connection, order(fence=fence), transfer)
        self.assertEqual(self.count("transfers"), 1)

    def test_work_that_fails_leaves_nothing(self):
        def fail(connection):
            transfer(connection)
            raise KeyError("no")

        self.refused(KeyError, "no", once, self.connection, order(), fail)
        self.assertEqual((self.count("transfers"), self.count("streamfleet_effects")), (0, 0))
        self.refused(ValueError, "65537 bytes", once, self.connection, order(), lambda _: "x" * 65535)
        for value in (float("nan"), object(), "\ud800", b"x", 2**64):
            self.refused(TypeError, "JSON cannot express what the work returned", once, self.connection, order(), lambda _, value=value: value)
        self.refused(TypeError, "return it after once", once, self.connection, order(), lambda _: Fatal("no"))
        self.assertEqual(self.count("streamfleet_effects"), 0)
        for work in (lambda _: "x" * 65534, lambda _: 1):
            self.assertEqual(once(self.connection, order(), work), "x" * 65534)

    def test_work_that_ends_its_transaction_is_an_error(self):
        def statement(text):
            return lambda connection: connection.cursor().execute(text) and None

        self.refused(RuntimeError, "has ended its transaction", once, self.connection, order(id="a"), statement("ROLLBACK"))
        self.assertEqual(self.count("streamfleet_effects"), 0)
        self.refused(RuntimeError, "has ended its transaction", once, self.connection, order(id="b"), statement("COMMIT"))
        # Nobody knows what is missing.
        self.refused(RuntimeError, "a part of its work", once, self.connection, order(id="b", fence="18-0"), transfer)

    def test_misuse_is_refused(self):
        self.begin()
        self.connection.cursor().execute("INSERT INTO transfers VALUES (0)")
        self.refused(RuntimeError, "a transaction is open", once, self.connection, order(), transfer)
        # The transaction of the caller goes on.
        self.end()
        self.assertEqual(self.count("transfers"), 1)
        for fence in (None, "", "17", "x-0", "9223372036854775808-0", "17-99999999999999999999"):
            self.refused(ValueError, "the fence of the job is", once, self.connection, order(fence=fence), transfer)
        for step in ("ü" * 65, "a\n"):
            self.refused(ValueError, "at most 64 characters", once, self.connection, order(), transfer, step)
        self.refused(ValueError, "at most 64 characters", once, self.connection, order(step="a"), transfer, "b" * 63)
        self.refused(ValueError, "no id", once, self.connection, order(id=""), transfer)
        self.assertEqual(self.count("streamfleet_effects"), 0)
        once(self.connection, order(fence="9223372036854775807-9223372036854775807"), transfer, "ü" * 64)

    def test_two_attempts_at_once_queue_up(self):
        waits = {
            "mysql": "SELECT variable_value + 0 FROM information_schema.global_status WHERE variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS'",
            "postgres": "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
            "sqlite": "SELECT 1",
        }[self.dialect]
        found = []
        begun = threading.Event()

        def second():
            connection = connect(self.driver, self.place, autocommit=self.autocommit)
            begun.set()
            found.append(once(connection, order(fence="18-0"), lambda _: "second"))
            connection.close()

        other = threading.Thread(target=second)

        def work(_):
            other.start()
            self.assertTrue(begun.wait(DEADLINE))
            # Where the server shows it, the other one waits now.
            until("the wait of the other attempt", lambda: self.rows(waits) == [(1,)])
            return "first"

        self.assertEqual(once(self.connection, order(), work), "first")
        other.join()
        self.assertEqual(found, ["first"])

    def test_a_killed_program_makes_each_transfer_once(self):
        count = 15
        env = environment()
        del env["STREAMFLEET_PROTOCOL"]
        kills = 0
        while True:
            self.assertLess(kills, 1000, "the program comes to its end")
            command = [sys.executable, "-m", "tests.transfers", self.driver, self.place, str(kills + 1), str(count)]
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, cwd=SDK) as process:
                # A transfer that was made before has two points.
                points = 2 * self.count("transfers") + random.randint(1, 16)
                while points > 0 and process.stdout.readline():
                    process.stdin.write(b"\n")
                    process.stdin.flush()
                    points -= 1
                end = time.perf_counter() + random.random() / 2000
                while time.perf_counter() < end:
                    pass
                if points > 0:
                    self.assertEqual(process.wait(DEADLINE), 0)
                    break
                os.kill(process.pid, signal.SIGKILL)
            kills += 1
        self.assertGreater(kills, 1)
        self.assertEqual(self.rows("SELECT balance FROM accounts ORDER BY name"), [(-count,), (count,)])
        self.assertEqual(self.rows("SELECT number FROM transfers ORDER BY number"), [(number,) for number in range(count)])

    def outbox(self):
        return self.rows("SELECT job_id, queue, lane, type, payload, encoding, headers, run_at_ms, options FROM streamfleet_outbox ORDER BY seq")

    def test_a_job_in_the_outbox_is_a_row_of_the_transaction(self):
        self.begin()
        id = outbox.add(self.connection, "mail.send", {"to": "ann\\ü'\0"})  # noqa: A001
        self.assertRegex(id, re.compile(r"^[0-9a-f]{32}$"))
        self.assertNotEqual(id, outbox.add(self.connection, "mail.send"))
        self.end()
        first, second = self.outbox()
        self.assertEqual(first, (id, "default", None, "mail.send", b'{"to":"ann\\\\\xc3\xbc\'\\u0000"}', None, None, None, None))
        self.assertEqual(second[4], b"null")
        self.begin()
        outbox.add(self.connection, "mail.send")
        self.end("ROLLBACK")
        self.assertEqual(self.count("streamfleet_outbox"), 2)
        if self.autocommit:
            self.refused(RuntimeError, "no transaction is open", outbox.add, self.connection, "mail.send")
            self.refused(RuntimeError, "no transaction is open", outbox.add_all, self.connection, [])
            outbox.add(self.connection, "mail.send", autocommit=True)
            self.assertEqual(self.count("streamfleet_outbox"), 3)

    def test_every_option_is_in_the_row(self):
        self.begin()
        options = {"id": "order-7", "queue": "mail", "run_at": 1700000000.5, "expires_at": 1800000000, "max_attempts": 4, "timeout": 30}
        options.update(priority=9, tracking="all", headers={"tenant": "ü"}, on_success="b", on_failure="c", then=[{"type": "d"}])
        options.update(batch="n", traceparent="00-1-2-01")
        self.assertEqual(outbox.add(self.connection, "a", b"\x81\x00\xff\\", encoding="msgpack", **options), "order-7")
        now = int(time.time() * 1000)
        outbox.add(self.connection, "a", delay=60)
        outbox.add(self.connection, Submission("b", 7, lane="low", run_at=1700000000))
        self.end()
        first, delayed, low = self.outbox()
        self.assertEqual(first[:6], ("order-7", "mail", "high", "a", b"\x81\x00\xff\\", "msgpack"))
        self.assertEqual((json.loads(first[6]), first[7]), ({"tenant": "ü"}, 1700000000500))
        more = {"expires_at_ms": "1800000000000", "max_attempts": "4", "timeout_ms": "30000", "tracking": "all"}
        more.update(on_success="b", on_failure="c", then='[{"type":"d"}]', batch="n", traceparent="00-1-2-01")
        self.assertEqual(json.loads(first[8]), more)
        self.assertTrue(now + 60_000 - 1 <= delayed[7] < now + 120_000, delayed)
        self.assertEqual(low[1:5] + low[7:8], ("default", "low", "b", b"7", 1700000000000))

    def test_many_jobs_are_few_statements(self):
        self.begin()
        ids = outbox.add_all(self.connection, (Submission("a", number) for number in range(1201)))
        self.assertEqual((len(ids), len(set(ids))), (1201, 1201))
        # A statement has about 1 MiB.
        outbox.add_all(self.connection, [Submission("a", "x" * 700_000)] * 5)
        self.end()
        self.assertEqual([int(row[4]) for row in self.outbox()[:1201]], list(range(1201)))
        self.assertEqual(self.count("streamfleet_outbox"), 1206)

    def test_the_outbox_takes_only_what_the_wire_takes(self):
        self.begin()
        self.refused(ValueError, "type does not match", outbox.add, self.connection, "A")
        self.refused(TypeError, "there is no option 'countdown': use delay", outbox.add, self.connection, "a", countdown=1)
        self.refused(ValueError, "streamfleet.Http or Cli", outbox.add, self.connection, "a", unique="k")
        self.refused(TypeError, "its own payload", outbox.add, self.connection, Submission("a"), delay=1)
        self.refused(TypeError, "use Submission", outbox.add_all, self.connection, ["a"])
        self.end()
        self.assertEqual(self.count("streamfleet_outbox"), 0)

    def test_an_effect_and_a_job_are_one_transaction(self):
        def work(connection):
            transfer(connection)
            return outbox.add(connection, "mail.send", id="receipt-7")

        for fence in ("17-0", "18-0"):
            self.assertEqual(once(self.connection, order(fence=fence), work), "receipt-7")
        self.assertEqual((self.count("transfers"), self.count("streamfleet_outbox")), (1, 1))


class Rows:
    """Rows that are no tuples."""

    def test_rows_may_be_dicts(self):
        connection = self.with_dicts()
        self.addCleanup(connection.close)
        self.assertEqual(once(connection, order(), transfer), RESULT)
        self.assertEqual(once(connection, order(fence="18-0"), transfer), RESULT)
        self.refused(Superseded, "a later attempt", once, connection, order(fence="16-0"), transfer)


class Sqlite(Rows, Drivers, unittest.TestCase):
    def with_dicts(self):
        connection = self.connect()
        connection.row_factory = lambda cursor, row: {column[0]: value for column, value in zip(cursor.description, row)}
        return connection

    def test_a_connection_of_pep_249(self):
        if sys.version_info < (3, 12):
            self.skipTest("sqlite3 has no autocommit before Python 3.12")
        with sqlite3.connect(self.place, autocommit=False) as connection:
            self.refused(RuntimeError, "autocommit=True", once, connection, order(), transfer)
            outbox.add(connection, "a")
            connection.commit()
        self.assertEqual(self.count("streamfleet_outbox"), 1)
        with sqlite3.connect(self.place, autocommit=True) as connection:
            self.assertEqual(once(connection, order(), transfer), RESULT)
            self.refused(RuntimeError, "no transaction is open", outbox.add, connection, "a")
        self.assertEqual(self.count("transfers"), 1)

    def test_a_class_of_the_application(self):
        class Mine(sqlite3.Connection):
            pass

        connection = sqlite3.connect(self.place, factory=Mine)
        self.addCleanup(connection.close)
        self.assertEqual(once(connection, order(), transfer), RESULT)
        self.refused(TypeError, "is not a connection of", once, object(), order(), transfer)


class SqliteAutocommit(Drivers, unittest.TestCase):
    autocommit = True


class Psycopg(Rows, Drivers, unittest.TestCase):
    driver = "psycopg"

    def with_dicts(self):
        connection = self.connect()
        connection.row_factory = importlib.import_module("psycopg.rows").dict_row
        return connection

    def test_an_asynchronous_connection_is_refused(self):
        kind = importlib.import_module("psycopg").AsyncConnection
        self.refused(TypeError, "asyncio.to_thread", once, kind.__new__(kind), order(), transfer)


class PsycopgAutocommit(Drivers, unittest.TestCase):
    driver = "psycopg"
    autocommit = True


class Psycopg2(Rows, Drivers, unittest.TestCase):
    driver = "psycopg2"

    def with_dicts(self):
        connection = self.connect()
        connection.cursor_factory = importlib.import_module("psycopg2.extras").RealDictCursor
        return connection


class Psycopg2Autocommit(Drivers, unittest.TestCase):
    driver = "psycopg2"
    autocommit = True


class PyMySql(Rows, Drivers, unittest.TestCase):
    driver = "pymysql"

    def with_dicts(self):
        pymysql = importlib.import_module("pymysql")
        flags = importlib.import_module("pymysql.constants.CLIENT")
        options = {"unix_socket": self.place, "user": "root", "database": "fleet", "charset": "utf8mb4"}
        return pymysql.connect(cursorclass=importlib.import_module("pymysql.cursors").DictCursor, client_flag=flags.FOUND_ROWS, **options)


class PyMySqlAutocommit(Drivers, unittest.TestCase):
    driver = "pymysql"
    autocommit = True


class MySqlClient(Drivers, unittest.TestCase):
    driver = "MySQLdb"


if __name__ == "__main__":
    unittest.main()
