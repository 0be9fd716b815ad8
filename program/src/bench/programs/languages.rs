//! The interpreters, and programs for them that do nothing.

/// An interpreter, and programs for it that do nothing.
pub(super) struct Language {
    pub(super) name: &'static str,
    interpreter: [&'static str; 2],
    /// Answers each job at once.
    pub(super) pool: &'static str,
    /// Works on many jobs at once. `None` if programs in this language do not.
    pub(super) inflight: Option<&'static str>,
    /// Ends at once.
    pub(super) exec: &'static str,
    /// Answers each POST at once.
    pub(super) site: &'static str,
    /// How a server with the site starts: `{file}` and `{port}` stand for those of the site.
    serving: [&'static str; 4],
}

pub(super) const LANGUAGES: [Language; 3] = [
    Language {
        name: "python",
        interpreter: ["python3", "-c"],
        pool: r#"
import json, sys
for line in sys.stdin:
    job = json.loads(line)
    if job["type"] == "hello": answer = {"type": "ready", "protocol": 1, "ahead": job["ahead"]}
    else: answer = {"type": "result", "ref": job["ref"], "outcome": "done"}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
"#,
        inflight: Some(
            r#"
import asyncio, json, sys
def say(answer):
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
async def perform(job):
    say({"type": "result", "ref": job["ref"], "outcome": "done"})
async def main():
    loop, lines, tasks = asyncio.get_running_loop(), asyncio.StreamReader(), set()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        job = json.loads(line)
        if job["type"] == "hello":
            say({"type": "ready", "protocol": 1, "inflight": job["inflight"]})
        else:
            task = loop.create_task(perform(job))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
asyncio.run(main())
"#,
        ),
        exec: "pass",
        site: r#"
import http.server, json, sys
class Jobs(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(204)
        self.end_headers()
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Jobs).serve_forever()
"#,
        serving: ["python3", "-u", "{file}", "{port}"],
    },
    Language {
        name: "php",
        interpreter: ["php", "-r"],
        pool: r#"
while (($line = fgets(STDIN)) !== false) {
    $job = json_decode($line, true);
    $answer = $job["type"] === "hello" ? ["type" => "ready", "protocol" => 1, "ahead" => $job["ahead"]]
        : ["type" => "result", "ref" => $job["ref"], "outcome" => "done"];
    fwrite(STDOUT, json_encode($answer) . "\n");
}
"#,
        inflight: None,
        exec: "exit(0);",
        site: r#"<?php
json_decode(file_get_contents("php://input"), true);
http_response_code(204);
"#,
        serving: ["php", "-S", "127.0.0.1:{port}", "{file}"],
    },
    Language {
        name: "node",
        interpreter: ["node", "-e"],
        pool: NODE,
        inflight: Some(NODE),
        exec: "0",
        site: r#"
require("http").createServer((request, response) => {
    const chunks = [];
    request.on("data", (chunk) => chunks.push(chunk)).on("end", () => {
        JSON.parse(Buffer.concat(chunks));
        response.writeHead(204).end();
    });
}).listen(Number(process.argv[2]), "127.0.0.1");
"#,
        serving: ["node", "--no-warnings", "{file}", "{port}"],
    },
];

/// Answers each job at once, whether it has one or many.
const NODE: &str = r#"
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
    const job = JSON.parse(line);
    const answer = job.type === "hello" ? { type: "ready", protocol: 1, ahead: job.ahead, inflight: job.inflight }
        : { type: "result", ref: job.ref, outcome: "done" };
    process.stdout.write(JSON.stringify(answer) + "\n");
});
"#;

impl Language {
    /// Returns the program that runs the others.
    pub(super) fn interpreter(&self) -> &'static str {
        self.interpreter[0]
    }

    /// Returns the command of a program in this language.
    pub(super) fn command(&self, program: &str) -> Vec<String> {
        let [interpreter, flag] = self.interpreter;
        [interpreter, flag, program].map(str::to_owned).to_vec()
    }

    /// Returns the command of the server whose site is in this file.
    pub(super) fn serving(&self, file: &str, port: u16) -> Vec<String> {
        let port = port.to_string();
        self.serving.map(|part| part.replace("{file}", file).replace("{port}", &port)).to_vec()
    }
}
