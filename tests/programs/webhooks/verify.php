<?php
error_reporting(E_ALL);
// EXAMPLES
$body = file_get_contents('body');
foreach (file('cases', FILE_IGNORE_NEW_LINES) as $line) {
    $words = explode("\t", $line);
    $headers = [];
    foreach (array_slice($words, 2) as $word) {
        [$name, $value] = explode('=', $word, 2);
        $headers[$name] = $value;
    }
    $is_good = $words[0] === 'verifyJws'
        ? verifyJws(json_decode(file_get_contents('jwks'), true), $words[1], $headers, $body)
        : verify($words[1], $headers, $body, $words[0] === 'verify' ? 300 : 1_000_000_000);
    echo $is_good ? "true\n" : "false\n";
}
