"""A program that is killed: it makes transfers, each as a job. At each point where it may be killed, it prints a line and waits for one."""

import sys

from streamfleet import Job, once
from tests.databases import connect


def point(name):
    print(name, flush=True)
    sys.stdin.readline()


def transfer(number):
    def work(connection):
        cursor = connection.cursor()
        cursor.execute("UPDATE accounts SET balance = balance - 1 WHERE name = 'ann'")
        point("half")
        cursor.execute("UPDATE accounts SET balance = balance + 1 WHERE name = 'bob'")
        cursor.execute(f"INSERT INTO transfers VALUES ({number})")
        point("worked")
        return number

    return work


def main(driver, place, attempt, count):
    connection = connect(driver, place)
    for number in range(int(count)):
        point("begin")
        assert once(connection, Job("pay", id=f"transfer-{number}", fence=f"{attempt}-{number}"), transfer(number)) == number
        point("done")


main(*sys.argv[1:])
