<?php

return [
    'default' => [
        'host' => 'redis://127.0.0.1:' . getenv('REDIS_PORT'),
        'options' => [
            'auth' => '',
            'db' => 0,
            'max_attempts' => 2,
            'retry_seconds' => 1,
        ],
    ],
    'other' => [
        'host' => 'redis://127.0.0.1:' . getenv('REDIS_PORT'),
        'options' => [
            'max_attempts' => 0,
            'retry_seconds' => 1,
        ],
    ],
];
