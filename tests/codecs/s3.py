"""Stores in buckets, with the official clients and a server that speaks S3.

    STREAMFLEET_AWS=FOLDER python3 tests/codecs/s3.py

It needs boto3 and moto with its server. FOLDER has what `npm install @aws-sdk/client-s3`, `composer require aws/aws-sdk-php` and
`gem install --install-dir gems aws-sdk-s3` make. A language whose client is missing is skipped.
"""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "sdk" / "python"))

import boto3  # noqa: E402
from moto.server import ThreadedMotoServer  # noqa: E402

from streamfleet.codecs import S3, CodecError, Codecs  # noqa: E402

AWS = pathlib.Path(os.environ.get("STREAMFLEET_AWS", "."))
TEXT = "a payload that is stored apart, " * 40

# Each encodes a payload, prints the header, and decodes it; then it decodes the header that it is given, and one whose object is missing.
PROGRAMS = {
    "node": (
        "node_modules/@aws-sdk/client-s3",
        ["node", "s3.js"],
        """
const { S3 } = require('@aws-sdk/client-s3');
const { Codecs, S3Claims } = require(process.env.SDK + '/node');
(async () => {
  const client = new S3({ endpoint: process.env.ENDPOINT, region: 'us-east-1', forcePathStyle: true, credentials: { accessKeyId: 'a', secretAccessKey: 'b' } });
  const codecs = new Codecs({ claims: new S3Claims(client, 'payloads', { prefix: 'jobs/' }), claimAbove: 100 });
  const [header, bytes] = await codecs.encodePayload('a', 'json', Buffer.from(process.env.TEXT + 'node'));
  console.log(header);
  console.log((await codecs.decodePayload('a', header, bytes))[1].toString() === process.env.TEXT + 'node');
  console.log((await codecs.decodePayload('a', process.env.HEADER, Buffer.alloc(0)))[1].toString() === process.env.TEXT);
  await codecs.decodePayload('a', 'json claim;sha256=' + '0'.repeat(64), Buffer.alloc(0)).catch((error) => console.log(error.message));
  const small = new Codecs({ claims: new S3Claims(client, 'payloads', { prefix: 'jobs/' }), maxBytes: 9 });
  await small.decodePayload('a', header, bytes).catch((error) => console.log(error.message));
})();
""",
    ),
    "php": (
        "vendor/aws/aws-sdk-php",
        ["php", "s3.php"],
        r"""<?php
require 'vendor/autoload.php';
require getenv('SDK') . '/php/autoload.php';
use Streamfleet\Codecs;
$client = new Aws\S3\S3Client(['endpoint' => getenv('ENDPOINT'), 'region' => 'us-east-1', 'version' => 'latest', 'use_path_style_endpoint' => true, 'credentials' => ['key' => 'a', 'secret' => 'b']]);
$codecs = new Codecs(claims: new Codecs\S3($client, 'payloads', 'jobs/'), claimAbove: 100);
[$header, $bytes] = $codecs->encodePayload('a', 'json', getenv('TEXT') . 'php');
echo $header, "\n", var_export($codecs->decodePayload('a', $header, $bytes)[1] === getenv('TEXT') . 'php', true), "\n";
echo var_export($codecs->decodePayload('a', getenv('HEADER'), '')[1] === getenv('TEXT'), true), "\n";
$tell = function (Codecs $codecs, string $header): void {
    try {
        $codecs->decodePayload('a', $header, '');
    } catch (Codecs\CodecError $error) {
        echo $error->getMessage(), "\n";
    }
};
$tell($codecs, 'json claim;sha256=' . str_repeat('0', 64));
$tell(new Codecs(claims: new Codecs\S3($client, 'payloads', 'jobs/'), maxBytes: 9), $header);
""",
    ),
    "ruby": (
        "gems/gems",
        ["ruby", "-W0", "s3.rb"],
        """
$LOAD_PATH.unshift(ENV['SDK'] + '/ruby/lib')
Gem.use_paths(nil, [File.expand_path('gems')] + Gem.path)
require 'aws-sdk-s3'
require 'streamfleet'
include Streamfleet
client = Aws::S3::Client.new(endpoint: ENV['ENDPOINT'], region: 'us-east-1', force_path_style: true, access_key_id: 'a', secret_access_key: 'b')
codecs = Codecs.new(claims: Codecs::S3.new(client, 'payloads', prefix: 'jobs/'), claim_above: 100)
header, bytes = codecs.encode_payload('a', 'json', ENV['TEXT'] + 'ruby')
puts header, codecs.decode_payload('a', header, bytes)[1] == ENV['TEXT'] + 'ruby'
puts codecs.decode_payload('a', ENV['HEADER'], '')[1] == ENV['TEXT']
tell = lambda do |with, of|
  with.decode_payload('a', of, '')
rescue CodecError => e
  puts e.message
end
tell.call(codecs, 'json claim;sha256=' + '0' * 64)
tell.call(Codecs.new(claims: Codecs::S3.new(client, 'payloads', prefix: 'jobs/'), max_bytes: 9), header)
""",
    ),
}


def main():
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        endpoint = "http://{}:{}".format(*server.get_host_and_port())
        client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
        client.create_bucket(Bucket="payloads")
        codecs = Codecs(claims=S3(client, "payloads", "jobs/"), claim_above=100)
        header, _ = codecs.encode_payload("a", "json", TEXT.encode())
        assert codecs.decode_payload("a", header, b"") == ("json", TEXT.encode())
        print("ok   python")
        for language, program in PROGRAMS.items():
            run(language, program, endpoint, header, codecs)
    finally:
        server.stop()


def run(language, program, endpoint, header, codecs):
    needs, command, code = program
    if not (AWS / needs).exists():
        print(f"skip {language}: its client is not in {AWS}")
        return
    (AWS / command[-1]).write_text(code.lstrip())
    env = {**os.environ, "SDK": f"{ROOT}/sdk", "ENDPOINT": endpoint, "TEXT": TEXT, "HEADER": header}
    done = subprocess.run(command, cwd=AWS, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    own, back, others, missing, large = done.stdout.strip().splitlines()[-5:]
    assert [back, others] == ["true", "true"], done.stdout
    assert missing.startswith("the store has no payload sha256 000") and large.endswith("has more than 37 bytes"), done.stdout
    assert codecs.decode_payload("a", own, b"")[1].decode() == TEXT + language
    try:
        codecs.decode_payload("a", f"json claim;sha256={'0' * 64}", b"")
    except CodecError as error:
        assert str(error) == missing
    print(f"ok   {language}")


if __name__ == "__main__":
    main()
