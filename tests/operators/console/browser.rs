//! A browser without a window: it keeps cookies, follows what answers lead to, and sends forms with all their fields.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use scraper::{ElementRef, Html, Selector};

use harness::desk::launch;
use harness::process::{Launch, Worker};
use harness::redis_server::RedisServer;
use harness::wait::until;

const SOON: Duration = Duration::from_secs(60);

/// How often an answer may lead to another.
const MAX_HOPS: u32 = 5;

/// A running console, and somebody who uses it.
pub(crate) struct Browser {
    /// The process ends with the test.
    _console: Worker,
    address: String,
    cookies: BTreeMap<String, String>,
    language: String,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) status: u16,
    /// In lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
    /// The address that answered in the end.
    pub(crate) path: String,
}

impl Browser {
    /// Starts a console for this server, and logs in with the link that it prints.
    pub(crate) fn open(server: &RedisServer) -> Self {
        Self::open_at(launch(server, &["console", "--listen", "127.0.0.1:0"]))
    }

    /// Starts this console, and logs in with the link that it prints.
    pub(crate) fn open_at(console: Launch) -> Self {
        let console = console.start();
        let link = until("the console to print its address", SOON, || {
            console.stdout().lines().find_map(|line| line.strip_prefix("console: http://").map(str::to_owned))
        });
        let (address, path) = link.split_once('/').unwrap();
        let mut browser = Self {
            address: address.to_owned(),
            _console: console,
            cookies: BTreeMap::new(),
            language: "en".to_owned(),
        };
        let page = browser.get(&format!("/{path}"));
        assert_eq!(page.status, 200, "{page:?}");
        browser
    }

    /// Prefers another language from now on.
    pub(crate) fn prefer(&mut self, language: &str) {
        language.clone_into(&mut self.language);
    }

    /// Opens a page, and follows where it leads. On a busy machine, the time of a search may end before it has looked at much:
    /// then the page is opened again.
    pub(crate) fn get(&mut self, path: &str) -> Page {
        let begun = Instant::now();
        loop {
            let page = self.follow("GET", path, None, &[]);
            if !page.is_cut_short() || begun.elapsed() > SOON {
                return page;
            }
        }
    }

    /// Opens a page with one more header.
    pub(crate) fn get_with(&mut self, path: &str, header: (&str, &str)) -> Page {
        self.follow("GET", path, None, &[header])
    }

    /// Sends the form whose button is in `main`, with these values instead of those on the page, and follows where it leads.
    pub(crate) fn send(&mut self, page: &Page, values: &[(&str, &str)]) -> Page {
        let (action, mut fields) = page.form();
        for (name, value) in values {
            assert!(
                fields.iter().any(|(known, _)| known == name),
                "no field {name} on {}: {fields:?}",
                page.path
            );
            fields.retain(|(known, _)| known != name);
            fields.push(((*name).to_owned(), (*value).to_owned()));
        }
        self.post(&action, &fields)
    }

    /// Sends these fields.
    pub(crate) fn post(&mut self, path: &str, fields: &[(String, String)]) -> Page {
        let body = fields.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
        let body = body.collect::<Vec<_>>().join("&");
        self.follow("POST", path, Some(&body), &[])
    }

    fn follow(&mut self, method: &str, path: &str, body: Option<&str>, more: &[(&str, &str)]) -> Page {
        let mut page = self.ask(method, path, body, more);
        for _ in 0..MAX_HOPS {
            if !matches!(page.status, 301..=308) {
                return page;
            }
            let to = page.header("location").unwrap().to_owned();
            assert!(to.starts_with('/') && !to.starts_with("//"), "it leads elsewhere: {to}");
            page = self.ask("GET", &to, None, more);
        }
        panic!("{path} leads on and on, last to {}", page.path);
    }

