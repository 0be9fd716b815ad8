<?php

declare(strict_types=1);

namespace app\queue\redis;

use app\Notes;
use Webman\RedisQueue\Consumer;
use Workerman\RedisQueue\UnretryableException;

class ChargeCard implements Consumer
{
    public $queue = 'Charge.Card';
    public $connection = 'default';

    public function consume($data)
    {
        Notes::add("charges {$data['card']}");
        if ($data['card'] === 'stolen') {
            throw new UnretryableException('never again');
        }
        if (Notes::redis()->incr("charged {$data['card']}") <= $data['failures']) {
            throw new \RuntimeException('the bank is busy');
        }
        Notes::add("charged {$data['card']}");
    }

    public function onConsumeFailure(\Throwable $error, $package)
    {
        Notes::add("{$package['data']['card']} has failed {$package['attempts']} of {$package['max_attempts']}: {$package['error']}, {$package['queue']}");
        if ($package['data']['card'] === 'corrected') {
            $package['data'] = ['card' => 'right', 'failures' => 0];
        }
        if ($package['data']['card'] === 'patient') {
            $package['max_attempts'] = 3;
        }
        return $package;
    }
}
