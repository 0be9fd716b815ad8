<?php

// A program that is killed: it makes transfers, each as a job. At each point where it may be killed, it prints a line and waits for one.

declare(strict_types=1);

require __DIR__ . '/harness.php';
require __DIR__ . '/jobs.php';

function point(string $name): void
{
    echo "$name\n";
    fgets(STDIN);
}

[, $dsn, $user, $attempt, $count] = $_SERVER['argv'];
$db = new PDO($dsn, $user, '');
for ($number = 0; $number < (int) $count; $number += 1) {
    point('begin');
    $done = Streamfleet\Effects::once($db, aJob("transfer-$number", "$attempt-$number"), static function (PDO $db) use ($number): int {
        $db->exec("UPDATE accounts SET balance = balance - 1 WHERE name = 'ann'");
        point('half');
        $db->exec("UPDATE accounts SET balance = balance + 1 WHERE name = 'bob'");
        $db->exec("INSERT INTO transfers VALUES ($number)");
        point('worked');
        return $number;
    });
    same($number, $done);
    point('done');
}
