<?php

return [
    'enable' => false,
    'namespace' => 'sf',           // the prefix of the fleet's keys
    'program' => 'streamfleet',    // the program, or its path
    'ahead' => 0,                  // how many further jobs a process gets while it works
    'config' => null,              // a streamfleet.toml of your own
];
