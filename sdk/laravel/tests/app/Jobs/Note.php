<?php

declare(strict_types=1);

namespace App\Jobs;

use Illuminate\Support\Facades\DB;

/** What happens is noted in a table, by which the test compares drivers. */
trait Note
{
    private function note(string $what): void
    {
        DB::table('notes')->insert(['what' => $what, 'at' => microtime(true)]);
    }
}
