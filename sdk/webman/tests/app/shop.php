<?php

// What the application does: mails, a delay, retries, failures, a consumer that corrects its job, another connection.

declare(strict_types=1);

require __DIR__ . '/vendor/autoload.php';
require __DIR__ . '/support/bootstrap.php';

use Webman\RedisQueue\Client;
use Webman\RedisQueue\Redis;

Client::send('send-mail', ['to' => 'ann@example.com', 'content' => 'hello']);
app\Notes::add('sent');
assert(Redis::send('send-mail', ['to' => 'later@example.com', 'content' => 'hello'], 2));
Redis::send('send-mail', 'text');
Client::send('Charge.Card', ['card' => 'visa', 'failures' => 2]);
Client::send('Charge.Card', ['card' => 'amex', 'failures' => 9]);
Client::send('Charge.Card', ['card' => 'stolen', 'failures' => 0]);
Client::send('Charge.Card', ['card' => 'corrected', 'failures' => 9]);
Client::send('Charge.Card', ['card' => 'patient', 'failures' => 9]);
Client::connection('other')->send('report', 'november');
Redis::connection('other')->send('report', 'wrong');
