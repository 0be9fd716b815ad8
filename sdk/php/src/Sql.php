<?php

declare(strict_types=1);

namespace Streamfleet;

/** @internal Statements of this package on a connection of the application. */
final class Sql
{
    /**
     * The kind of database.
     *
     * @return string mysql (also MariaDB), pgsql or sqlite
     * @throws \LogicException if it is another one, or if the connection hides errors
     */
    public static function driver(\PDO $db): string
    {
        $driver = $db->getAttribute(\PDO::ATTR_DRIVER_NAME);
        if (!in_array($driver, ['mysql', 'pgsql', 'sqlite'], true)) {
            throw new \LogicException("this needs MySQL, MariaDB, PostgreSQL or SQLite; the driver of this connection is $driver");
        }
        // A statement that fails without a word would be committed as done.
        if ($db->getAttribute(\PDO::ATTR_ERRMODE) !== \PDO::ERRMODE_EXCEPTION) {
            throw new \LogicException('this connection hides errors: set PDO::ATTR_ERRMODE to PDO::ERRMODE_EXCEPTION');
        }
        return $driver;
    }

    /**
     * Runs a statement.
     *
     * @param list<string|int|null> $values
     * @param list<int> $bytes which of the values are bytes rather than text, by their place from 0
     */
    public static function run(\PDO $db, string $sql, array $values, array $bytes = []): \PDOStatement
    {
        $statement = $db->prepare($sql);
        foreach ($values as $place => $value) {
            $statement->bindValue($place + 1, $value, match (true) {
                $value === null => \PDO::PARAM_NULL,
                is_int($value) => \PDO::PARAM_INT,
                in_array($place, $bytes, true) => \PDO::PARAM_LOB,
                default => \PDO::PARAM_STR,
            });
        }
        $statement->execute();
        return $statement;
    }

    /** Bytes of a row: PostgreSQL's driver returns them as a stream. */
    public static function bytes(mixed $value): ?string
    {
        return is_resource($value) ? (string) stream_get_contents($value) : $value;
    }
}
