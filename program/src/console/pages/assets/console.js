"use strict";

// What the pages do beyond links and forms: they refresh themselves while somebody looks, and know some keys. Without this
// script everything still works.

(() => {
  const EVERY_MS = 2000;
  const SLOWEST_MS = 30000;
  const live = document.getElementById("live");
  let isOn = true;
  let delay = EVERY_MS;
  let timer = 0;

  const parts = () => [...document.querySelectorAll("[data-live][id]")];

  function show(state) {
    if (!live) return;
    live.hidden = parts().length === 0;
    live.className = "live " + state;
    live.textContent = live.dataset[state] || "";
  }

  // Somebody who types or has chosen text must not lose it.
  function isBusy(part) {
    const active = document.activeElement;
    const types = active && part.contains(active) && /^(INPUT|TEXTAREA|SELECT)$/.test(active.tagName);
    const chosen = document.getSelection();
    return types || (chosen && !chosen.isCollapsed && part.contains(chosen.anchorNode));
  }

  function replace(old, fresh) {
    if (isBusy(old) || old.innerHTML === fresh.innerHTML) return;
    const open = [...old.querySelectorAll("details[open][id]")].map((one) => one.id);
    const active = old.contains(document.activeElement) ? document.activeElement : null;
    const href = active && active.getAttribute("href");
    const scrolled = [...old.querySelectorAll("[id]")].filter((one) => one.scrollTop).map((one) => [one.id, one.scrollTop]);
    old.replaceWith(fresh);
    open.forEach((id) => { const one = document.getElementById(id); if (one) one.open = true; });
    scrolled.forEach(([id, top]) => { const one = document.getElementById(id); if (one) one.scrollTop = top; });
    if (active) {
      const same = (active.id && document.getElementById(active.id)) ||
        (href && [...fresh.querySelectorAll("a")].find((one) => one.getAttribute("href") === href));
      if (same) same.focus({ preventScroll: true });
    }
    enhance(fresh);
  }

  async function refresh() {
    const answer = await fetch(location.href, { headers: { "x-part": "live" }, credentials: "same-origin", redirect: "error" });
    if (!answer.ok) throw new Error(String(answer.status));
    const text = await answer.text();
    const fresh = new DOMParser().parseFromString(text, "text/html");
    for (const part of parts()) {
      const found = fresh.getElementById(part.id);
      if (found) replace(part, document.adoptNode(found));
    }
  }

  function plan() {
    clearTimeout(timer);
    if (isOn && !document.hidden && parts().length > 0) timer = setTimeout(tick, delay);
  }

  async function tick() {
    try {
      await refresh();
      delay = EVERY_MS;
      show("on");
    } catch {
      delay = Math.min(delay * 2, SLOWEST_MS);
      show("lost");
    }
    plan();
  }

  function toggle() {
    isOn = !isOn;
    show(isOn ? "on" : "off");
    plan();
  }

  // Times in the zone of the reader, as a hint.
  function enhance(root) {
    for (const time of root.querySelectorAll("time[datetime]")) {
      const date = new Date(time.dateTime);
      if (!Number.isNaN(date.getTime())) time.title = date.toLocaleString(document.documentElement.lang);
    }
    for (const button of root.querySelectorAll("button[data-copy]")) {
      button.hidden = false;
      button.addEventListener("click", () => copy(button));
    }
  }

  async function copy(button) {
    const from = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(from.textContent);
      const before = button.textContent;
      button.textContent = button.dataset.done;
      setTimeout(() => { button.textContent = before; }, 1500);
    } catch {
      const range = document.createRange();
      range.selectNodeContents(from);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
    }
  }

  let at = -1;
  function move(by) {
    const rows = [...document.querySelectorAll("main tbody tr")].filter((row) => row.querySelector("a[href]"));
    if (rows.length === 0) return;
    at = Math.max(0, Math.min(rows.length - 1, at + by));
    document.querySelectorAll("tr.at").forEach((row) => row.classList.remove("at"));
    rows[at].classList.add("at");
    rows[at].querySelector("a[href]").focus();
  }

  let first = "";
  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || document.querySelector("dialog[open]")) return;
    const key = first + event.key;
    first = "";
    if (key === "?") document.getElementById("keys").showModal();
    else if (key === "j") move(1);
    else if (key === "k") move(-1);
    else if (key === ".") toggle();
    else if (key === "g") { first = "g"; setTimeout(() => { first = ""; }, 1000); return; }
    else {
      const target = document.querySelector(`[data-key="${CSS.escape(key)}"]`);
      if (!target) return;
      if (target.tagName === "A") location.assign(target.href);
      else target.focus();
    }
    event.preventDefault();
  }

  document.addEventListener("keydown", onKey);
  document.addEventListener("visibilitychange", () => { if (!document.hidden && isOn && parts().length > 0) tick(); else clearTimeout(timer); });
  const help = document.getElementById("help");
  help.hidden = false;
  help.addEventListener("click", () => document.getElementById("keys").showModal());
  enhance(document);
  show("on");
  plan();
})();
