<?php

declare(strict_types=1);

namespace app\queue\redis;

use app\Notes;
use Webman\RedisQueue\Consumer;

class SendMail implements Consumer
{
    public $queue = 'send-mail';
    public $connection = 'default';

    public function consume($data)
    {
        Notes::add('mailed ' . (is_array($data) ? "{$data['to']}: {$data['content']}" : var_export($data, true)));
    }
}
