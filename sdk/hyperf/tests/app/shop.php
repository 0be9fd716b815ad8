<?php

// What the application does: mails, a delay, retries, a failure, results, methods that run asynchronously.

declare(strict_types=1);

define('BASE_PATH', __DIR__);
require __DIR__ . '/bootstrap.php';

use App\Job\{Answer, ChargeCard, SendMail};
use App\Service\News;
use Hyperf\AsyncQueue\Driver\DriverFactory;
use Hyperf\Context\ApplicationContext;

use function Hyperf\AsyncQueue\dispatch;

$driver = ApplicationContext::getContainer()->get(DriverFactory::class)->get('default');
assert($driver->push(new SendMail('ann@example.com')));
App\Notes::add('pushed');
assert(dispatch(new SendMail('later@example.com'), 2));
dispatch(new ChargeCard('visa', 2));
dispatch(new ChargeCard('amex', 9));
foreach (['requeue', 'retry', 'drop'] as $result) {
    dispatch(new Answer($result));
}
call(News::class, 'publish', 'the first one');