    fn ask(&mut self, method: &str, path: &str, body: Option<&str>, more: &[(&str, &str)]) -> Page {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        let cookies = self.cookies.iter().map(|(name, value)| format!("{name}={value}"));
        let cookies = cookies.collect::<Vec<_>>().join("; ");
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAccept: text/html\r\nAccept-Language: {}\r\n\
             Sec-Fetch-Site: same-origin\r\nCookie: {cookies}\r\n",
            self.address, self.language
        );
        for (name, value) in more {
            write!(head, "{name}: {value}\r\n").unwrap();
        }
        if method == "POST" {
            let kind = "application/x-www-form-urlencoded";
            let bytes = body.unwrap_or_default().len();
            write!(
                head,
                "Origin: http://{}\r\nContent-Type: {kind}\r\nContent-Length: {bytes}\r\n",
                self.address
            )
            .unwrap();
        }
        stream.write_all(format!("{head}\r\n{}", body.unwrap_or_default()).as_bytes()).unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        let page = Page::read(path, &reply);
        for (_, cookie) in page.headers.iter().filter(|(name, _)| name == "set-cookie") {
            let (pair, attributes) = cookie.split_once(';').unwrap_or((cookie, ""));
            let (name, value) = pair.split_once('=').unwrap();
            if attributes.to_lowercase().contains("max-age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        page
    }
}

impl Page {
    fn read(path: &str, reply: &[u8]) -> Self {
        let end = reply.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(reply[..end].to_vec()).unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
            .collect();
        let is_chunked =
            headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        let body = if is_chunked { joined(&reply[end + 4..]) } else { reply[end + 4..].to_vec() };
        Self { status, headers, body: String::from_utf8(body).unwrap(), path: path.to_owned() }
    }

    /// A header of the answer.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The page, as a browser reads it.
    pub(crate) fn html(&self) -> Html {
        Html::parse_document(&self.body)
    }

    /// The text of everything that fits a selector.
    pub(crate) fn text(&self, selector: &str) -> String {
        let html = self.html();
        let selector = Selector::parse(selector).unwrap();
        let found = html.select(&selector);
        found.map(|element| element.text().collect::<String>()).collect::<Vec<_>>().join("\n")
    }

    /// Whether a search had found less than a page, and looked at less than it may, when its time was over.
    fn is_cut_short(&self) -> bool {
        const ROWS: u64 = 50;
        const MOST: u64 = 5000;
        let Some((before, after)) = self.body.split_once(" shown, ") else { return false };
        let number = |text: &str| text.replace(',', "").parse::<u64>().ok();
        let is_digit = |c: char| c.is_ascii_digit() || c == ',';
        let shown = before.rsplit(|c| !is_digit(c)).next().and_then(number);
        let read = after.split(|c| !is_digit(c)).next().and_then(number);
        let has_more = after.contains("There may be more on the next page.");
        has_more && shown.is_some_and(|shown| shown < ROWS) && read.is_some_and(|read| read < MOST)
    }

    /// What an attribute of everything that fits a selector says.
    pub(crate) fn attributes(&self, selector: &str, name: &str) -> Vec<String> {
        let html = self.html();
        let selector = Selector::parse(selector).unwrap();
        let found = html.select(&selector);
        found.filter_map(|element| element.attr(name)).map(str::to_owned).collect()
    }

    /// Where the form of the page is sent to, and its fields with their values.
    fn form(&self) -> (String, Vec<(String, String)>) {
        let html = self.html();
        let forms = Selector::parse("main form[method=post]").unwrap();
        let form = html.select(&forms).next();
        let form = form.unwrap_or_else(|| panic!("no form on {}: {}", self.path, self.body));
        let named = Selector::parse("input[name], select[name], textarea[name]").unwrap();
        let fields = form.select(&named);
        let fields = fields.filter_map(|field| Some((field.attr("name")?.to_owned(), value(field)?)));
        (form.attr("action").unwrap().to_owned(), fields.collect())
    }
}

/// What a browser would send of a field; nothing of a box that is not checked.
fn value(field: ElementRef<'_>) -> Option<String> {
    match field.value().name() {
        "textarea" => {
            let text: String = field.text().collect();
            Some(text.strip_prefix('\n').unwrap_or(&text).to_owned())
        }
        "select" => {
            let option = Selector::parse("option").unwrap();
            let options: Vec<ElementRef<'_>> = field.select(&option).collect();
            let chosen = options.iter().find(|option| option.attr("selected").is_some()).or(options.first());
            chosen.and_then(|option| option.attr("value")).map(str::to_owned)
        }
        // Tests may check any box by naming it.
        _ if field.attr("type") == Some("checkbox") => {
            Some(if field.attr("checked").is_some() { "yes".to_owned() } else { String::new() })
        }
        _ => Some(field.attr("value").unwrap_or_default().to_owned()),
    }
}

/// A body that was sent in parts.
fn joined(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n").unwrap();
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 4 + size..];
    }
}

fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
