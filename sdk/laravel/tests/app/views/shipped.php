Order <?= $order ?> has been shipped.
