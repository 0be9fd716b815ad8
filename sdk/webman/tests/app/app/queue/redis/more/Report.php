<?php

declare(strict_types=1);

namespace app\queue\redis\more;

use app\Notes;
use Webman\RedisQueue\Consumer;
use Workerman\Timer;

class Report implements Consumer
{
    public $queue = 'report';
    public $connection = 'other';

    public function consume($data)
    {
        Notes::add("reports $data");
        if ($data === 'wrong') {
            throw new \RuntimeException('no such month');
        }
        if ($data === 'exit') {
            exit(3);
        }
        if ($data === 'timed') {
            Timer::add(1, static fn () => Notes::add('it is time'), [], false);
        }
        while ($data === 'long' && !Notes::redis()->exists('go')) {
            usleep(10_000);
        }
        Notes::add("reported $data");
    }
}
