<?php

return [
    'default' => ['host' => '127.0.0.1', 'auth' => null, 'port' => (int) getenv('REDIS_PORT'), 'db' => 0],
];
