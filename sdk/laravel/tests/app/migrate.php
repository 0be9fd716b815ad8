<?php

// The tables that `php artisan queue:failed-table` and `queue:batches-table` describe, and that of the notes.

declare(strict_types=1);

use Illuminate\Database\Schema\Blueprint;
use Illuminate\Support\Facades\Schema;

touch((string) getenv('DB_DATABASE'));
require __DIR__ . '/bootstrap.php';
Schema::create('notes', static function (Blueprint $table): void {
    $table->id();
    $table->string('what');
    $table->double('at');
});
Schema::create('failed_jobs', static function (Blueprint $table): void {
    $table->id();
    $table->string('uuid')->unique();
    $table->text('connection');
    $table->text('queue');
    $table->longText('payload');
    $table->longText('exception');
    $table->timestamp('failed_at')->useCurrent();
});
Schema::create('job_batches', static function (Blueprint $table): void {
    $table->string('id')->primary();
    $table->string('name');
    $table->integer('total_jobs');
    $table->integer('pending_jobs');
    $table->integer('failed_jobs');
    $table->text('failed_job_ids');
    $table->mediumText('options')->nullable();
    $table->integer('cancelled_at')->nullable();
    $table->integer('created_at');
    $table->integer('finished_at')->nullable();
});
