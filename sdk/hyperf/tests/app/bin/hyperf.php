#!/usr/bin/env php
<?php

// The application's command, as Hyperf's skeleton has it, on the stand-ins of tests/contract.

declare(strict_types=1);

define('BASE_PATH', dirname(__DIR__));
$app = require BASE_PATH . '/bootstrap.php';
exit($app->run());
