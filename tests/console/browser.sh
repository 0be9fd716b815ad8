#!/usr/bin/env bash
# usage: browser.sh [--quick] [--if-possible] [--pictures] [--large N] [--situations] [--mails N]
#
# Uses the console in a real Chromium, with the real program, a private Redis, and jobs in every state: looks at every page in two languages, at
# four widths and in two themes, checks it with axe-core, does every action, and lets sessions end and Redis go. With --quick, every page is
# opened once, and looked at at two widths. With --large, N jobs wait, and only what depends on their number is checked. With --pictures, it also
# saves the pictures of the documentation to docs/pictures. With --situations, it only solves twelve situations of a night on call, by the console
# and by `top`, and prints how many clicks or keys and seconds each takes; --mails says how many mails wait meanwhile (20000).
#
# tools.sh gets Playwright from PyPI and axe-core from npm. Chromium is Debian's; Playwright downloads none. STREAMFLEET_BIN is the program; by
# default, the newest build. STREAMFLEET_CHROMIUM is another Chromium. Pictures of pages that fail are in target/browser. Exit code 0: every check
# passed, or with --if-possible, a tool cannot be installed.
set -euo pipefail
# shellcheck source=tools.sh
. "$(dirname "${BASH_SOURCE[0]}")/tools.sh"
options=(--failures "${CARGO_TARGET_DIR:-$root/target}/browser")
while [ $# -gt 0 ]; do
  case $1 in
    --quick) options+=(--quick) ;;
    --if-possible) is_optional=yes ;;
    --pictures) options+=(--pictures "$root/docs/pictures") ;;
    --large) options+=(--large "${2:?browser.sh --large needs a number of jobs}") && shift ;;
    --situations) mails=${mails:-20000} ;;
    --mails) mails=${2:?browser.sh --mails needs a number of mails} && shift ;;
    *) sed -n 2p "${BASH_SOURCE[0]}" >&2; exit 2 ;;
  esac
  shift
done
[ -z "${mails:-}" ] || options+=(--situations "$mails")
find_program
find_server
chromium=${STREAMFLEET_CHROMIUM:-chromium}
# The fonts have the letters of both languages.
command -v "$chromium" >/dev/null || from_system chromium fonts-liberation fonts-wqy-zenhei
chromium=$(command -v "$chromium") || missing "$chromium is not on the PATH"
python_set "$console/browser/requirements.txt"
npm_package axe-core@4.14.1
cd "$console"
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$console:$root/grafana:$root/tests/terminal PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 \
  python3 -m browser "$program" "$server" "$chromium" "$node_modules/axe-core/axe.min.js" "${options[@]}"
