<?php

declare(strict_types=1);

namespace Streamfleet;

/**
 * The reply did not arrive. The job may have been accepted, and sending it again may submit it twice. Give such a job its
 * own id, so that its handler can tell.
 */
final class Unconfirmed extends SubmitError
{
}
